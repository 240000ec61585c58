"""Operators return what they found and staged; they hold nothing with which they could write."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tallgrass.operators

#: Packages and modules through which something could be written or sent.
WRITERS = (
    "tallgrass.storage",
    "tallgrass.queues",
    "tallgrass.bootstrap",
    "tallgrass.worker",
    "boto3",
    "obstore",
    "psycopg",
    "sqlite3",
    "socket",
    "urllib.request",
)


@pytest.mark.conformance("C-53")
def test_no_operator_can_write() -> None:
    """No module of the operators imports a store, a queue, a client, or opens a file."""
    (folder,) = tallgrass.operators.__path__
    modules = sorted(Path(folder).glob("*.py"))
    assert len(modules) > 8
    for module in modules:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", module.name
            for name in names:
                assert not name.startswith(WRITERS), f"{module.name} imports {name}"

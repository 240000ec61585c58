"""Nothing leaves but by a sink, and no sink is called but for a recorded row."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tallgrass

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(tallgrass.__file__).parent
#: What others may know of sinks: their form, never one that sends.
FORM = "tallgrass.sinks.protocol"


def imports_of(path: Path) -> Iterator[str]:
    """Yield what a module imports, by full names, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(*names: str) -> set[str]:
    """Return the modules that import any of these, or what is below them."""
    return {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for found in imports_of(path)
        if any(found == name or found.startswith(f"{name}.") for name in names)
    }


@pytest.mark.conformance("OB-3.4")
def test_sinks_are_opened_for_the_dispatcher_alone() -> None:
    """One module opens them, one gives them to a dispatcher, one tries their settings."""
    senders = {
        f"tallgrass.sinks.{path.stem}"
        for path in (SOURCE / "sinks").glob("*.py")
        if path.stem not in {"__init__", "protocol"}
    }
    assert len(senders) > 10
    outside = {name for name in importers(*senders) if not name.startswith("sinks/")}
    assert outside == {"bootstrap/sinks.py"}
    users = importers("tallgrass.bootstrap.sinks.open_target", "tallgrass.bootstrap.sinks")
    assert users == {"bootstrap/outbox.py", "cli/config.py"}


@pytest.mark.conformance("OB-3.4")
def test_only_the_dispatcher_sends() -> None:
    """No other module calls `send` on what may be a sink."""
    holders = {name for name in importers(FORM) if not name.startswith("sinks/")}
    calls = {
        name
        for name in holders
        for node in ast.walk(ast.parse((SOURCE / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "send"
        and "sink" in ast.unparse(node.func.value).lower()
    }
    assert calls == {"outbox/dispatcher.py"}

"""Runs pytest as a process of its own on test files given as text."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from tools.conformance_list import ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: What an inner run loads besides pytest itself; other installed plugins are most of its time.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
CONFIGURATION = """
[pytest]
markers =
    conformance(*ids): requirements
"""


class InnerRun(NamedTuple):
    """How an inner run ended and what it printed."""

    code: int
    output: str


def run_pytest(folder: Path, text: str, *options: str, ci: bool = False) -> InnerRun:
    """Run the tests of `text` in `folder`, with the repository's plugins on the path."""
    (folder / "pytest.ini").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "test_inner.py").write_text(text, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    if ci:
        environment["CI"] = "true"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**environment, **PLUGINS, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return InnerRun(done.returncode, done.stdout)

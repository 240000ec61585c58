"""The example of a graph, as its users run it: crashed, run again, resumed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: By hand: (2.60 - 2.10) / 3 = 0.167, and 2.60 + 6 * 0.167 = 3.60; the others likewise.
REPORT = [
    "06889000: 3.60 m in six hours",
    "06891000: 2.83 m in six hours",
    "06892350: 2.21 m in six hours",
]
GAUGES = ("06889000", "06891000", "06892350")


def run(folder: Path, *options: str) -> tuple[int, list[str]]:
    """How the example ended, and what it said."""
    done = subprocess.run(
        [sys.executable, "examples/example_graph.py", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]


@pytest.mark.conformance("NR-2.1", "NR-3.11", "NR-1.2")
def test_the_example_of_a_graph_is_killed_and_resumes(tmp_path: Path) -> None:
    """What was done before the kill comes from the log, the rest is computed; then the cache."""
    early = ["plan", *(f"rise {gauge}" for gauge in GAUGES)]
    late = ["forecast", "report"]
    assert run(tmp_path, "--crash-at", "forecast") == (
        -9,
        [f"{node} succeeded" for node in early],
    )
    assert run(tmp_path) == (
        0,
        [*(f"{n} recorded" for n in early), *(f"{n} succeeded" for n in late), *REPORT],
    )
    code, said = run(tmp_path, "--run", "tomorrow")
    assert (code, said) == (0, [*(f"{node} cached" for node in [*early, *late]), *REPORT])
    assert (tmp_path / "wal" / "today" / "forecast" / "attempts.json").exists()

"""The example programs say how they are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_answers_help(program: str, tmp_path: Path) -> None:
    """It says its usage and does nothing else."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert list(tmp_path.iterdir()) == []

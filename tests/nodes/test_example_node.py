"""`examples/example_node.py` as real processes: it survives a crash, and undoes what it made."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def example(folder: Path, *ending: str) -> subprocess.CompletedProcess[str]:
    """Run the example once."""
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "example_node.py"), str(folder), *ending],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.conformance("NR-3.10")
def test_a_crash_after_the_effect_doubles_nothing(tmp_path: Path) -> None:
    """The killed process made the effect; the next one knows it and ends the node."""
    assert example(tmp_path, "--crash").returncode == -signal.SIGKILL
    done = example(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "shelf": "06889000.json", "bytes": 41, "mean_cfs": 1460.0,
    }  # fmt: skip
    assert (tmp_path / "made.log").read_text() == "06889000.json\n"
    attempts = json.loads((tmp_path / "wal" / "flow" / "publish" / "attempts.json").read_text())
    assert [each["status"] for each in attempts] == ["started", "succeeded"]


@pytest.mark.conformance("NR-7.6")
def test_a_failure_leaves_nothing_but_its_log(tmp_path: Path) -> None:
    """Shelf and staging are empty, the log tells all, and the node stays failed."""
    failed = example(tmp_path, "--fail")
    assert (failed.returncode, failed.stderr) == (1, "")
    assert "out of order" in failed.stdout
    assert list((tmp_path / "shelf").iterdir()) == list((tmp_path / "staging").iterdir()) == []
    undone = json.loads((tmp_path / "wal" / "flow" / "publish" / "compensation.json").read_text())
    assert [(each["effect"], each["status"]) for each in undone] == [
        ("put_on_shelf", "undone"), ("staged_file", "undone"),
    ]  # fmt: skip
    again = example(tmp_path)
    assert (again.returncode, "failed for good" in again.stdout) == (1, True)


def test_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    """It says how it is called, and runs nothing."""
    wrong = example(tmp_path, "--crsh")
    assert wrong.returncode == 2
    assert "usage: example_node.py" in wrong.stderr
    assert list(tmp_path.iterdir()) == []

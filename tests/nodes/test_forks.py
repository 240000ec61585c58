"""A process that was forked shares neither locks nor threads with its parent."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.nodes.fork_roles import NODES
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def play(role: str, root: Path) -> Any:
    """What a role found, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.nodes.fork_roles", role, str(root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.conformance("NR-3.3")
def test_forked_processes_exclude_each_other(tmp_path: Path) -> None:
    """A runner that was open before the fork is opened anew: one lock for all would be none."""
    found = play("share_a_run", tmp_path / "nodes")
    assert found == {"codes": [0, 0, 0], "tasks": 1 + 3 * NODES}


def test_an_event_loop_after_a_fork_has_threads_for_the_disk(tmp_path: Path) -> None:
    """Threads are not copied by a fork: who waited for the parent's would wait for ever."""
    assert play("loop_after_a_fork", tmp_path / "nodes") == [{"out": 1}, {"out": 2}, None]


def test_a_forked_helper_does_not_keep_the_run(tmp_path: Path) -> None:
    """Its parent was killed and it lives on: the run is resumed at once all the same."""
    found = play("outlive_the_parent", tmp_path / "nodes")
    assert found == {"ended_by": signal.SIGKILL, "answer": {}}

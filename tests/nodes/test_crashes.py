"""Real processes, killed at every file operation: the next one ends as if nothing had been."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import TallgrassError
from tests.nodes.crash_roles import graph
from tests.nodes.faulty_files import ScriptedFiles, failing_at
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def play(role: str, root: Path) -> Any:
    """What a role found."""
    return play_of("crash_roles", role, root)


def play_of(module: str, role: str, root: Path) -> Any:
    """What a role of a module found, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", f"tests.nodes.{module}", role, str(root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.mark.conformance("NR-1.2", "NR-3.10", "NR-3.11", "NR-5.6", "NR-5.7")
def test_a_run_survives_a_kill_at_every_file_operation(tmp_path: Path) -> None:
    """Same result, one effect, and no effect that was not announced, from each crash point."""
    found = play("every_kill", tmp_path)
    assert found["result"] == 25
    assert found["operations"] > 40
    assert found["faults"] == []


@pytest.mark.conformance("NR-12.4", "C-17")
def test_crashes_spend_the_budget_of_retries(tmp_path: Path) -> None:
    """A node that kills its process runs twice where two attempts are allowed, and never again."""
    found = play("killer", tmp_path)
    assert found["calls"] == ["1", "2"]
    assert found["ends"] == [[None, 9], [None, 9], [1, None], [1, None], [1, None]]


@pytest.mark.conformance("NR-12.1")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_run_survives_an_error_at_every_file_operation(tmp_path: Path, code: int) -> None:
    """An error of the log is raised and never taken for success; an error of the cache is not.

    Whatever it was, the run ends well when it is tried again.
    """
    whole = ScriptedFiles(lambda _number, _name: None)
    assert graph(tmp_path / "whole", whole) == 25
    for number in range(0, len(whole.done), 1 if code == errno.ENOSPC else 5):
        root = tmp_path / str(number)
        try:
            assert graph(root, failing_at(number, code)) == 25
        except TallgrassError as error:
            assert error.code in {"node_wal_full", "node_wal_unusable"}  # noqa: PT017
        else:
            assert whole.done[number] in {"open", "write", "link", "remove", "make_folder"}
        assert graph(root, None) == 25
        assert [path.name for path in (root / "outside").iterdir()] == ["object-20"]

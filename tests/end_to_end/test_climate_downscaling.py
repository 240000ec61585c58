"""The example of a dozen nodes: it is killed, goes on, asks a person, publishes, takes back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "examples" / "climate_downscaling" / "run.py")]
#: Every node before a person is asked; `downscale` is called once a tile.
BEFORE = {
    "plan": 1, "read_model": 1, "read_observations": 1, "read_elevation": 1, "find_bias": 1,
    "correct": 1, "downscale": 4, "mosaic": 1, "check": 1,
}  # fmt: skip


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the example once; return its exit code and what it said first."""
    done = subprocess.run(
        [*COMMAND, str(folder), *arguments], check=False, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.partition("\n")[0]


def calls(folder: Path) -> Counter[str]:
    """Count the calls of each node, over all processes."""
    return Counter((folder / "calls.log").read_text(encoding="utf-8").split())


def published(folder: Path) -> dict[str, Any]:
    """Return what the outside sees, by name."""
    found = (folder / "published").glob("*.json")
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in found}


def tasks(folder: Path, run_id: str, node: str) -> list[dict[str, Any]]:
    """Return what `nodes show` says of a node."""
    shown: list[dict[str, Any]] = here(
        "nodes", "show", run_id, node, "--dir", str(folder / "nodes")
    ).json["tasks"]
    return shown


@pytest.mark.slow
@pytest.mark.conformance("NR-2.1")
def test_a_dozen_nodes_survive_a_crash_a_person_and_a_failure(tmp_path: Path) -> None:
    """Killed in the fan-out, resumed, approved, published once; another run fails and is undone."""
    assert run(tmp_path, "--crash-in", "downscale")[0] == -9
    before = calls(tmp_path)
    assert {name: before[name] for name in BEFORE if name != "downscale"} == {
        "plan": 1, "read_model": 1, "read_observations": 1, "read_elevation": 1, "find_bias": 1,
        "correct": 1, "mosaic": 0, "check": 0,
    }  # fmt: skip

    assert run(tmp_path) == (0, "waits for a person: run it again with --approve or --reject")
    after = calls(tmp_path)
    # Nothing that had ended is called again; a tile that was cut off is.
    assert {name: after[name] for name in BEFORE if name != "downscale"} == {
        name: count for name, count in BEFORE.items() if name != "downscale"
    }
    assert after["downscale"] == 4 + before["downscale"]
    assert not (tmp_path / "published").exists()

    code, said = run(tmp_path, "--approve")
    # By hand: a plane of 10 + 0.5 row - 0.25 column, too warm by 1.5; its middle is 1.5, 1.5.
    assert (code, said.partition(",")[0]) == (0, "ssp245: ssp245-r1.json (mean 8.875")
    assert published(tmp_path)["index.json"] == ["ssp245-r1.json"]
    field = published(tmp_path)["ssp245-r1.json"]
    # By hand: the first middle lies 0.375 cells before the first coarse one, at 0 m; the mean
    # height is that of 100 * ((row + 2 * column) % 5) over 16 × 16 cells.
    height = sum(100 * ((row + 2 * column) % 5) for row in range(16) for column in range(16)) / 256
    assert field[0][0] == pytest.approx(8.5 - 0.375 * 0.25 + 0.0065 * height)

    # Answered again, the same: everything is in the run's log, and nothing is published twice.
    assert run(tmp_path, "--approve") == (0, said)
    assert calls(tmp_path)["publish"] == 1
    assert [len(task["effects"]) for task in tasks(tmp_path, "r1", "publish")] == [2]


@pytest.mark.slow
def test_a_publication_that_fails_is_taken_back_and_stays_failed(tmp_path: Path) -> None:
    """Both effects are undone, the newest first; the next run takes all it can from the cache."""
    failed = (1, "failed: the catalog refused the entry")
    assert run(tmp_path, "--approve", "--fail-in", "publish") == failed
    assert published(tmp_path) == {"index.json": []}
    (task,) = tasks(tmp_path, "r1", "publish")
    assert [each["state"] for each in task["effects"]] == ["undone", "undone"]
    assert [each["effect"] for each in task["compensations"]] == ["list", "put"]
    code, said = run(tmp_path, "--approve")
    assert (code, "publish failed for good" in said) == (1, True)
    assert calls(tmp_path)["publish"] == 1

    assert run(tmp_path, "--run", "r2", "--reject")[1].startswith("ssp245: not published")
    assert published(tmp_path) == {"index.json": []}
    assert run(tmp_path, "--run", "r3", "--approve")[0] == 0
    assert published(tmp_path)["index.json"] == ["ssp245-r3.json"]
    counted = calls(tmp_path)
    assert {name: counted[name] for name in BEFORE} == BEFORE

"""The floor of the benchmark of nodes leaves what a graph through a runner leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.nodes import AtLeast, Ours
from bench.nodes_peers import NAMES, WARM_UP

if TYPE_CHECKING:
    from pathlib import Path

RUNS = WARM_UP + 1


def _files(folder: Path) -> dict[str, list[int]]:
    """Return the sizes of files by where in a run or in the cache they stand."""
    found: dict[str, list[int]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            part, _, *within = path.relative_to(folder).parts
            name = "/".join(within) if part == "wal" else part
            found.setdefault(name, []).append(path.stat().st_size)
    return found


def test_the_floor_of_nodes_leaves_the_same_files(tmp_path: Path) -> None:
    """A floor that wrote less would be out of anybody's reach: same names, about the same sizes."""
    ours, at_least = Ours(tmp_path / "ours"), AtLeast(tmp_path / "floor")
    ours.durable_s(1)
    ours.close()
    at_least.floor_s(1)
    at_least.floor.close()
    left, floor = _files(tmp_path / "ours"), _files(tmp_path / "floor")
    left.pop("locks", None)
    assert sorted(floor) == sorted(left)
    assert len(floor["cache"]) == len(left["cache"]) == RUNS * len(NAMES)
    for name, sizes in left.items():
        assert len(floor[name]) == len(sizes), name
        assert abs(sum(floor[name]) - sum(sizes)) <= 0.15 * sum(sizes), name


def test_the_floor_of_journals_leaves_journals_alone(tmp_path: Path) -> None:
    """Each run has the journal that ours has, and no other file."""
    journals = AtLeast(tmp_path / "journals", files=False)
    journals.floor_s(1)
    journals.floor.close()
    assert {name: len(sizes) for name, sizes in _files(tmp_path / "journals").items()} == {
        ".journal": RUNS
    }

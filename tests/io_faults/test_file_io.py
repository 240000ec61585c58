"""Each file operation of what writes plain files fails in turn: the sink, exports, archives, nodes.

The state is old or new each time, and success was not reported; tried again, it comes to its end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tallgrass.cli.whole_files import appearing_folder
from tallgrass.sinks.file import open_file
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.resources import SinkResources
from tests.io_faults.faulty_os import OsScript, playing
from tests.io_faults.faulty_vfs import How
from tests.io_faults.file_lives import FILE_LIVES, every_file_point
from tests.io_faults.node_points import every_node_point
from tests.sinks.receiver import event

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", FILE_LIVES)
def test_every_failing_operation_leaves_old_or_new(name: str, tmp_path: Path) -> None:
    """Before, half, after, no room: never a torn file under its own name, never a false success."""
    tally = every_file_point(FILE_LIVES[name], tmp_path, How)
    assert tally.violations == []
    for what in ("open", "write", "fsync"):
        assert tally.points[f"{what} before"] >= 2


def test_every_failing_operation_of_a_run_of_nodes_is_survived(quick_folder: Path) -> None:
    """The journal's and the cache's: an error is told, and the next try ends well."""
    tally = every_node_point(quick_folder, How, every=2)
    assert tally.violations == []
    assert tally.points["write torn"] >= 8  # a node writes four times
    assert tally.points["sync_data after"] > 2


def test_the_name_of_an_event_file_is_synced_before_anything_counts_as_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that could not be synced is synced at the next try, though the file is there."""
    sink = open_file({}, SinkResources(folder=tmp_path))
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112
        fsync(descriptor)

    with playing(OsScript(fails_at=4)) as script:  # open, write, fsync, open the folder, its fsync
        (answer,) = sink.send([event(1)])
    assert (script.struck, type(answer)) == ("fsync", Undelivered)
    monkeypatch.setattr(os, "fsync", noted)
    assert sink.send([event(1)]) == [Delivered()]
    assert synced == ["file", "folder"]
    assert sink.send([event(2)]) == [Delivered()]
    assert synced == ["file", "folder", "file"]


@pytest.mark.parametrize("how", [How.BEFORE, How.AFTER])
def test_an_export_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path: Path, how: How) -> None:
    """Whichever renaming fails, told or not, one whole folder stands, and nothing beside it."""
    target = tmp_path / "export"
    for number in range(2):
        with appearing_folder(target, replace=lambda _path: True) as half:
            (half / "a").write_text("old", encoding="utf-8")
        script = OsScript(how=how)
        act, renames = OsScript.act, iter(range(9))

        def only_renames(self: OsScript, name: str, *rest: object) -> object:
            self.fails_at = self.seen if name == "replace" and next(renames) == number else None  # noqa: B023
            return act(self, name, *rest)  # type: ignore[arg-type]  # noqa: B023

        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(OsScript, "act", only_renames)
            with (
                playing(script),
                pytest.raises(OSError, match="Input/output"),
                appearing_folder(target, replace=lambda _path: True) as half,
            ):
                (half / "a").write_text("new", encoding="utf-8")
        assert script.struck == "replace"
        assert (target / "a").read_text(encoding="utf-8") in {"old", "new"}
        assert [path.name for path in tmp_path.iterdir()] == ["export"]

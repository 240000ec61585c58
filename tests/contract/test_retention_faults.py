"""Retention that is killed, overtaken, or whose files are lost or damaged: no row is ever lost."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import retaining
from tallgrass.errors import ArchiveDamaged, ArchiveFull
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.storage.archives import ArchiveFolder
from tallgrass.storage.retention_store import RetentionStore
from tests.contract.retention_scene import (
    ALL_KINDS,
    apply,
    attempts_left,
    audited,
    deliver,
    everything,
    fill_attempts,
    lines_of,
    open_retention,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.contract.scene import Scene


def test_killed_after_any_step_nothing_is_lost(scene: Scene, archive: Path) -> None:
    """Ended after each step in turn, the next call goes on; in the end all that is old has left."""
    fill_attempts(scene)
    deliver(scene.backend, *range(1, 6))
    audited(scene)
    before = everything(scene, archive)
    steps = 0
    retention = open_retention(scene, archive, archive_rows_max=2)
    for _ in range(100):
        step = next(retention.steps(ALL_KINDS, actor="ann"), None)
        after = everything(scene, archive)
        assert all(after[name] >= before[name] for name in before)
        assert scene.stores.audit.verify(read_archive=retention.rows_of)[0].faults == []
        if step is None:
            break
        steps += 1
    assert steps >= 3 * (2 + 3 + 3)  # each archive of two rows: recorded, verified, removed
    assert len(attempts_left(scene.backend)) == 6
    assert rows_of(scene.backend, "outbox") == []
    assert all(each.removed_at or each.abandoned_at for each in retention.archives())
    assert scene.backend.sql("SELECT count(*) FROM archive_rows") == [(0,)]


class FullDisk(ArchiveFolder):
    """A folder whose disk is full after some bytes."""

    def put(self, write: Any, name: Any) -> tuple[str, str, int]:
        """Write into a file that takes no more."""

        def writing(file: Any) -> None:
            write(file)
            raise OSError(errno.ENOSPC, "No space left on device")

        return super().put(writing, name)


def test_a_full_disk_removes_nothing(scene: Scene, archive: Path) -> None:
    """The error says so; neither a row nor a record of an archive nor half a file is left."""
    fill_attempts(scene)
    before = rows_of(scene.backend, "wal_attempts")
    with pytest.raises(ArchiveFull):
        apply(open_retention(scene, archive, place=FullDisk(archive)), ArchiveKind.ATTEMPTS)
    assert rows_of(scene.backend, "wal_attempts") == before
    assert scene.backend.sql("SELECT count(*) FROM archives") == [(0,)]
    assert list(archive.iterdir()) == []
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    assert len(attempts_left(scene.backend)) == 6


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_file_that_is_not_what_was_written_removes_nothing(
    scene: Scene, archive: Path, harm: str
) -> None:
    """Found when it is read back: the archive is given up, and the next call writes another."""
    fill_attempts(scene)
    before = rows_of(scene.backend, "wal_attempts")
    retention = open_retention(scene, archive)
    next(retention.steps([ArchiveKind.ATTEMPTS], actor="ann"))
    (path,) = archive.glob("*.gz")
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ArchiveDamaged):
        apply(retention, ArchiveKind.ATTEMPTS)
    assert rows_of(scene.backend, "wal_attempts") == before
    apply(retention, ArchiveKind.ATTEMPTS)
    assert len(attempts_left(scene.backend)) == 6
    given_up, done = retention.archives()
    assert (given_up.abandoned_at is not None, done.removed) == (True, 4)
    actions = scene.backend.sql("SELECT action FROM audit_log ORDER BY entry_id")
    assert [action for (action,) in actions] == [
        "archive_record",
        "archive_abandon",
        "archive_record",
    ]


def test_a_file_that_is_lost_after_it_was_read_back_removes_nothing(
    scene: Scene, archive: Path
) -> None:
    """It is read again before rows leave; then it is given up, and the next call writes another."""
    fill_attempts(scene)
    before = rows_of(scene.backend, "wal_attempts")
    retention = open_retention(scene, archive)
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="ann")
    assert [next(steps).what for _ in range(2)] == ["recorded", "verified"]
    steps.close()
    for path in archive.glob("*.gz"):
        path.unlink()
    with pytest.raises(ArchiveDamaged):
        apply(retention, ArchiveKind.ATTEMPTS)
    assert rows_of(scene.backend, "wal_attempts") == before
    apply(retention, ArchiveKind.ATTEMPTS)
    assert (len(attempts_left(scene.backend)), len(lines_of(archive))) == (6, 4)
    assert [each.abandoned_at is None for each in retention.archives()] == [False, True]


def test_a_file_that_is_lost_while_rows_leave_is_told_and_waited_for(
    scene: Scene, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further row leaves and the archive stays; with the file back the next call goes on."""
    monkeypatch.setattr(retaining, "REMOVE_ROWS", 1)
    fill_attempts(scene)
    retention = open_retention(scene, archive)
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="ann")
    assert [next(steps).what for _ in range(3)] == ["recorded", "verified", "removed"]
    steps.close()
    (path,) = archive.glob("*.gz")
    kept = path.rename(archive / "kept")
    with pytest.raises(ArchiveDamaged, match="1 of the 4 rows of archive 1 have left"):
        apply(retention, ArchiveKind.ATTEMPTS)
    assert len(attempts_left(scene.backend)) == 9
    kept.rename(path)
    apply(retention, ArchiveKind.ATTEMPTS)
    assert (len(attempts_left(scene.backend)), len(lines_of(archive))) == (6, 4)


class Overtaken(ArchiveFolder):
    """A folder whose writer is overtaken by another, who archives the same rows meanwhile."""

    def __init__(self, folder: Path, others: list[Callable[[], object]]) -> None:
        super().__init__(folder)
        self._others = others

    def put(self, write: Any, name: Any) -> tuple[str, str, int]:
        """Write a file, and let the other go first."""
        written = super().put(write, name)
        if self._others:
            self._others.pop()()
        return written


@pytest.mark.parametrize("place", ["own", "shared"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_who_is_overtaken_archives_nothing_twice(
    scene: Scene, archive: Path, kind: ArchiveKind, place: str
) -> None:
    """The late file is not recorded and removed, unless it is the very file of the other."""
    fill_attempts(scene)
    deliver(scene.backend, 1, 2)
    audited(scene)
    first = open_retention(scene, archive)
    folder = archive if place == "shared" else archive / "own"
    late = Overtaken(folder, [lambda: apply(first, kind)])
    assert apply(open_retention(scene, folder, place=late), kind) == []
    (made,) = first.archives()
    assert len(list(first.rows(made))) == made.removed == made.file.rows > 0
    assert len(list(archive.rglob("*.gz"))) == 1
    assert scene.stores.audit.verify(read_archive=first.rows_of)[0].faults == []
    refused = scene.backend.sql(
        "SELECT reason FROM audit_log WHERE action = 'archive_record_refused'"
    )
    assert refused == [("archive_stale",)]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_who_is_overtaken_while_rows_leave_ends_well(
    scene: Scene, archive: Path, kind: ArchiveKind
) -> None:
    """What another has finished is finished: nothing is counted twice, and nothing is an error."""
    fill_attempts(scene)
    deliver(scene.backend, 1, 2)
    audited(scene)
    retention = open_retention(scene, archive)
    steps = retention.steps([kind], actor="ann")
    assert [next(steps).what for _ in range(2)] == ["recorded", "verified"]
    apply(retention, kind)
    assert list(steps) == []
    (made,) = retention.archives()
    assert made.removed == made.file.rows
    assert made.removed_at or made.abandoned_at


def test_what_another_gave_up_is_archived_anew(scene: Scene, archive: Path) -> None:
    """Whoever was about to remove its rows leaves them, and writes the next file."""
    fill_attempts(scene)
    retention = open_retention(scene, archive)
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="ann")
    given_up = [next(steps).archive for _ in range(2)][-1]
    RetentionStore(scene.stores.runner).abandon(given_up, actor="ann")
    assert [step.what for step in steps] == ["recorded", "verified", "removed"]
    assert [each.removed for each in retention.archives()] == [0, 4]


def test_an_archive_that_was_damaged_later_is_not_read(scene: Scene, archive: Path) -> None:
    """Reading back compares the hash first: no row of another file is shown as archived."""
    fill_attempts(scene)
    retention = open_retention(scene, archive)
    apply(retention, ArchiveKind.ATTEMPTS)
    (made,) = retention.archives()
    assert len(list(retention.rows(made))) == 4
    (path,) = archive.glob("*.gz")
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ArchiveDamaged):
        next(retention.rows(made))

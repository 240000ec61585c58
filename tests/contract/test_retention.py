"""Retention on both databases: what is old leaves whole, nothing else leaves, nothing is lost."""

from __future__ import annotations

import errno
import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import retaining
from tallgrass.errors import (
    ArchiveDamaged,
    ArchiveFull,
    ArchiveUnusable,
    NotAuthorized,
    Refused,
    TransactionConflict,
)
from tallgrass.governance.actors import Role
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind, ArchiveSearch
from tallgrass.ledger.unit import ObjectReference
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.storage.archives import ArchiveFolder, open_place
from tallgrass.storage.retention_store import RetentionStore
from tests.contract.retention_scene import (
    ALL_KINDS,
    KEYS,
    apply,
    attempts_left,
    fill_attempts,
    lines_of,
    open_retention,
    rows_of,
)
from tests.contract.scene import RAW_ERRORS, Scene, accepts, run, undone
from tests.contract.test_outbox_delivery import Outbox
from tests.support.builders import failure, unit
from tests.support.events import write
from tests.support.governance import token_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.aws import AwsServer
    from tests.support.backends import Backend


@pytest.fixture
def scene(backend: Backend) -> Scene:
    """A ledger with a worker."""
    return Scene(backend)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder for archives alone."""
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder


def deliver(backend: Backend, *numbers: int, failing: tuple[int, ...] = ()) -> list[str]:
    """Write events and deliver them, all but those that fail; return the ids of all."""
    ids = write(backend, *numbers)
    outbox = Outbox(backend)
    claims = outbox.claim()
    names = {ids[numbers.index(number)] for number in failing}
    outbox.settle([c for c in claims if c.event.outbox_id not in names])
    outbox.settle(
        [c for c in claims if c.event.outbox_id in names],
        outcome=AttemptOutcome.FAILED,
        error_code="sink_refused",
    )
    return ids


def test_attempts_leave_that_no_unit_needs(scene: Scene, archive: Path) -> None:
    """Never the last attempt of a unit, the applied one, or an open one; the total stays."""
    ids = fill_attempts(scene)
    before = {
        (row["wal_id"], row["attempt_no"]): row for row in rows_of(scene.backend, "wal_attempts")
    }
    records = scene.backend.rows("SELECT * FROM wal_records ORDER BY wal_id")
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    gone = {
        (ids["broken"], 1), (ids["broken"], 2), (ids["mended"], 1), (ids["again"], 1),
    }  # fmt: skip
    assert attempts_left(scene.backend) == set(before) - gone
    assert {(row["wal_id"], row["attempt_no"]): row for row in lines_of(archive)} == {
        key: before[key] for key in gone
    }
    assert scene.backend.rows("SELECT * FROM wal_records ORDER BY wal_id") == records
    assert scene.row(ids["broken"])["attempts"] == 3


def test_work_goes_on_after_attempts_left(scene: Scene, archive: Path) -> None:
    """The next attempt has the next number, and an older event is still known to be older."""
    ids = fill_attempts(scene)
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    scene.commit(failure(scene.claim(1)))
    assert [row["attempt_no"] for row in scene.attempts(ids["broken"])] == [3, 4]
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    assert [row["attempt_no"] for row in scene.attempts(ids["broken"])] == [4]
    assert len(lines_of(archive)) == 5


def test_the_last_known_sequencer_stays(scene: Scene, archive: Path) -> None:
    """Of attempts whose successors have no sequencer, the last one that has one is kept."""
    bare = ObjectReference(etag="etag-1", size=1001)
    wal_id = scene.fail(1)
    for reference in (None, bare, bare):
        changes = {} if reference is None else {"object_ref": reference}
        scene.commit(failure(scene.claim(unit(1, **changes))))
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    assert [row["attempt_no"] for row in scene.attempts(wal_id)] == [2, 4]


def test_the_last_attempt_stays_though_it_knows_no_sequencer(scene: Scene, archive: Path) -> None:
    """Receipts compare announced objects with it, by etag where there is nothing else."""
    bare = unit(1, object_ref=ObjectReference(etag="etag-1", size=1001))
    for _ in range(2):
        scene.commit(failure(scene.claim(bare)))
    apply(open_retention(scene, archive), ArchiveKind.ATTEMPTS)
    assert [row["attempt_no"] for row in scene.attempts(bare.wal_id)] == [2]


def test_an_annotated_attempt_stays(scene: Scene, archive: Path) -> None:
    """What a person noted something on is not taken from under the note, listed or not."""
    ids = fill_attempts(scene)
    note = scene.stores.interventions.annotate
    note(ids["broken"], 1, actor="ann", note="look here")
    retention = open_retention(scene, archive)
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="ann")
    assert next(steps).rows == 3
    note(ids["broken"], 2, actor="ann", note="and here")
    list(steps)
    assert [row["attempt_no"] for row in scene.attempts(ids["broken"])] == [1, 2, 3]
    (made,) = retention.archives()
    assert (made.file.rows, made.removed) == (3, 2)
    assert made.removed_at or made.abandoned_at


def test_what_is_young_stays(scene: Scene, archive: Path) -> None:
    """Rows of the last days do not leave, and with 0 days none ever does."""
    fill_attempts(scene)
    deliver(scene.backend, 1)
    scene.stores.audit.seal()
    before = {name: rows_of(scene.backend, name) for name in KEYS}
    with scene.stores.database.reading() as tx:
        today = tx.now()
    young = open_retention(scene, archive, now=today, days=1)
    assert apply(young, ArchiveKind.ATTEMPTS, ArchiveKind.AUDIT) == []
    # SQLite's events are of the test's own clock.
    evening = datetime(2026, 6, 1, 20, tzinfo=UTC)
    assert apply(open_retention(scene, archive, now=evening, days=1), ArchiveKind.EVENTS) == []
    assert apply(open_retention(scene, archive, days=0)) == []
    assert {name: rows_of(scene.backend, name) for name in KEYS} == before
    assert list(archive.glob("*.gz")) == []


def test_delivered_events_leave_with_their_attempts(backend: Backend, archive: Path) -> None:
    """Three rows of an event become one line; what is not delivered stays as it is."""
    scene = Scene(backend)
    ids = deliver(backend, 1, 2, 3, failing=(2,))
    before = {name: rows_of(backend, name) for name in KEYS}
    apply(open_retention(scene, archive), ArchiveKind.EVENTS)
    kept = {name: [row for row in before[name] if row["outbox_id"] == ids[1]] for name in
            ("outbox", "outbox_delivery", "outbox_attempts")}  # fmt: skip
    assert {name: rows_of(backend, name) for name in kept} == kept
    lines = lines_of(archive)
    assert [line["outbox_id"] for line in lines] == [ids[0], ids[2]]
    event = next(row for row in before["outbox"] if row["outbox_id"] == ids[0])
    assert {name: lines[0][name] for name in event} == event
    assert [(a["attempt"], a["outcome"], a["duplicate"]) for a in lines[0]["attempts"]] == [
        (1, "dispatched", False)
    ]


def audited(scene: Scene, entries: int = 6) -> None:
    """Write so many entries, and seal them."""
    for number in range(entries):
        scene.switch(is_on=number % 2 == 0, dataset=f"d{number}")
    scene.stores.audit.seal()


def test_the_chain_holds_across_an_archive(scene: Scene, archive: Path) -> None:
    """All sealed entries but the last leave; the chain is proved with and without the file."""
    audited(scene)
    anchor = scene.stores.audit.seal()
    assert anchor is not None
    before = rows_of(scene.backend, "audit_log")
    retention = open_retention(scene, archive)
    apply(retention, ArchiveKind.AUDIT)
    left = rows_of(scene.backend, "audit_log")
    assert [row["action"] for row in left] == [before[5]["action"], "archive_record"]
    lines = lines_of(archive)
    assert [{name: line[name] for name in before[0]} for line in lines] == before[:5]
    audited(scene, 2)
    head = scene.stores.audit.seal()
    for read in (None, retention.rows_of):
        verifier, unsealed = scene.stores.audit.verify([anchor], read_archive=read)
        assert (verifier.faults, unsealed, verifier.head) == ([], 0, head)
    assert head is not None
    assert head.position == 9


def test_a_second_archive_follows_the_first(scene: Scene, archive: Path) -> None:
    """Archived ranges are chained; an anchor within one is checked when its file is read."""
    audited(scene)
    retention = open_retention(scene, archive)
    apply(retention, ArchiveKind.AUDIT)
    inner = scene.stores.audit.seal()
    audited(scene)
    apply(retention, ArchiveKind.AUDIT)
    assert inner is not None
    assert [each.file.first_position for each in retention.archives()] == [1, 6]
    verify = scene.stores.audit.verify
    assert verify([inner], read_archive=retention.rows_of)[0].faults == []
    forged = type(inner)(position=inner.position, chain_hash="0" * 64)
    assert verify([forged])[0].faults == []
    (fault,) = verify([forged], read_archive=retention.rows_of)[0].faults
    assert fault.position == inner.position


@pytest.mark.parametrize("column", ["head_hash", "before_hash"])
def test_a_forged_record_of_an_archive_is_found(scene: Scene, archive: Path, column: str) -> None:
    """Who changes what the database says of an archived range breaks the chain."""
    audited(scene)
    apply(open_retention(scene, archive), ArchiveKind.AUDIT)
    assert scene.stores.audit.verify()[0].faults == []
    without_guards(scene.backend, "archives", f"UPDATE archives SET {column} = '{'1' * 64}'")
    assert scene.stores.audit.verify()[0].faults


def test_a_broken_chain_is_not_archived(scene: Scene, archive: Path) -> None:
    """An entry that was edited would be carried off with its fault: nothing leaves."""
    audited(scene)
    without_guards(
        scene.backend, "audit_log", "UPDATE audit_log SET actor = 'x' WHERE entry_id = 2"
    )
    with pytest.raises(Refused, match="seal 2"):
        apply(open_retention(scene, archive), ArchiveKind.AUDIT)
    assert len(rows_of(scene.backend, "audit_seals")) == 6
    assert list(archive.iterdir()) == []


def without_guards(backend: Backend, table: str, statement: str) -> None:
    """Change a table as someone with full rights could."""
    if backend.name == "postgres":
        backend.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    else:
        names = backend.sql(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", table
        )
        for (name,) in names:
            backend.sql(f"DROP TRIGGER {name}")
    backend.sql(statement)


def everything(scene: Scene, folder: Path) -> dict[str, set[Any]]:
    """Return the keys of all rows, wherever they are, by table."""
    archived: dict[str, set[Any]] = {"wal_attempts": set(), "outbox": set(), "audit_log": set()}
    for line in lines_of(folder):
        if "outbox_id" in line:
            archived["outbox"].add(line["outbox_id"])
        elif "attempt_no" in line:
            archived["wal_attempts"].add((line["wal_id"], line["attempt_no"]))
        else:
            archived["audit_log"].add(line["entry_id"])
    found = {
        "wal_attempts": attempts_left(scene.backend),
        "outbox": {row["outbox_id"] for row in rows_of(scene.backend, "outbox")},
        "audit_log": {row["entry_id"] for row in rows_of(scene.backend, "audit_log")},
    }
    return {name: found[name] | archived[name] for name in found}


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


def test_parquet_holds_the_same_rows(scene: Scene, archive: Path) -> None:
    """Either format gives back what the tables held; another reader agrees."""
    from pyarrow import parquet  # noqa: PLC0415

    fill_attempts(scene)
    deliver(scene.backend, 1)
    audited(scene)
    lines, table = (
        open_retention(scene, archive / each.value, format=each) for each in ArchiveFormat
    )
    for kind in ALL_KINDS:
        first = next(lines.steps([kind], actor="ann")).archive
        wanted = list(lines.rows(first))
        RetentionStore(scene.stores.runner).abandon(first, actor="ann")
        other = next(table.steps([kind], actor="ann")).archive
        assert list(table.rows(other)) == wanted
        path = archive / "parquet" / other.file.name
        assert parquet.read_metadata(path).num_rows == len(wanted) > 0
        assert b"tallgrass-archive" in parquet.read_schema(path).metadata.values()


def test_a_cap_bounds_what_is_archived(scene: Scene, archive: Path) -> None:
    """`rows_max` rows leave and no more; the plan says what is left."""
    fill_attempts(scene)
    retention = open_retention(scene, archive)
    assert [each.rows for each in retention.plan(ALL_KINDS)] == [4, 0, 0]
    apply(retention, ArchiveKind.ATTEMPTS, rows_max=3)
    assert len(lines_of(archive)) == 3
    (planned,) = retention.plan([ArchiveKind.ATTEMPTS])
    assert (planned.rows, planned.open_archive) == (1, None)


def test_archives_are_searched(scene: Scene, archive: Path) -> None:
    """By unit, event and time; a file whose range cannot hold it is not even opened."""
    ids = fill_attempts(scene)
    events = deliver(scene.backend, 1, 2)
    retention = open_retention(scene, archive, archive_rows_max=1)
    apply(retention)

    def found(**wanted: Any) -> list[tuple[str, int]]:
        rows = retention.search(ArchiveSearch(**wanted))
        return [(r.get("wal_id") or r["outbox_id"], r.get("attempt_no", 0)) for _, r in rows]

    assert found(key=ids["broken"], kind=ArchiveKind.ATTEMPTS) == [
        (ids["broken"], 1),
        (ids["broken"], 2),
    ]
    assert found(key=ids["once"], kind=ArchiveKind.ATTEMPTS) == []
    assert found(key=events[1], kind=ArchiveKind.EVENTS) == [(events[1], 0)]
    files = [a.file for a in retention.archives() if a.file.kind is ArchiveKind.EVENTS]
    between = files[0].first_at
    assert found(kind=ArchiveKind.EVENTS, until=between) == []
    assert len(found(kind=ArchiveKind.EVENTS, since=between)) == 2
    for path in archive.glob("events-*"):
        path.unlink()
    assert len(found(key=ids["broken"], kind=ArchiveKind.ATTEMPTS)) == 2


def test_only_an_operator_archives(scene: Scene, archive: Path) -> None:
    """Once actors are set up a name does not suffice, nor does a viewer's token."""
    fill_attempts(scene)
    actors = scene.stores.actors
    ann = actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)
    vera = actors.add("vera", Role.VIEWER, token=token_of("vera"), by=ann)
    otto = actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=ann)
    retention = open_retention(scene, archive)
    for somebody in ("ann", vera):
        with pytest.raises(NotAuthorized):
            list(retention.steps([ArchiveKind.ATTEMPTS], actor=somebody))
    assert list(archive.iterdir()) == []
    assert len(list(retention.steps([ArchiveKind.ATTEMPTS], actor=otto))) == 3
    (subject,) = scene.backend.sql("SELECT sha256 FROM archives")[0]
    assert scene.audit(f"archive:{subject}")[0][:2] == ("otto", "archive_record")


GUARDED = (
    ("DELETE FROM wal_attempts WHERE wal_id = ? AND attempt_no = 1", "broken"),
    ("DELETE FROM wal_attempts WHERE wal_id = ? AND attempt_no = 3", "broken"),
    ("DELETE FROM wal_attempts WHERE wal_id = ? AND attempt_no = 2", "mended"),
    ("DELETE FROM wal_attempts WHERE wal_id = ? AND attempt_no = 1", "held"),
)


@pytest.mark.conformance("C-38")
def test_raw_sql_removes_nothing_that_no_archive_holds(scene: Scene, archive: Path) -> None:
    """Not before an archive was read back, and never what it does not hold."""
    ids = fill_attempts(scene)
    event, open_event = deliver(scene.backend, 1, 2, failing=(2,))
    audited(scene)
    raw = scene.backend.connect()

    def refused() -> list[bool]:
        units = [not accepts(raw, statement, ids[name]) for statement, name in GUARDED]
        tables = ("outbox_attempts", "outbox_delivery", "outbox")
        events = [
            not accepts(raw, f"DELETE FROM {table} WHERE outbox_id = ?", each)
            for each in (event, open_event)
            for table in tables
        ]
        audit = [
            not accepts(raw, "DELETE FROM audit_log WHERE entry_id = 1"),
            not accepts(raw, "DELETE FROM audit_seals WHERE position = 1"),
            not accepts(raw, "DELETE FROM audit_seals WHERE position = 6"),
        ]
        return [*units, *events, *audit]

    assert all(refused())
    retention = open_retention(scene, archive)
    under_way = [retention.steps([kind], actor="ann") for kind in ArchiveKind]
    assert [next(steps).what for steps in under_way] == ["recorded"] * 3
    assert all(refused())
    assert [next(steps).what for steps in under_way] == ["verified"] * 3
    allowed = [number for number, no in enumerate(refused()) if not no]
    # Attempt 1 of `broken`; the delivered event's attempts and delivery, itself only after them;
    # the first audit entry, its seal only after it.
    assert allowed == [0, 4, 5, 10]


@pytest.mark.conformance("C-38")
def test_raw_sql_cannot_forge_an_archive(scene: Scene, archive: Path) -> None:
    """No archive without its audit entry; no further rows and no change once it is recorded."""
    ids = fill_attempts(scene)
    retention = open_retention(scene, archive)
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="ann")
    next(steps)
    raw = scene.backend.connect()
    columns = (
        "format, place, name, bytes, row_count, older_than, first_key, last_key, first_at, last_at,"
        " actor, recorded_at"
    )
    forge = (
        f"INSERT INTO archives (kind, sha256, {columns})"
        f" SELECT 'events', '{'0' * 64}', {columns} FROM archives"
    )
    assert not accepts(raw, forge)
    run(
        raw,
        "INSERT INTO audit_log (occurred_at, actor, action, subject, reason, detail)"
        f" SELECT recorded_at, actor, 'archive_record', 'archive:{'0' * 64}', '', ''"
        " FROM archives",
    )
    assert accepts(raw, forge)
    assert not accepts(raw, "UPDATE archives SET row_count = 5")
    assert not accepts(raw, "DELETE FROM archives")
    with undone(raw):
        run(raw, "INSERT INTO archive_rows SELECT archive_id, ?, 3 FROM archives", ids["broken"])
        with pytest.raises(RAW_ERRORS):  # one more than the file holds
            run(raw, "UPDATE archives SET verified_at = recorded_at")
    next(steps)
    listed = "INSERT INTO archive_rows SELECT archive_id, ?, 3 FROM archives"
    assert not accepts(raw, listed, ids["broken"])
    with undone(raw):
        run(raw, "UPDATE archives SET removed = 1")
        with pytest.raises(RAW_ERRORS):  # what has left is nowhere else
            run(raw, "UPDATE archives SET abandoned_at = recorded_at")
    list(steps)
    assert not accepts(raw, "UPDATE archives SET removed = 0")


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_delivery_attempts_leave_by_whole_months(backend: Backend, archive: Path) -> None:
    """Partitions are made ahead and take what is written then; one that is empty is dropped."""
    scene = Scene(backend)
    store = RetentionStore(scene.stores.runner)

    def months() -> list[str]:
        found = backend.sql(
            "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'outbox_attempts'::regclass ORDER BY 1"
        )
        return [name.removeprefix("outbox_attempts_") for (name,) in found]

    assert months() == ["default"]
    assert store.keep_partitions(datetime(2026, 12, 15, tzinfo=UTC)) == 0
    assert months() == ["2027_01", "2027_02", "default"]
    # 2027-01-05 and 2027-02-05 in milliseconds, as the first twelve digits of their ids.
    january, february = (
        "01a2e325-4400-7000-8000-000000000001",
        "01a382ca-6800-7000-8000-000000000002",
    )
    insert = (
        "INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, ended_at)"
        " VALUES (?, 1, ?, 'dispatched', '2027-02-05T00:00:00Z')"
    )
    for each in (january, february):
        backend.sql(insert, each, january)
    held = backend.sql("SELECT tableoid::regclass::text FROM outbox_attempts ORDER BY outbox_id")
    assert held == [("outbox_attempts_2027_01",), ("outbox_attempts_2027_02",)]
    raw = backend.connect()
    for name in ("outbox_attempts_2027_01", "outbox_attempts_default"):
        assert not accepts(raw, f"TRUNCATE {name}")
    assert not accepts(raw, "DELETE FROM outbox_attempts_2027_01")
    assert store.keep_partitions(datetime(2027, 3, 1, tzinfo=UTC)) == 0
    raw.execute("SET session_replication_role = replica")
    raw.execute("DELETE FROM outbox_attempts_2027_01")
    assert store.keep_partitions(datetime(2027, 3, 1, tzinfo=UTC)) == 1
    assert months() == ["2027_02", "2027_04", "2027_05", "default"]
    assert backend.sql("SELECT outbox_id FROM outbox_attempts") == [(february,)]


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_who_drops_partitions_locks_as_writers_do(backend: Backend) -> None:
    """The table before its part: a writer who holds the table gets the part, and no deadlock."""
    store, march = RetentionStore(Scene(backend).stores.runner), datetime(2027, 3, 1, tzinfo=UTC)
    store.keep_partitions(march)
    number = "00000000-0000-0000-0000-00000000000"
    backend.sql(
        "CREATE TABLE outbox_attempts_2020_01 PARTITION OF outbox_attempts"
        f" FOR VALUES FROM ('{number}0') TO ('{number}1')"
    )
    writer = backend.connect()
    writer.execute("BEGIN")
    writer.execute("LOCK TABLE ONLY outbox_attempts IN ROW EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as pool:
        dropped = pool.submit(store.keep_partitions, march)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = ?::regclass"
        while not dropped.done() and backend.sql(waiting, "outbox_attempts") == [(0,)]:
            sleep(0.01)
        writer.execute("LOCK TABLE outbox_attempts_2020_01 IN ROW EXCLUSIVE MODE NOWAIT")
        writer.execute("COMMIT")
        assert dropped.result() in {0, 1}


def test_who_loses_a_race_for_partitions_tries_another_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadlock that the database ended with us ends nothing else."""

    def lose(*_: object) -> None:
        raise TransactionConflict("deadlock detected")

    monkeypatch.setattr(scene.stores.runner, "run", lose)
    assert RetentionStore(scene.stores.runner).keep_partitions(datetime.now(UTC)) == 0


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_archives_in_a_bucket(
    scene: Scene,
    archive: Path,
    ministack: AwsServer,
    aws_environment: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Put whole below the prefix, read back, searched; without a bucket nothing is removed."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    s3 = ministack.client("s3")
    s3.create_bucket(Bucket="kept")
    ids = fill_attempts(scene)
    nowhere = open_retention(scene, archive, place=open_place("s3://no-such-bucket-here/x"))
    with pytest.raises((ArchiveDamaged, ArchiveUnusable)):
        apply(nowhere, ArchiveKind.ATTEMPTS)
    assert len(attempts_left(scene.backend)) == 10
    retention = open_retention(scene, archive, place=open_place("s3://kept/ledger/"))
    apply(retention, ArchiveKind.ATTEMPTS)
    (listed,) = s3.list_objects_v2(Bucket="kept")["Contents"]
    (made,) = retention.archives()
    assert (made.file.place, listed["Key"]) == ("s3://kept/ledger", f"ledger/{made.file.name}")
    body = s3.get_object(Bucket="kept", Key=listed["Key"])["Body"].read()
    assert hashlib.sha256(body).hexdigest() == made.file.sha256
    wanted = ArchiveSearch(kind=ArchiveKind.ATTEMPTS, key=ids["broken"])
    assert [row["attempt_no"] for _, row in retention.search(wanted)] == [1, 2]
    open_place("s3://kept/ledger").remove(made.file.name)
    assert "Contents" not in s3.list_objects_v2(Bucket="kept")
    with pytest.raises(ArchiveDamaged):
        next(retention.rows(made))

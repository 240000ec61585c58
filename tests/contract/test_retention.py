"""Retention on both databases: what is old leaves whole, and nothing else leaves."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ArchiveDamaged, ArchiveUnusable, Refused
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind, ArchiveSearch
from tallgrass.ledger.unit import ObjectReference
from tallgrass.storage.archives import open_place
from tallgrass.storage.retention_store import RetentionStore
from tests.contract.retention_scene import (
    ALL_KINDS,
    KEYS,
    apply,
    attempts_left,
    audited,
    deliver,
    fill_attempts,
    lines_of,
    open_retention,
    rows_of,
    without_guards,
)
from tests.contract.scene import Scene
from tests.support.builders import failure, unit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.aws import AwsServer
    from tests.support.backends import Backend


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

"""Who may archive, and what the database itself lets go of: nothing that no archive holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import NotAuthorized, TransactionConflict
from tallgrass.governance.actors import Role
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.storage.retention_store import RetentionStore
from tests.contract.retention_scene import audited, deliver, fill_attempts, open_retention
from tests.contract.scene import RAW_ERRORS, Scene, accepts, run, undone
from tests.support.governance import token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


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

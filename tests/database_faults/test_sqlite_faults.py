"""What a SQLite file can do to its users: each fault has its name, its remedy and no half batch."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.stores import open_stores
from tallgrass.clock import system_clock
from tallgrass.errors import (
    DatabaseFull,
    DatabaseLocked,
    DatabaseUnreachable,
    DatabaseUnusable,
    DataRefused,
    TallgrassError,
)
from tallgrass.storage.migrations import migrate
from tallgrass.storage.sqlite import SqliteDatabase
from tests.support.backends import Backend, prepare
from tests.support.builders import success, units
from tests.support.processes import Child

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Backend]:
    """A migrated SQLite file."""
    made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    yield made
    made.close()


@contextlib.contextmanager
def refusal(kind: type[TallgrassError], code: str) -> Iterator[Any]:
    """Expect an error of this kind and code that says what to do."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert len(caught.value.about.remedy) > 10


@contextlib.contextmanager
def special_file(kind: str, folder: Path) -> Iterator[Path]:
    """Make what has a name like a file and is none; a pipe's other end is held open meanwhile."""
    path = folder / kind
    if kind == "device":
        yield Path(os.devnull)
    elif kind == "socket":
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(str(path))
            yield path
    else:
        os.mkfifo(path)
        # Who opens it all the same goes on, so that the test fails and does not hang.
        descriptor = os.open(path, os.O_RDWR)
        yield path
        os.close(descriptor)


def counts(backend: Backend) -> tuple[object, ...]:
    """Return how many records, attempts and workers there are."""
    tables = ("wal_records", "wal_attempts", "workers")
    return tuple(backend.sql(f"SELECT count(*) FROM {table}")[0][0] for table in tables)


def begin(database: SqliteDatabase) -> None:
    """Begin a transaction and end it at once."""
    with database.transaction():
        pass


def test_connections_have_the_settings_that_durability_rests_on(ledger: Backend) -> None:
    """A connection uses WAL, waits for the disk at each commit and checks foreign keys."""
    stores = ledger.open()
    with stores.database.transaction() as transaction:
        connection: Any = transaction.connection  # type: ignore[attr-defined]
        names = ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers")
        values = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}
    assert values == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
        "recursive_triggers": 1,
    }


def test_large_sorts_of_a_migration_lie_in_files(ledger: Backend) -> None:
    """Ordinary work keeps what a statement may undo in memory; an index may be too large."""
    database = ledger.open().database
    assert isinstance(database, SqliteDatabase)

    def temp_store(connection: Any) -> int:
        kept: int = connection.execute("PRAGMA temp_store").fetchone()[0]
        return kept

    with database.migrating() as migration:
        assert temp_store(migration._connection) == 1  # FILE
    with database.transaction() as transaction:
        assert temp_store(transaction.connection) == 2  # MEMORY


def test_a_new_file_waits_for_whoever_writes_it_first(tmp_path: Path) -> None:
    """A process that opens a file in its first moments waits: SQLite itself does not there."""
    path = tmp_path / "new.db"
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    first.execute("BEGIN IMMEDIATE")
    holder = threading.Timer(0.3, first.execute, ("ROLLBACK",))
    holder.start()
    database = SqliteDatabase(path, clock=system_clock)
    begin(database)  # would be refused at once
    holder.join()
    database.close()
    first.execute("BEGIN IMMEDIATE")
    impatient = SqliteDatabase(tmp_path / "new.db", clock=system_clock, lock_timeout_s=0.1)
    with refusal(DatabaseLocked, "database_locked"):
        begin(impatient)
    first.close()


def test_a_file_locked_by_another_program_is_named(ledger: Backend) -> None:
    """Whoever holds the file too long makes the call fail as locked; later it works."""
    database = SqliteDatabase(ledger.path, clock=system_clock, lock_timeout_s=0.2)
    with Child("holds_lock", path=str(ledger.path)) as holder:
        holder.hear()
        with refusal(DatabaseLocked, "database_locked"):
            begin(database)
        holder.go_on()
        holder.end()
    with database.transaction() as transaction:
        assert transaction.select("switched_off", scope="ingest") == []
    database.close()


def test_writers_that_queue_too_long_are_told_who_is_in_the_way(ledger: Backend) -> None:
    """A second writer gives up after its time and can write as soon as the first is done."""
    first = ledger.open()
    database = SqliteDatabase(ledger.path, clock=system_clock, lock_timeout_s=0.2)
    with first.database.transaction(), refusal(DatabaseLocked, "database_locked") as caught:
        begin(database)
    assert "another process" in str(caught.value)
    with database.transaction():
        pass
    database.close()


def test_a_full_disk_leaves_no_part_of_a_batch(ledger: Backend) -> None:
    """Where no page can be added the batch is rolled back whole, and works once there is room."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    before = counts(ledger)
    with stores.database.transaction() as transaction:
        connection: Any = transaction.connection  # type: ignore[attr-defined]
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 10}")
    with refusal(DatabaseFull, "database_full"):
        stores.ledger.record_and_claim(worker, units(500))
    assert counts(ledger) == before
    connection.execute("PRAGMA max_page_count = 1000000")
    receipts = stores.ledger.record_and_claim(worker, units(500))
    assert len([receipt for receipt in receipts if receipt.claim]) == 500


def test_a_disk_that_fills_during_a_commit_leaves_the_claims_open(ledger: Backend) -> None:
    """Outcomes that find no room are not written; the same call works once there is room."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    receipts = stores.ledger.record_and_claim(worker, units(500))
    outcomes = [success(r.claim, evidence=b'"' + b"x" * 4000 + b'"') for r in receipts if r.claim]
    with stores.database.transaction() as transaction:
        connection: Any = transaction.connection  # type: ignore[attr-defined]
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with refusal(DatabaseFull, "database_full"):
        stores.ledger.commit(worker, outcomes)
    assert ledger.sql("SELECT DISTINCT status FROM wal_attempts") == [("pending",)]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert len(stores.ledger.commit(worker, outcomes).closed) == 500


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Act without root's power to ignore file rights."""
    if os.geteuid() != 0:
        yield
        return
    nobody = pwd.getpwnam("nobody").pw_uid
    os.setresuid(nobody, nobody, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="tallgrass-read-only-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("journal", ["with_journal", "without_journal"])
def test_a_file_that_may_only_be_read_says_so(shared_folder: Path, journal: str) -> None:
    """A write to a file without write rights is refused by name; reading commands still work."""
    backend = prepare("sqlite", f"sqlite:///{shared_folder / 'ledger.db'}")
    held = backend.connect()
    if journal == "with_journal":
        held.execute("SELECT count(*) FROM wal_records").fetchall()
    else:
        held.close()
    for path in shared_folder.iterdir():
        path.chmod(0o444)
    shared_folder.chmod(0o555)
    with ordinary_user():
        writer = open_stores(backend.config())
        with refusal(DatabaseUnusable, "database_read_only"):
            writer.leases.register("w", ingest_run_id="run", lease_s=60)
        writer.close()
        reader = open_stores(backend.config(), read_only=True)
        with reader.database.reading() as transaction:
            assert transaction.select("switched_off", scope="ingest") == []
        reader.close()
    backend.close()


def test_a_reader_cannot_write(ledger: Backend) -> None:
    """A connection that was opened for reading refuses a write by name."""
    stores = ledger.open(read_only=True)
    with refusal(DatabaseUnusable, "database_read_only"):
        stores.leases.register("w", ingest_run_id="run", lease_s=60)
    assert counts(ledger) == (0, 0, 0)


def test_a_reader_does_not_create_the_file(tmp_path: Path) -> None:
    """Reading from where there is nothing is refused and leaves nothing behind."""
    backend = Backend("sqlite", f"sqlite:///{tmp_path / 'no.db'}")
    stores = open_stores(backend.config(), read_only=True)
    with refusal(DatabaseUnreachable, "database_unreachable"):
        stores.reader.record("00000000-0000-8000-8000-000000000000")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """A path through a folder that does not exist says which folder."""
    database = SqliteDatabase(tmp_path / "gone" / "ledger.db", clock=system_clock)
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        migrate(database)
    assert str(tmp_path / "gone") in str(caught.value)


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    """A path whose folder is a file is refused like a missing folder."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    database = SqliteDatabase(tmp_path / "file" / "ledger.db", clock=system_clock)
    with refusal(DatabaseUnreachable, "database_unreachable"):
        migrate(database)


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    """A path that names a folder is refused."""
    database = SqliteDatabase(tmp_path, clock=system_clock)
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        migrate(database)
    assert "folder" in str(caught.value)


@pytest.mark.parametrize("read_only", [True, False], ids=["read", "write"])
@pytest.mark.parametrize(
    ("schema", "setting"), [("sqlite", "database.url"), ("sqlite_queue", "queue.url")]
)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_special_file_is_no_database(
    tmp_path: Path, kind: str, schema: str, setting: str, *, read_only: bool
) -> None:
    """A pipe, a socket or a device is refused before it is opened, with the setting to correct."""
    with special_file(kind, tmp_path) as path:
        database = SqliteDatabase(path, clock=system_clock, read_only=read_only, schema=schema)
        with (
            refusal(DatabaseUnreachable, "database_unreachable") as caught,
            database.reading(),
        ):
            pass
    assert str(caught.value) == (
        f"{path} is a pipe, a socket or a device; {setting} must name a file"
    )


def test_another_kind_of_file_is_left_as_it_is(tmp_path: Path) -> None:
    """A file that is no database is refused and not changed by a byte."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"shopping list\n" * 400)
    with refusal(DatabaseUnusable, "database_corrupt"):
        migrate(SqliteDatabase(path, clock=system_clock))
    assert path.read_bytes() == b"shopping list\n" * 400


def test_a_damaged_file_is_recognised(ledger: Backend) -> None:
    """A file whose pages were overwritten is called corrupt, not read as empty."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    stores.ledger.record_and_claim(worker, units(200))
    stores.close()
    ledger.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    size = ledger.path.stat().st_size
    with ledger.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    damaged = ledger.open()
    with refusal(DatabaseUnusable, "database_corrupt"):
        damaged.ledger.record_and_claim(worker, units(200))


@pytest.mark.parametrize("successor", ["none", "another_file"])
def test_a_file_that_was_taken_away_is_not_written_to(ledger: Backend, successor: str) -> None:
    """A worker whose file was deleted or replaced under it stops, and writes nothing more."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{ledger.path}{suffix}").unlink(missing_ok=True)
    if successor == "another_file":
        prepare("sqlite", ledger.url).close()
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        stores.ledger.record_and_claim(worker, units(3))
    assert str(ledger.path) in str(caught.value)


def test_a_row_that_a_constraint_refuses_leaves_the_batch_unwritten(ledger: Backend) -> None:
    """One bad row among ten undoes the whole transaction, and the constraint is named."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    stores.ledger.record_and_claim(worker, units(10))
    before = ledger.sql("SELECT * FROM wal_records ORDER BY wal_id")

    def work(transaction: Any) -> None:
        transaction.connection.execute(
            "UPDATE wal_records SET version = version + 1, queue = 'other'"
        )
        transaction.connection.execute(
            "UPDATE workers SET fenced_at = '2026-01-01T00:00:00.000000Z'"
        )
        transaction.write(
            "insert_annotations", [("x" * 36, 1, "a", "k", "n")], now=transaction.now()
        )

    with refusal(DataRefused, "data_refused") as caught:
        stores.runner.run(work)
    assert "FOREIGN KEY" in str(caught.value)
    assert ledger.sql("SELECT * FROM wal_records ORDER BY wal_id") == before
    assert ledger.sql("SELECT fenced_at FROM workers") == [(None,)]

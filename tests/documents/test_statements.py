"""Statements of the documents, tried on a real ledger."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.documents.markdown import WAL_DOCS, code_block, read
from tests.support.backends import prepare
from tests.support.builders import failure, success, unit, units
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend


def last_error(backend: Backend) -> tuple[object, ...]:
    """Ask the database for the one record's status and last error."""
    (row,) = backend.sql("SELECT status, last_error_code, last_error_message FROM wal_records")
    return row


@pytest.mark.conformance("SM-4.3c")
def test_success_clears_the_last_error_as_documented(backend: Backend) -> None:
    """The contract says that success clears the last error, and it does; the attempt keeps it."""
    assert "**Success clears the last error** (SM-4.3c)" in read(WAL_DOCS / "README.md")
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    for report in (failure, success):
        claim = stores.ledger.record_and_claim(worker, [unit()])[0].claim
        assert claim
        stores.ledger.commit(worker, [report(claim)])
    assert last_error(backend) == ("succeeded", None, None)
    attempts = backend.sql("SELECT status, error_code FROM wal_attempts ORDER BY attempt_no")
    assert attempts == [("failed", "io_error"), ("applied", None)]


@pytest.mark.parametrize("how", ["replay", "not_yet", "hand_back", "recovery"])
def test_going_back_to_pending_keeps_the_last_error_as_documented(
    backend: Backend, how: str
) -> None:
    """The contract says that the way back to pending keeps the last error, whoever goes it."""
    assert "**Going back to `pending` keeps the last error** (SM-4.5c)" in read(
        WAL_DOCS / "README.md"
    )
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    claim = stores.ledger.record_and_claim(worker, [unit()])[0].claim
    assert claim
    expected = {"replay": "io_error", "not_yet": "not_ready", "hand_back": "handed_back"}
    if how == "hand_back":
        stores.leases.stop(worker)
    elif how == "recovery":
        backend.expire(worker)
        stores.leases.recover()
    else:
        stores.ledger.commit(worker, [failure(claim, expected[how])])
    if how == "replay":
        put_back(stores, [(claim.wal_id, 3)])
    status, code, message = last_error(backend)
    assert (status, code) == ("pending", expected.get(how, "lease_expired"))
    assert message


class Roles:
    """Roles made by the documented statements, under names of the test's own."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self.connection = connection
        self.suffix = f"_{uuid.uuid4().hex[:12]}"
        self.made: list[str] = []

    def make(self, name: str) -> None:
        """Run the statements that the document gives for a role, and become it."""
        text = read(WAL_DOCS / "wal-storage-backends.md").split(f"<!-- sql: {name} -->")[1]
        script = re.sub(
            r"\btallgrass_(\w+)", rf"tallgrass_\1{self.suffix}", code_block(text, "sql")
        )
        self.made.append(f"tallgrass_{name}{self.suffix}")
        for statement in script.split(";")[:-1]:
            self.connection.execute(statement.encode())
        self.connection.execute(f"SET ROLE tallgrass_{name}{self.suffix}".encode())

    def drop(self) -> None:
        """Leave nothing behind."""
        self.connection.execute("RESET ROLE")
        for role in self.made:
            self.connection.execute(f"DROP OWNED BY {role}".encode())
            self.connection.execute(f"DROP ROLE {role}".encode())


@pytest.fixture
def roles(postgres_url: str) -> Iterator[Roles]:
    """A migrated database with a few units, and a connection of its owner."""
    backend = prepare("postgres", postgres_url)
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    stores.ledger.record_and_claim(worker, units(3))
    backend.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        made = Roles(connection)
        yield made
        made.drop()


FORBIDDEN = [
    "DELETE FROM wal_records",
    "TRUNCATE wal_annotations",
    "ALTER TABLE wal_records DISABLE TRIGGER ALL",
    "DROP TABLE wal_annotations",
    "SET session_replication_role = replica",
    "INSERT INTO schema_migrations VALUES (99, 'x', 'y', now())",
]


def test_the_documented_reader_can_read_and_nothing_else(roles: Roles) -> None:
    """The role of the storage document reads every table and is refused every write."""
    roles.make("reader")
    connection = roles.connection
    for table in ("wal_records", "wal_attempts", "wal_history", "audit_log", "schema_migrations"):
        connection.execute(f"SELECT count(*) FROM {table}".encode())
    for statement in [*FORBIDDEN, "UPDATE workers SET worker_id = 'x'"]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_the_documented_worker_can_work_but_not_go_round_the_guards(roles: Roles) -> None:
    """The role of the storage document inserts and updates, but cannot delete or disarm."""
    roles.make("worker")
    connection = roles.connection
    connection.execute(
        "INSERT INTO audit_log (occurred_at, actor, action, subject, reason, detail) "
        "VALUES (now(), 'a', 'b', 'c', 'd', '{}')"
    )
    connection.execute("SELECT 1 FROM workers FOR KEY SHARE")
    connection.execute("SELECT 1 FROM wal_records FOR NO KEY UPDATE")
    connection.execute("UPDATE workers SET expires_at = now()")
    for statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())

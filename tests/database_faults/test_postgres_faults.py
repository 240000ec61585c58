"""What a PostgreSQL server can do to its clients: each fault is named, and no batch is halved."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest

from tallgrass.errors import (
    CommitUnknown,
    DatabaseUnreachable,
    DatabaseUnusable,
    DataRefused,
    TallgrassError,
)
from tallgrass.storage.postgres import PostgresDatabase
from tests.plugins.postgres import FOLDER_PREFIX, with_database
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.support.backends import Backend, prepare
from tests.support.builders import success, units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.ledger.claim import Claim

COUNT = 20
PASSWORD = "not-for-eyes"  # noqa: S105 - a made-up password that must not be printed


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A private server for this module, which its tests kill and restart."""
    # Fast: a crash of processes, unlike a power cut, leaves what the system still has to write.
    made = PostgresServer(new_folder(f"{FOLDER_PREFIX}own-{os.getpid()}-"), fast=True)
    try:
        made.start()
        admin(made, "CREATE DATABASE migrated")
        prepare("postgres", with_database(made.url, "migrated")).close()
        yield made
    finally:
        made.remove()


@pytest.fixture
def ledger(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A migrated database of the test's own on the private server."""
    name = f"ledger_{abs(hash(request.node.name))}"
    admin(server, f"CREATE DATABASE {name} TEMPLATE migrated")
    made = Backend("postgres", with_database(server.url, name))
    yield made
    made.close()
    admin(server, f"DROP DATABASE {name} WITH (FORCE)")


def admin(server: PostgresServer, *statements: str) -> None:
    """Run statements as the superuser."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextlib.contextmanager
def refusal(kind: type[TallgrassError], code: str) -> Iterator[Any]:
    """Expect an error of this kind and code that says what to do and shows no password."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert len(caught.value.about.remedy) > 10
    assert PASSWORD not in str(caught.value)


def as_role(backend: Backend, role: str) -> Backend:
    """Return the same database as another role sees it."""
    return Backend("postgres", backend.url.replace("postgres@", f"{role}:{PASSWORD}@"))


def use(backend: Backend) -> None:
    """Write one row."""
    stores = backend.open()
    try:
        stores.leases.register("w", ingest_run_id="run", lease_s=60)
    finally:
        stores.close()


def begin(database: PostgresDatabase) -> None:
    """Begin a transaction and end it at once."""
    with database.transaction():
        pass


def test_a_server_that_does_not_run_is_named() -> None:
    """Without a server the call fails as unreachable and names the place, not the password."""
    database = PostgresDatabase(f"postgresql://w:{PASSWORD}@127.0.0.1:1/ledger")
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        begin(database)
    assert "ledger on 127.0.0.1:1" in str(caught.value)


def test_a_missing_database_is_named(server: PostgresServer) -> None:
    """A database that the server does not have is named."""
    backend = Backend("postgres", with_database(server.url, "no_such_ledger"))
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        use(backend)
    assert "no_such_ledger" in str(caught.value)


def test_a_database_without_tables_says_what_to_run(server: PostgresServer) -> None:
    """An empty database is told from a broken one."""
    with refusal(DatabaseUnusable, "schema_missing"):
        use(Backend("postgres", server.url))


def test_a_missing_role_is_named(ledger: Backend) -> None:
    """A role that the server does not know is named."""
    with refusal(DatabaseUnreachable, "database_unreachable") as caught:
        use(as_role(ledger, "no_such_role"))
    assert "no_such_role" in str(caught.value)


def test_a_wrong_password_is_refused_and_not_shown(server: PostgresServer, ledger: Backend) -> None:
    """The server's refusal of a password is passed on without the password."""
    admin(server, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text(encoding="utf-8")
    rules.write_text(f"local all guarded scram-sha-256\n{before}", encoding="utf-8")
    try:
        admin(server, "SELECT pg_reload_conf()")
        with refusal(DatabaseUnreachable, "database_unreachable") as caught:
            use(as_role(ledger, "guarded"))
        assert "guarded" in str(caught.value)
    finally:
        rules.write_text(before, encoding="utf-8")
        admin(server, "SELECT pg_reload_conf()", "DROP ROLE guarded")


@pytest.mark.parametrize(
    ("rights", "setting", "code"),
    [
        ("ALL", "on", "database_read_only"),
        ("SELECT", "off", "database_denied"),
    ],
    ids=["read_only_transactions", "no_right_to_write"],
)
def test_a_role_that_may_only_read_can_read(
    server: PostgresServer, ledger: Backend, rights: str, setting: str, code: str
) -> None:
    """A write by a reading role is refused by name; what only reads works for it."""
    admin(server, "CREATE ROLE reader LOGIN")
    try:
        ledger.sql(f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO reader")
        ledger.sql(f"ALTER ROLE reader SET default_transaction_read_only = {setting}")
        with refusal(DatabaseUnusable, code):
            use(as_role(ledger, "reader"))
        stores = as_role(ledger, "reader").open(read_only=True)
        with stores.database.reading() as transaction:
            assert transaction.select("switched_off", scope="ingest") == []
        stores.close()
    finally:
        ledger.sql("DROP OWNED BY reader")
        admin(server, "DROP ROLE reader")


def test_too_many_connections_are_named(server: PostgresServer, ledger: Backend) -> None:
    """A connection beyond the limit is refused as unreachable; when another ends, it works."""
    admin(server, "CREATE ROLE crowded LOGIN CONNECTION LIMIT 1")
    ledger.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO crowded")
    try:
        with psycopg.connect(as_role(ledger, "crowded").url):
            with refusal(DatabaseUnreachable, "database_unreachable") as caught:
                use(as_role(ledger, "crowded"))
            assert "too many connections" in str(caught.value)
            waiting = as_role(ledger, "crowded").open()
        ledger.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'crowded'"
        )
        waiting.leases.register("w", ingest_run_id="run", lease_s=60)
        waiting.close()
    finally:
        ledger.sql("DROP OWNED BY crowded")
        admin(server, "DROP ROLE crowded")


def test_a_row_that_a_constraint_refuses_leaves_the_batch_unwritten(ledger: Backend) -> None:
    """One bad row undoes the whole transaction, and the constraint is named."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    stores.ledger.record_and_claim(worker, units(10))
    before = ledger.sql("SELECT * FROM wal_records ORDER BY wal_id")
    nobody = "00000000-0000-0000-0000-000000000000"

    def work(transaction: Any) -> None:
        transaction.connection.execute("UPDATE wal_records SET version = version + 1, queue = 'x'")
        transaction.write("insert_annotations", [(nobody, 1, "a", "k", "n")], now=transaction.now())

    with refusal(DataRefused, "data_refused") as caught:
        stores.runner.run(work)
    assert "foreign key" in str(caught.value)
    assert ledger.sql("SELECT * FROM wal_records ORDER BY wal_id") == before


def test_the_address_may_change_settings_of_the_session(ledger: Backend) -> None:
    """Options in the address count, and those of the package that it does not name stay."""
    options = quote("-c lock_timeout=7s", safe="")
    stores = Backend("postgres", f"{ledger.url}&options={options}").open()
    with stores.database.transaction() as transaction:
        connection: Any = transaction.connection  # type: ignore[attr-defined]
        names = ("lock_timeout", "idle_in_transaction_session_timeout", "TimeZone")
        found = [
            next(iter(connection.execute(f"SHOW {name}").fetchone().values())) for name in names
        ]
    stores.close()
    assert found == ["7s", "1min", "UTC"]


def test_statements_are_planned_for_their_values_and_foreign_keys_once(ledger: Backend) -> None:
    """However often a statement runs it is not prepared; the server keeps the plans of its checks.

    A generic plan of ours may take a rare status for the way to a row. The check of a foreign key
    has only one way, and to plan it for each row costs as much as the row.
    """
    stores = ledger.open()
    with stores.database.transaction() as transaction:
        for _ in range(20):
            transaction.select("switched_off", scope="ingest")
        connection: Any = transaction.connection  # type: ignore[attr-defined]
        prepared = connection.execute("SELECT count(*) AS n FROM pg_prepared_statements").fetchone()
        plans = connection.execute("SHOW plan_cache_mode").fetchone()
    stores.close()
    assert prepared == {"n": 0}
    assert plans == {"plan_cache_mode": "auto"}


# --- a server that dies in the middle -------------------------------------------------------------


class Interceptor:
    """Stands between the stores and their connection, and acts once at a chosen statement."""

    def __init__(self, stores: Stores, at: Callable[[str], bool], act: Callable[..., Any]) -> None:
        with stores.database.transaction() as transaction:
            self._connection: Any = transaction.connection  # type: ignore[attr-defined]
        self._run = self._connection.execute
        self._at = at
        self._act = act
        self.acted = 0
        self._connection.execute = self._execute

    def _execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if not self.acted and self._at(query if isinstance(query, str) else ""):
            self.acted += 1
            return self._act(lambda: self._run(query, *arguments, **options))
        return self._run(query, *arguments, **options)


def claimed(ledger: Backend) -> tuple[Stores, Any, list[Claim]]:
    """Return stores, a worker and its claims of the first units."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)
    receipts = stores.ledger.record_and_claim(worker, units(COUNT))
    return stores, worker, [receipt.claim for receipt in receipts if receipt.claim]


def standing(ledger: Backend) -> list[tuple[Any, ...]]:
    """Return status, attempts and version of the records, and how many have them."""
    return ledger.sql(
        "SELECT status, attempts, version, count(*) FROM wal_records"
        " GROUP BY status, attempts, version"
    )


@pytest.mark.parametrize("statement", ["INSERT INTO wal_records", "INSERT INTO wal_attempts"])
def test_a_server_killed_in_the_middle_of_a_batch_has_nothing_of_it(
    server: PostgresServer, ledger: Backend, statement: str
) -> None:
    """The call fails as unreachable with nothing written; the same call works after the restart."""
    stores = ledger.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)

    def crash(run: Callable[[], Any]) -> Any:
        server.kill()
        return run()

    interceptor = Interceptor(stores, lambda query: statement in query, crash)
    with refusal(DatabaseUnreachable, "database_unreachable"):
        stores.ledger.record_and_claim(worker, units(COUNT))
    assert interceptor.acted == 1
    server.start()
    assert standing(ledger) == []
    receipts = stores.ledger.record_and_claim(worker, units(COUNT))
    assert len([receipt for receipt in receipts if receipt.claim]) == COUNT
    assert standing(ledger) == [("in_progress", 1, 2, COUNT)]


def crash_before(server: PostgresServer, run: Callable[[], Any]) -> Any:
    """Crash the server before COMMIT reaches it."""
    server.restart("immediate")
    return run()


def crash_after(server: PostgresServer, run: Callable[[], Any]) -> Any:
    """Let the server commit, and crash it before the client hears of it."""
    run()
    server.restart("immediate")
    return run()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [crash_before, crash_after])
@pytest.mark.parametrize("verb", ["record_and_claim", "claim_due", "commit"])
def test_a_server_that_dies_during_commit_is_asked_afterwards(
    server: PostgresServer, ledger: Backend, verb: str, moment: Callable[..., Any]
) -> None:
    """Landed or not, the caller gets its result, and each unit has one attempt for it."""
    stores, worker, claims = claimed(ledger)
    if verb == "claim_due":
        stores.leases.stop(worker)
        worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)
    interceptor = Interceptor(
        stores, lambda query: query == "COMMIT", lambda run: moment(server, run)
    )
    if verb == "record_and_claim":
        receipts = stores.ledger.record_and_claim(worker, units(COUNT, first=COUNT))
        assert len([receipt for receipt in receipts if receipt.claim]) == COUNT
        assert standing(ledger) == [("in_progress", 1, 2, 2 * COUNT)]
    elif verb == "claim_due":
        assert len(stores.ledger.claim_due(worker, COUNT)) == COUNT
        assert standing(ledger) == [("in_progress", 2, 5, COUNT)]
    else:
        result = stores.ledger.commit(worker, [success(claim) for claim in claims])
        assert (len(result.closed), result.lost) == (COUNT, ())
        assert standing(ledger) == [("succeeded", 1, 3, COUNT)]
    assert interceptor.acted == 1
    assert ledger.sql("SELECT max(attempt_no) FROM wal_attempts") == [
        (2,) if verb == "claim_due" else (1,)
    ]


def test_a_server_that_stays_away_leaves_the_question_open(
    server: PostgresServer, ledger: Backend
) -> None:
    """If the database does not come back in time the caller is told that the outcome is unknown."""
    stores, worker, claims = claimed(ledger)
    waits: list[float] = []
    stores.runner._sleep = waits.append

    def crash(run: Callable[[], Any]) -> Any:
        server.kill()
        return run()

    Interceptor(stores, lambda query: query == "COMMIT", crash)
    with refusal(CommitUnknown, "commit_unknown"):
        stores.ledger.commit(worker, [success(claim) for claim in claims])
    server.start()
    assert len(waits) == 12
    assert standing(ledger) == [("in_progress", 1, 2, COUNT)]


SLOW_COMMIT = """
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON wal_attempts
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()
"""


@pytest.mark.parametrize("verb", ["record_and_claim", "commit"])
def test_a_commit_that_lands_after_its_client_was_cut_off_is_waited_for(
    ledger: Backend, verb: str
) -> None:
    """The server may still be committing when the client comes back: the answer waits for it."""
    stores, worker, claims = claimed(ledger)
    ledger.sql(SLOW_COMMIT)
    gate = ledger.connect()
    gate.execute("SELECT pg_advisory_lock(1)")

    def cut_off(run: Callable[[], Any]) -> Any:
        """Let COMMIT reach the server, which waits at the gate; then cut the line."""
        connection: Any = interceptor._connection
        line = socket.socket(fileno=os.dup(connection.fileno()))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ?"

        def cut() -> None:
            while ledger.sql(waiting, connection.info.backend_pid) == [(0,)]:
                pass
            line.shutdown(socket.SHUT_RDWR)
            line.close()

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            return run()
        finally:
            cutter.join()
            # The server goes on while the client already asks.
            threading.Timer(1.0, gate.execute, ["SELECT pg_advisory_unlock(1)"]).start()

    interceptor = Interceptor(stores, lambda query: query == "COMMIT", cut_off)
    if verb == "record_and_claim":
        receipts = stores.ledger.record_and_claim(worker, units(COUNT, first=COUNT))
        claims = [receipt.claim for receipt in receipts if receipt.claim]
        assert len(claims) == COUNT
    else:
        result = stores.ledger.commit(worker, [success(claim) for claim in claims])
        assert (len(result.closed), result.lost) == (COUNT, ())
    assert interceptor.acted == 1
    expected = (
        [("in_progress", 1, 2, 2 * COUNT)]
        if verb == "record_and_claim"
        else [("succeeded", 1, 3, COUNT)]
    )
    assert standing(ledger) == expected

"""PostgreSQL: any number of workers on any number of hosts."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from tallgrass.storage.driver_errors import from_postgres
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.unit_of_work import Row

#: One migration at a time in a database.
_MIGRATION_LOCK = (72319085, 0)

#: A client that stops in the middle of a transaction must not hold rows for longer than a lease.
_SESSION = (
    "-c timezone=UTC -c lock_timeout=30s "
    "-c idle_in_transaction_session_timeout=60s -c application_name=tallgrass"
)

#: Queries whose rows hold payloads, which are twice as long in text. They give ids as text.
_IN_BINARY = frozenset({"due_deliveries", "due_heads"})

_CREATE_MIGRATIONS = """CREATE TABLE IF NOT EXISTS schema_migrations (
  number integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL,
  applied_at timestamptz NOT NULL)"""


class PostgresDatabase:
    """One connection to a server, opened again after it broke. Use it from one thread at a time."""

    dialect = "postgres"
    schema = "postgres"

    def __init__(self, url: str, *, connect_timeout_s: int = 10) -> None:
        self._url = url
        self._connect_timeout_s = connect_timeout_s
        self._connection: psycopg.Connection[dict[str, Any]] | None = None
        self.place = place_of(url)

    @contextlib.contextmanager
    def transaction(self) -> Iterator["PostgresTransaction"]:
        """Begin; commit at the end, roll back on any error."""
        with self._begun("BEGIN") as transaction:
            yield transaction

    @contextlib.contextmanager
    def reading(self) -> Iterator["PostgresTransaction"]:
        """Begin a consistent view that may not write."""
        with self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as transaction:
            yield transaction

    @contextlib.contextmanager
    def migrating(self) -> Iterator["PostgresMigration"]:
        """Begin a transaction for schema changes, under a lock that only migrations take."""
        with self._begun("BEGIN") as transaction:
            yield PostgresMigration(transaction)

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _begun(self, begin: str) -> Iterator["PostgresTransaction"]:
        with self._translated():
            connection = self._connect()
            connection.execute(begin)
        try:
            with self._translated():
                yield PostgresTransaction(connection)
            with self._translated(committing=True):
                connection.execute("COMMIT")
        finally:
            self._roll_back_if_open(connection)

    def _connect(self) -> psycopg.Connection[dict[str, Any]]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                # Plans are made for the values at hand: the generic plan of a prepared statement
                # once took a status for rare (30 times slower). Forcing that by plan_cache_mode
                # would plan the check of a foreign key anew for each row, half of its cost.
                prepare_threshold=None,
                row_factory=dict_row,
                connect_timeout=self._connect_timeout_s,
                # What the address itself asks for comes last and counts.
                options=f"{_SESSION} {conninfo_to_dict(self._url).get('options') or ''}",
            )
            self._connection.adapters.register_loader("uuid", TextLoader)
        return self._connection

    def _roll_back_if_open(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        if connection.closed or connection.info.transaction_status.name == "IDLE":
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:  # the server rolls back what it lost
            connection.close()

    @contextlib.contextmanager
    def _translated(self, *, committing: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as exc:
            connected = self._connection is not None and not self._connection.broken
            raise from_postgres(
                exc, exc.sqlstate, self.place, connected=connected, committing=committing
            ) from exc


class PostgresTransaction:
    """An open transaction on PostgreSQL."""

    def __init__(
        self, connection: psycopg.Connection[dict[str, Any]], schema: str = "postgres"
    ) -> None:
        self.connection = connection
        self._queries = load_queries(schema)

    def now(self) -> datetime:
        """Return the server's time; not the transaction's, which ages while locks are awaited."""
        row = self.connection.execute("SELECT clock_timestamp() AS now").fetchone()
        return row["now"].astimezone(UTC)  # type: ignore[index,no-any-return]

    def select(self, name: str, **params: object) -> Sequence[Row]:
        """Run a named query."""
        sql, is_binary = self._queries[name].sql, name in _IN_BINARY
        return self.connection.execute(sql, _stored(params), binary=is_binary).fetchall()

    def lock(self, name: str, rows: Sequence[object]) -> None:
        """Lock rows in id order."""
        if rows:
            self.select(name, rows=list(rows))

    def write(self, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        """Run a named statement once for all rows, which travel as one JSON parameter."""
        if not rows:
            return 0
        query = self._queries[name]
        each = query.each
        # What is null is left out: the ledger took 5 % less time with the shorter JSON.
        batch = orjson.dumps(
            [
                {name: value for name, value in zip(each, row, strict=True) if value is not None}
                for row in rows
            ]
        ).decode()
        return self.connection.execute(query.sql, {**params, "rows": batch}).rowcount

    def execute(self, name: str, **params: object) -> int:
        """Run a named statement once."""
        return self.connection.execute(self._queries[name].sql, _stored(params)).rowcount


class PostgresMigration:
    """A transaction for the schema."""

    def __init__(self, transaction: PostgresTransaction) -> None:
        self._connection = transaction.connection
        self._connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", _MIGRATION_LOCK)
        self._connection.execute(_CREATE_MIGRATIONS)

    def applied(self) -> Sequence[tuple[int, str, str]]:
        """Return what ran here."""
        rows = self._connection.execute(
            "SELECT number, name, sha256 FROM schema_migrations ORDER BY number"
        )
        return [(row["number"], row["name"], row["sha256"]) for row in rows]

    def apply(self, number: int, name: str, sha256: str, statements: str) -> None:
        """Run a migration and record it."""
        self._connection.execute(statements.encode())
        self._connection.execute(
            "INSERT INTO schema_migrations VALUES (%s, %s, %s, clock_timestamp())",
            (number, name, sha256),
        )


def place_of(url: str) -> str:
    """Return the address without user, password and options, for messages."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return re.sub(r"//[^@/]*@", "//", url).partition("?")[0]
    host = parts.get("host") or "local socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"PostgreSQL database {parts.get('dbname') or ''} on {host}{port}"


def _stored(params: dict[str, object]) -> dict[str, object]:
    return {
        name: orjson.dumps(value).decode() if isinstance(value, list) else value
        for name, value in params.items()
    }

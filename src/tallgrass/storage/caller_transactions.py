"""Transactions that callers opened themselves, as something that runs our named statements.

Ours, or one on the caller's own `sqlite3`, `psycopg` or SQLAlchemy connection. None is begun or
ended here: a handle without an open transaction is refused. Drivers that are not installed are not
asked for: whoever holds a connection of theirs has loaded them.
"""

import contextlib
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import orjson

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import InvalidInput, NoTransaction
from tallgrass.storage.driver_errors import from_postgres, from_sqlite
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.sqlite import SqliteTransaction, given_once
from tallgrass.storage.unit_of_work import Row

_PLACE = "the caller's database"
_SAVEPOINT = "tallgrass_call"
#: As libpq says it.
_PIPELINE_OFF = 0


class CallerSqlite:
    """The open transaction of a `sqlite3` connection."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._queries = load_queries(self.dialect)

    def now(self) -> datetime:
        """Return the time that rows are written with."""
        return self._clock()

    def select(self, name: str, **params: object) -> Sequence[Row]:
        """Run a named query; the caller's own way to see rows does not matter."""
        query = self._queries[name]
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        # Of the connection alone: a cursor has none of its own.
        theirs, self._connection.text_factory = self._connection.text_factory, str
        try:
            return cursor.execute(query.sql, given_once(query, params)).fetchall()
        except sqlite3.Error as exc:
            raise from_sqlite(exc, _PLACE) from exc
        finally:
            self._connection.text_factory = theirs

    def write(self, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        """Run a named statement for every row; return how many rows changed in all."""
        if not rows:
            return 0
        query = self._queries[name]
        once = given_once(query, params)
        try:
            cursor = self._connection.executemany(query.sql, [(*once, *row) for row in rows])
        except sqlite3.Error as exc:
            raise from_sqlite(exc, _PLACE) from exc
        return cursor.rowcount

    def execute(self, name: str) -> None:
        """Run a named statement without parameters."""
        self._run(self._queries[name].sql)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Keep all that is done inside, or, if that fails, nothing of it."""
        self._run(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            # Some faults have rolled everything back already.
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute(f"ROLLBACK TO {_SAVEPOINT}")
                    self._connection.execute(f"RELEASE {_SAVEPOINT}")
            raise
        self._run(f"RELEASE {_SAVEPOINT}")

    def whole(self) -> contextlib.AbstractContextManager[None]:
        """Guard several writes: a statement that fails undoes only itself on SQLite."""
        return self.savepoint()

    def _run(self, statement: str) -> None:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as exc:
            raise from_sqlite(exc, _PLACE) from exc


class CallerPostgres:
    """The open transaction of a `psycopg` connection."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        from psycopg.rows import dict_row  # noqa: PLC0415 - optional extra, loaded by the caller

        # Of SQL_ASCII: the driver reads texts as bytes, which equal none of ours.
        if connection.info.encoding == "ascii":
            raise _wrong_encoding(connection)
        # There a statement is answered later: nobody knows yet what it found or changed.
        if connection.pgconn.pipeline_status != _PIPELINE_OFF:
            raise NoTransaction(
                "the psycopg connection is in pipeline mode, where answers come later; "
                "call this outside of `with connection.pipeline():`"
            )
        self._connection = connection
        self._dict_row = dict_row
        self._queries = load_queries(self.dialect)

    def now(self) -> None:
        """Return nothing: the server's statements ask the server's clock themselves."""

    def select(self, name: str, **params: object) -> Sequence[Row]:
        """Run a named query; the caller's own way to see rows does not matter."""
        with self._translated(), self._connection.cursor(row_factory=self._dict_row) as cursor:
            cursor.execute(self._queries[name].sql, _as_json(params))
            rows: Sequence[Row] = cursor.fetchall()
            return rows

    def write(self, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        """Run a named statement once for all rows, which travel as one JSON parameter."""
        if not rows:
            return 0
        query = self._queries[name]
        batch = [dict(zip(query.each, row, strict=True)) for row in rows]
        with self._translated(), self._connection.cursor() as cursor:
            changed: int = cursor.execute(query.sql, _as_json({**params, "rows": batch})).rowcount
            return changed

    def execute(self, name: str) -> None:
        """Run a named statement without parameters."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(self._queries[name].sql)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Keep all that is done inside, or, if that fails, nothing of it."""
        self._run(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            if not self._connection.closed:
                self._run(f"ROLLBACK TO {_SAVEPOINT}")
                # Else it would be taken for the one around it, which has its name.
                self._run(f"RELEASE {_SAVEPOINT}")
            raise
        self._run(f"RELEASE {_SAVEPOINT}")

    def whole(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: after a statement that failed, PostgreSQL commits nothing any more."""
        return contextlib.nullcontext()

    def _run(self, statement: str) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(statement)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg  # noqa: PLC0415 - optional extra, loaded by the caller

        try:
            yield
        except psycopg.Error as exc:
            connected = not self._connection.broken and not self._connection.closed
            raise from_postgres(
                exc, exc.sqlstate, _PLACE, connected=connected, committing=False
            ) from exc
        except UnicodeEncodeError as exc:
            raise _wrong_encoding(self._connection) from exc


CallerTransaction = CallerSqlite | CallerPostgres


def _wrong_encoding(connection: Any) -> InvalidInput:
    encoding = connection.info.parameter_status("client_encoding")
    return InvalidInput(
        f"the connection's client_encoding {encoding} does not hold all characters of events; "
        "SET client_encoding TO 'UTF8'"
    )


def caller_transaction(handle: object, clock: Clock = system_clock) -> CallerTransaction:
    """Return the open transaction behind a handle; without one, raise NoTransaction.

    `clock` tells SQLite the time, unless the handle is ours and has one.
    """
    if isinstance(handle, SqliteTransaction):
        return _sqlite(handle.connection, handle.now)
    if isinstance(handle, sqlite3.Connection):
        return _sqlite(handle, clock)
    if _is(handle, "tallgrass.storage.postgres", "PostgresTransaction"):
        return _postgres(handle.connection)  # type: ignore[attr-defined]
    if _is(handle, "psycopg", "Connection"):
        return _postgres(handle)
    if _is(handle, "sqlalchemy.engine", "Connection"):
        return _sqlalchemy(handle, handle, clock)
    if _is(handle, "sqlalchemy.orm", "Session") or _is(handle, "sqlalchemy.orm", "scoped_session"):
        return _sqlalchemy(handle, None, clock)
    raise InvalidInput(
        f"{type(handle).__name__} is no transaction and no connection that is known: give one of "
        "sqlite3, psycopg or SQLAlchemy"
    )


def _is(handle: object, module: str, name: str) -> bool:
    """Tell whether a handle is of a class of a module that may not be installed."""
    loaded = getattr(sys.modules.get(module), name, None)
    return isinstance(loaded, type) and isinstance(handle, loaded)


def _sqlite(connection: sqlite3.Connection, clock: Clock) -> CallerSqlite:
    if not connection.in_transaction:
        raise NoTransaction("the sqlite3 connection has no open transaction; execute BEGIN first")
    return CallerSqlite(connection, clock)


def _postgres(connection: Any) -> CallerPostgres:
    status = connection.info.transaction_status.name
    if status != "INTRANS":
        problem = {
            "IDLE": "has no open transaction; use `with connection.transaction():`",
            "INERROR": "is in a transaction that failed; roll it back and begin anew",
        }.get(status, "is not in a transaction that can be used")
        raise NoTransaction(f"the psycopg connection {problem}")
    return CallerPostgres(connection)


def _sqlalchemy(handle: Any, connection: Any, clock: Clock) -> CallerTransaction:
    """Look through SQLAlchemy at the driver: the statements are ours, the transaction its own."""
    if not handle.in_transaction():
        raise NoTransaction("SQLAlchemy has no open transaction here; use `with ….begin():`")
    connection = connection or handle.connection()
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        if not driver.in_transaction:
            _begin_on_sqlite(driver)
        return CallerSqlite(driver, clock)
    if _is(driver, "psycopg", "Connection"):
        # It begins by its first statement: idle is no fault, unless nothing would begin.
        if driver.autocommit and driver.info.transaction_status.name == "IDLE":
            raise NoTransaction("SQLAlchemy's connection is in autocommit mode")
        return CallerPostgres(driver)
    raise InvalidInput(
        f"SQLAlchemy uses the driver {type(driver).__module__}; give one of sqlite3 or psycopg"
    )


def _begin_on_sqlite(driver: sqlite3.Connection) -> None:
    """Begin where SQLAlchemy says that it has: sqlite3 itself waits for the first change."""
    if driver.isolation_level is None or getattr(driver, "autocommit", False) is True:
        raise NoTransaction("SQLAlchemy's connection is in autocommit mode")
    try:
        driver.execute("BEGIN")
    except sqlite3.Error as exc:
        raise from_sqlite(exc, _PLACE) from exc


def _as_json(params: dict[str, object]) -> dict[str, object]:
    return {
        name: orjson.dumps(value).decode() if isinstance(value, list) else value
        for name, value in params.items()
    }

"""Looks at a world's ledger by raw SQL: one form of statement, and plain rows, on both databases.

A connection of sqlite3 is an onlooker as it is. The one for PostgreSQL takes the same statements
(`?` for parameters) and gives times and ids as SQLite holds them.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.string import TextLoader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

#: A transaction gets a number when it first writes; until then it is null.
_OWN_NUMBER = "SELECT CAST(pg_current_xact_id_if_assigned() AS text)"


class Found(Protocol):
    """What a statement found."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]:
        """Go through the rows."""


class Onlooker(Protocol):
    """Whoever runs raw SQL."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Found:
        """Run a statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row."""

    def close(self) -> None:
        """Look no more."""


class _InstantLoader(TimestamptzLoader):
    """Times as SQLite holds them."""

    def load(self, data: Any) -> Any:
        """Return a time as text."""
        return super().load(data).astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


class PostgresOnlooker:
    """Looks at PostgreSQL through any connection, whatever its rows are for others."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run a statement."""
        # Never prepared: a prepared statement would not see a view that hides its table later.
        return self._cursor().execute(_translated(sql), parameters, prepare=False)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row."""
        for row in rows:
            self.execute(sql, row)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _cursor(self) -> psycopg.Cursor[Any]:
        cursor = self._connection.cursor(row_factory=tuple_row)
        cursor.adapters.register_loader("uuid", TextLoader)
        cursor.adapters.register_loader("timestamptz", _InstantLoader)
        return cursor


def within(connection: sqlite3.Connection | psycopg.Connection[Any]) -> Onlooker:
    """Look from inside an open transaction, at what it wrote too."""
    if isinstance(connection, sqlite3.Connection):
        return connection
    return PostgresOnlooker(connection)


def written(connection: sqlite3.Connection | psycopg.Connection[Any]) -> object:
    """Return something that is not the same any more once an open transaction wrote.

    On PostgreSQL it is None until then.
    """
    if isinstance(connection, sqlite3.Connection):
        return connection.total_changes
    (number,) = PostgresOnlooker(connection).execute(_OWN_NUMBER).fetchall()[0]
    return number


def _translated(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()

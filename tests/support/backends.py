"""One ledger on either database, with raw SQL beside it for expectations and for mischief."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tallgrass.bootstrap.stores import Stores, open_stores
from tallgrass.config import Config, load_config
from tallgrass.ledger.rules import LedgerRules
from tallgrass.retry import Backoff
from tallgrass.storage.migrations import migrate

if TYPE_CHECKING:
    from tallgrass.ledger.claim import WorkerLease

#: Back-off of tests that do not care for it: over before the next statement.
NO_BACKOFF = Backoff(base_s=1e-6, cap_s=1e-6)


class ManualClock:
    """A clock that moves only when told; SQLite judges leases by it."""

    def __init__(self, start: datetime = datetime(2026, 6, 1, 12, tzinfo=UTC)) -> None:
        self.instant = start

    def __call__(self) -> datetime:
        """Tell the time."""
        return self.instant

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.instant += timedelta(seconds=seconds)


@dataclass
class Backend:
    """A migrated database. `open()` wires stores to it; `sql()` asks it directly."""

    name: str
    url: str
    _opened: list[Any] = field(default_factory=list)

    def config(self, rules: LedgerRules | None = None) -> Config:
        """Return a configuration for this database, with given rules."""
        config = load_config(environment={}, flags={"database.url": self.url})
        rules = rules or LedgerRules(backoff=NO_BACKOFF)
        return replace(config, rules=rules)

    def open(self, rules: LedgerRules | None = None, **injected: Any) -> Stores:
        """Wire stores over a connection of their own."""
        stores = open_stores(self.config(rules), **injected)
        self._opened.append(stores)
        return stores

    def connect(self) -> Any:
        """Return a raw connection, committed statement by statement, that no store knows of."""
        if self.name == "sqlite":
            connection: Any = sqlite3.connect(self.path, isolation_level=None, timeout=10)
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        self._opened.append(connection)
        return connection

    @property
    def path(self) -> Path:
        """The file of a SQLite backend."""
        return Path(self.url.removeprefix("sqlite:///"))

    def sql(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run raw SQL (`?` for parameters on both) and return its rows as text and numbers."""
        connection = self.connect()
        try:
            if self.name == "postgres":
                statement = statement.replace("?", "%s")
            cursor = connection.execute(statement, params)
            if cursor.description is None:
                return []
            return [tuple(_plain(value) for value in row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def rows(self, statement: str, *params: object) -> list[dict[str, Any]]:
        """Run a raw query and return its rows by the names of their columns."""
        connection = self.connect()
        try:
            return read_rows(connection, statement, *params)
        finally:
            connection.close()

    def expire(self, worker: WorkerLease) -> None:
        """Let a worker's lease end without waiting for it."""
        self.sql(
            "UPDATE workers SET expires_at = ? WHERE incarnation = ?",
            "2000-01-01T00:00:00.000000Z",
            worker.incarnation,
        )

    def close(self) -> None:
        """Close whatever was opened."""
        for opened in self._opened:
            opened.close()


def prepare(name: str, url: str) -> Backend:
    """Migrate an empty database and return it."""
    backend = Backend(name, url)
    stores = backend.open()
    migrate(stores.database)
    stores.close()
    return backend


def read_rows(connection: Any, statement: str, *params: object) -> list[dict[str, Any]]:
    """Query a raw connection; rows come by column name, values alike on both databases."""
    if isinstance(connection, psycopg.Connection):
        statement = statement.replace("?", "%s")
    cursor = connection.execute(statement, params)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]


def _plain(value: object) -> object:
    """Write times and ids of PostgreSQL as SQLite holds them."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    if isinstance(value, int | float | str | bytes) or value is None:
        return value
    return str(value)

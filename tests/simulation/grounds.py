"""What a simulated world stands on: databases in memory, on files, or on a PostgreSQL server.

A ground tells where its ledger is, how ledger and queue are looked at by raw SQL, and whether
anything was written; whoever leaves it leaves nothing behind.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock

import psycopg

from tallgrass.storage import postgres
from tallgrass.storage.postgres import PostgresDatabase, PostgresTransaction
from tests.simulation.memory import MemoryFiles, RawFile
from tests.simulation.onlookers import Onlooker, PostgresOnlooker, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from tallgrass.clock import Clock
    from tests.plugins.postgres import Databases


class Ground(Protocol):
    """Databases of one world."""

    #: The ledger's address.
    url: str
    ledger: Onlooker
    #: The queue's file, as raw SQL sees it.
    messages: Any

    def changes(self) -> int:
        """Return a number that is another one once anything was written to the ledger."""

    def leave(self) -> None:
        """Close what is open; the next world finds nothing of this one."""


class FileGround:
    """SQLite files, with a connection for each process."""

    def __init__(self, source: Path, folder: Path) -> None:
        for name in ("ledger.db", "queue.db"):
            shutil.copyfile(source / name, folder / name)
        self.url = f"sqlite:///{folder}/ledger.db"
        self._ledger = sqlite3.connect(folder / "ledger.db", isolation_level=None)
        self.ledger: Onlooker = self._ledger
        self.messages: Any = sqlite3.connect(folder / "queue.db", isolation_level=None)

    def changes(self) -> int:
        """Return what SQLite counts."""
        return int(self._ledger.execute("PRAGMA data_version").fetchone()[0])

    def leave(self) -> None:
        """Close both files; the world's folder goes with them."""
        self._ledger.close()
        self.messages.close()


class MemoryGround:
    """SQLite in memory."""

    def __init__(self, memory: MemoryFiles, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/ledger.db"
        self._memory = memory.lend(folder)
        self.ledger: Onlooker = memory["ledger.db"].onlooker()
        self.messages: Any = RawFile(memory["queue.db"])

    def changes(self) -> int:
        """Return how many rows were ever written."""
        return self._memory["ledger.db"].connection.total_changes

    def leave(self) -> None:
        """Make the files empty again."""
        self.ledger.close()
        self._memory.give_back()


class PostgresGround:
    """A database of its own on a server; the queue is in memory."""

    def __init__(
        self, databases: Databases, template: str, memory: MemoryFiles, folder: Path, clock: Clock
    ) -> None:
        self._databases = databases
        self.url = databases.create(template)
        self._memory = memory.lend(folder)
        self.messages: Any = RawFile(memory["queue.db"])
        self.ledger: Onlooker = PostgresOnlooker(psycopg.connect(self.url, autocommit=True))
        self._clock = clock
        self._changes = 0
        self._patch = mock.patch.object(postgres, "PostgresDatabase", self._open)
        self._patch.start()

    def changes(self) -> int:
        """Return how many transactions wrote something."""
        return self._changes

    def leave(self) -> None:
        """Drop the database; make the queue empty again."""
        self._patch.stop()
        self.ledger.close()
        self._memory.give_back()
        self._databases.drop(self.url)

    def _open(self, url: str) -> SimulatedPostgres:
        return SimulatedPostgres(url, self._clock, self._wrote)

    def _wrote(self) -> None:
        self._changes += 1


class SimulatedPostgres(PostgresDatabase):
    """A connection to a server on which time is the world's; all else is the real thing."""

    def __init__(self, url: str, clock: Clock, wrote: Callable[[], None]) -> None:
        super().__init__(url)
        self._clock = clock
        self._wrote = wrote

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Begin; tell whoever counts if it wrote."""
        with super().transaction() as real:
            yield SimulatedTransaction(real.connection, self._clock)
            has_written = written(real.connection) is not None
        if has_written:
            self._wrote()

    @contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        """Begin a view."""
        with super().reading() as real:
            yield SimulatedTransaction(real.connection, self._clock)


class SimulatedTransaction(PostgresTransaction):
    """A transaction on a server whose clock is the world's."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]], clock: Clock) -> None:
        super().__init__(connection)
        self._clock = clock

    def now(self) -> datetime:
        """Tell the world's time."""
        return self._clock()

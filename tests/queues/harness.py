"""Queues as the contract suite sees them: one to send to, more consumers of it, and time."""

from __future__ import annotations

import sqlite3
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tallgrass.queues.embedded import EmbeddedQueue
from tallgrass.storage.migrations import migrate
from tallgrass.storage.queue_store import QueueStore
from tallgrass.storage.sqlite import SqliteDatabase
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.clock import Clock
    from tallgrass.queues.protocol import Queue

VISIBILITY_S = 60.0
MAX_RECEIVE_COUNT = 3


class Harness(Protocol):
    """What a kind of queue must offer to join the suite."""

    #: Whether a body may be any bytes, or only text in UTF-8.
    takes_any_bytes: bool
    #: Whether a delete tells that its receipt was stale; SQS answers as if it had worked.
    reports_stale_deletes: bool
    #: How a process of its own reaches the same queue, by `consumer.py`.
    address: str

    @property
    def queue(self) -> Queue:
        """An empty queue of the test's own with the settings above."""

    def consumer(self) -> Queue:
        """Return another consumer of the same queue."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def dead_bodies(self) -> Sequence[bytes]:
        """Return the bodies of the dead letters."""

    def close(self) -> None:
        """Let go of all connections."""


def open_embedded(path: Path, clock: Clock, **settings: Any) -> tuple[EmbeddedQueue, Any]:
    """Return the embedded queue in a file, and its database."""
    database = SqliteDatabase(path, clock=clock, schema="sqlite_queue")
    migrate(database)
    return EmbeddedQueue("nodd-primary", QueueStore(database), ids=uuid.uuid4, **settings), database


@dataclass
class EmbeddedHarness:
    """The embedded queue on a clock that moves when told."""

    path: Path
    takes_any_bytes: bool = True
    reports_stale_deletes: bool = True
    clock: ManualClock = field(default_factory=ManualClock)
    _databases: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = self.consumer()
        self.address = str(self.path)

    def consumer(self) -> EmbeddedQueue:
        """Return another consumer over a connection of its own."""
        queue, database = open_embedded(
            self.path, self.clock, visibility_s=VISIBILITY_S, max_receive_count=MAX_RECEIVE_COUNT
        )
        self._databases.append(database)
        return queue

    def wait(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.advance(seconds)

    def dead_bodies(self) -> list[bytes]:
        """Ask the file itself."""
        return [body for (body,) in self.sql("SELECT body FROM dead_letters ORDER BY position")]

    def sql(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run raw SQL on the file."""
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(statement, params).fetchall()
        finally:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for database in self._databases:
            database.close()

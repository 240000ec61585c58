"""Queues as the contract suite sees them: one to send to, more consumers of it, and time."""

from __future__ import annotations

import json
import sqlite3
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.queues.embedded import EmbeddedQueue
from tallgrass.storage.migrations import migrate
from tallgrass.storage.queue_store import QueueStore
from tallgrass.storage.sqlite import SqliteDatabase
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.clock import Clock
    from tallgrass.queues.protocol import OpenQueue, Queue
    from tests.support.aws import AwsServer

VISIBILITY_S = 60.0
MAX_RECEIVE_COUNT = 3


class Harness(Protocol):
    """What a kind of queue must offer to join the suite."""

    #: Whether a body may be any bytes, or only text in UTF-8.
    takes_any_bytes: bool
    #: Whether a delete tells that its receipt was stale; SQS answers as if it had worked.
    reports_stale_deletes: bool
    #: Whether the latest receipt still works after its time, until the next delivery.
    expired_receipts_work: bool
    #: Whether the status tells since when the oldest message waits.
    tells_the_oldest: bool
    #: How many messages a test may send that sends many.
    many: int
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
    expired_receipts_work: bool = False
    tells_the_oldest: bool = True
    many: int = 300
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


def open_sqs(arn: str, endpoint_url: str, **settings: Any) -> OpenQueue:
    """Return a queue on an emulator, as the configuration would open it."""
    flags = {"queue.url": arn, "queue.endpoint_url": endpoint_url, "queue.wait_s": 0, **settings}
    return open_queue(load_config(environment={}, flags=flags))


@dataclass
class SqsHarness:
    """A queue on an emulator whose clock moves when told."""

    server: AwsServer
    takes_any_bytes: bool = False
    expired_receipts_work: bool = True
    tells_the_oldest: bool = False

    def __post_init__(self) -> None:
        self.reports_stale_deletes = self.server.kind == "ministack"
        self.many = 300 if self.server.kind == "ministack" else 40
        self._clock = self.server.stopped_clock()
        self._clock.__enter__()
        self.made = self.server.make_queue(max_receive_count=MAX_RECEIVE_COUNT)
        self.address = json.dumps([self.made.arn, self.server.url])
        self._open: list[OpenQueue] = []
        self.queue = self.consumer()

    def consumer(self) -> OpenQueue:
        """Return another consumer over connections of its own."""
        settings = {"queue.visibility_s": VISIBILITY_S, "queue.receivers": 2}
        self._open.append(open_sqs(self.made.arn, self.server.url, **settings))
        return self._open[-1]

    def wait(self, seconds: float) -> None:
        """Move the emulator's clock."""
        self.server.advance(seconds)

    def dead_bodies(self) -> list[bytes]:
        """Ask the dead-letter queue itself."""
        answer = self.server.client("sqs").receive_message(
            QueueUrl=self.made.dead_url, MaxNumberOfMessages=10
        )
        return [message["Body"].encode() for message in answer.get("Messages", [])]

    def close(self) -> None:
        """Close all connections; let the clock go."""
        for queue in self._open:
            queue.close()
        self._clock.__exit__(None, None, None)

"""Where a long run takes place: the stores, the queue and the servers that it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import Config, load_config
from tests.oracle.tables import QueueContents, read_queue

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.postgres_server import PostgresServer
    from tests.support.aws import AwsServer, MadeQueue


@dataclass(kw_only=True)
class RunPlace(ABC):
    """SQLite with the embedded queue, or PostgreSQL with either kind of queue."""

    name: str
    folder: Path
    database_url: str
    queue_url: str
    server: PostgresServer | None = None
    aws: AwsServer | None = None
    queue: MadeQueue | None = None

    @property
    @abstractmethod
    def rules(self) -> dict[str, Any]:
        """The settings of every process, but for where things are."""

    @property
    def events(self) -> Path:
        """The file that events are delivered to."""
        return self.folder / "tallgrass-events.jsonl"

    @property
    def flags(self) -> dict[str, Any]:
        """All settings of every process."""
        at = {"queue.endpoint_url": self.aws.url} if self.aws is not None else {}
        return {
            "database.url": self.database_url,
            "queue.url": self.queue_url,
            **at,
            **self.rules,
        }

    @cached_property
    def config(self) -> Config:
        """The settings as the package reads them."""
        return load_config(environment={}, flags=self.flags)

    def queue_is_empty(self) -> bool:
        """Tell whether nothing waits and nothing is in flight."""
        with closing(open_queue(self.config)) as queue:
            status = queue.status()
            return not status.visible and not status.in_flight

    def queue_contents(self) -> QueueContents:
        """Return what waits and what was given up."""
        if self.aws is None or self.queue is None:
            return read_queue(self.queue_url.removeprefix("sqlite:///"))
        return QueueContents(
            waiting=_bodies(self.aws, self.queue.url), dead=_bodies(self.aws, self.queue.dead_url)
        )

    def close(self) -> None:
        """End its servers."""
        if self.server is not None:
            self.server.remove()
        if self.aws is not None:
            self.aws.close()


def _bodies(aws: AwsServer, url: str) -> list[bytes]:
    """Take all messages out of a queue; return their bodies."""
    found, sqs = [], aws.client("sqs")
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"].encode() for message in messages]
    return found

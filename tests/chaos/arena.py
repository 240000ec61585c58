"""Where a chaotic run takes place: SQLite alone, or PostgreSQL with SQS."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tests.chaos.roles import connect, folder_of
from tests.oracle.tables import QueueContents, read_queue
from tests.plugins.postgres import FOLDER_PREFIX
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.support.aws import ENVIRONMENT, AwsServer, MadeQueue

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.config import Config

#: Short, so that what a killed process held is free again soon.
LEASE_S = 1.0
VISIBILITY_S = 2.0
ATTEMPTS_MAX = 100
_RECEIVES_MAX = 1000


@dataclass(kw_only=True)
class Arena:
    """Stores, queue and objects of one run."""

    name: str
    folder: Path
    database_url: str
    queue_url: str
    server: PostgresServer | None = None
    aws: AwsServer | None = None
    queue: MadeQueue | None = None
    config: Config = field(init=False)

    def __post_init__(self) -> None:
        self.objects = folder_of(self.folder / "objects")
        folder_of(self.folder / "nodes")
        flags: dict[str, Any] = {
            "database.url": self.database_url,
            "queue.url": self.queue_url,
            "queue.visibility_s": VISIBILITY_S,
            "queue.max_receive_count": _RECEIVES_MAX,
            "queue.wait_s": 1,
            "ledger.max_attempts": ATTEMPTS_MAX,
            "ledger.retry_base_s": 0.1,
            "ledger.retry_cap_s": 0.5,
            "worker.batch": 4,
            "worker.lease_s": LEASE_S,
            "outbox.lease_s": LEASE_S,
            "outbox.batch": 4,
            "outbox.attempts": ATTEMPTS_MAX,
            "outbox.base_s": 0.1,
            "outbox.cap_s": 0.5,
            "replay.batch": 3,
            "replay.max_records_per_second": 10_000.0,
            "objects.url": f"file:{self.objects}",
        }
        if self.aws is not None:
            flags["queue.endpoint_url"] = self.aws.url
        self.config = load_config(environment={}, flags=flags)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database directly."""
        with closing(connect(self.database_url)) as database:
            return [tuple(row) for row in database.execute(query).fetchall()]

    def plan(self, name: str) -> Path:
        """Return where the plan of a replay is kept."""
        return self.folder / f"{name}.jsonl"

    def events(self) -> Path:
        """Return the file that events are delivered to."""
        return self.folder / "tallgrass-events.jsonl"

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
            waiting=bodies(self.aws, self.queue.url), dead=bodies(self.aws, self.queue.dead_url)
        )

    def close(self) -> None:
        """End its servers."""
        if self.server is not None:
            self.server.remove()
        if self.aws is not None:
            self.aws.close()


def open_arena(name: str, folder: Path) -> Arena:
    """Make an arena: `sqlite`, or `postgres` with SQS."""
    if name == "sqlite":
        return Arena(
            name=name,
            folder=folder,
            database_url=f"sqlite:///{folder / 'ledger.db'}",
            queue_url=f"sqlite:///{folder / 'queue.db'}",
        )
    os.environ.update(ENVIRONMENT)
    server = PostgresServer(new_folder(f"{FOLDER_PREFIX}own-{os.getpid()}-"), fast=True)
    server.start()
    aws = AwsServer("ministack")
    queue = aws.make_queue(visibility_s=int(VISIBILITY_S), max_receive_count=_RECEIVES_MAX)
    return Arena(
        name=name,
        folder=folder,
        database_url=server.url,
        queue_url=queue.url,
        server=server,
        aws=aws,
        queue=queue,
    )


def bodies(aws: AwsServer, url: str) -> list[bytes]:
    """Take all messages out of a queue; return their bodies."""
    found, sqs = [], aws.client("sqs")
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"].encode() for message in messages]
    return found

"""Where a chaotic run takes place: SQLite alone, or PostgreSQL with SQS."""

from __future__ import annotations

import os
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.chaos.roles import connect, folder_of
from tests.plugins.postgres import FOLDER_PREFIX
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.support.aws import ENVIRONMENT, AwsServer
from tests.support.run_places import RunPlace

if TYPE_CHECKING:
    from pathlib import Path

#: Short, so that what a killed process held is free again soon.
LEASE_S = 1.0
VISIBILITY_S = 2.0
ATTEMPTS_MAX = 100
_RECEIVES_MAX = 1000


class Arena(RunPlace):
    """Stores, queue and objects of one run."""

    @cached_property
    def objects(self) -> Path:
        """The folder that objects are written to."""
        return folder_of(self.folder / "objects")

    @property
    def rules(self) -> dict[str, Any]:
        """The settings of every process, but for where things are."""
        return {
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

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database directly."""
        with closing(connect(self.database_url)) as database:
            return [tuple(row) for row in database.execute(query).fetchall()]

    def plan(self, name: str) -> Path:
        """Return where the plan of a replay is kept."""
        return self.folder / f"{name}.jsonl"


def open_arena(name: str, folder: Path) -> Arena:
    """Make an arena: `sqlite`, or `postgres` with SQS."""
    folder_of(folder / "nodes")
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

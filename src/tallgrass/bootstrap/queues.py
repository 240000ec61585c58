"""Opens the configured queue: the embedded one, or SQS."""

import random
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.errors import ConfigError, QueueMissing, did_you_mean
from tallgrass.queues.embedded import EmbeddedQueue
from tallgrass.queues.protocol import OpenQueue, QueueStatus
from tallgrass.queues.sqs_address import SqsAddress, read_address
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.migrations import migrate, require_current_schema
from tallgrass.storage.queue_store import QueueStore
from tallgrass.storage.sqlite import SqliteDatabase


def open_queue(
    config: Config,
    *,
    url: str | None = None,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
    wait_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> OpenQueue:
    """Return the configured queue, or that at `url`. The embedded one is made if it is not there.

    On SQS nothing is asked yet, and a receive waits for `wait_s` (queue.wait_s unless given), or
    until it is `interrupted`.
    """
    url = url or config.text("queue.url")
    if (file := sqlite_file(url)) is not None:
        return open_embedded_queue(config, file=file, clock=clock, ids=ids)
    return open_sqs_queue(config, read_address(url), clock, wait_s, interrupted)


def open_queue_store(config: Config, file: Path, *, clock: Clock = system_clock) -> QueueStore:
    """Return the store of an embedded queue, made if it is not there."""
    database = SqliteDatabase(
        file,
        clock=clock,
        lock_timeout_s=config.number("database.lock_timeout_s"),
        schema="sqlite_queue",
    )
    migrate(database)
    return QueueStore(database)


def open_embedded_queue(
    config: Config,
    *,
    file: Path | None = None,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
) -> EmbeddedQueue:
    """Return the configured embedded queue, or that of a file; made if it is not there."""
    file = file or sqlite_file(config.text("queue.url"))
    if file is None:
        raise ConfigError("queue.url is not the embedded queue")
    return EmbeddedQueue(
        config.text("queue.name"),
        open_queue_store(config, file, clock=clock),
        ids=ids,
        visibility_s=config.number("queue.visibility_s"),
        max_receive_count=config.integer("queue.max_receive_count"),
    )


def open_sqs_queue(
    config: Config,
    address: SqsAddress,
    clock: Clock = system_clock,
    wait_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> OpenQueue:
    """Return a queue of SQS; nothing is asked yet."""
    try:
        from tallgrass.queues.sqs import SqsQueue  # noqa: PLC0415 - optional extra
        from tallgrass.queues.sqs_client import open_client  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ConfigError("queue.url: boto3 is not installed", code="aws_missing") from exc
    receivers = config.integer("queue.receivers")
    client = open_client(
        address,
        endpoint_url=config.text("queue.endpoint_url") or None,
        connections=receivers + 1,  # the first poll is the caller's own
    )
    return SqsQueue(
        config.text("queue.name"),
        client,
        address,
        clock=clock,
        sleep=time.sleep,
        random=random.random,
        visibility_s=config.number("queue.visibility_s"),
        wait_s=config.number("queue.wait_s") if wait_s is None else wait_s,
        receivers=receivers,
        max_receive_count=config.integer("queue.max_receive_count"),
        interrupted=interrupted,
    )


def check_queue(config: Config) -> None:
    """Raise if the queue is missing, or one of SQS denied or not to be reached.

    An embedded queue that is configured is made when it is opened. One that a flag names must be
    there: of a mistyped name a worker would make an empty queue, and wait at it for ever.
    """
    file = sqlite_file(config.text("queue.url"))
    if file is None:
        read_queue_status(config)
    elif config.origins["queue.url"] == "flag":
        _require_file(config, file)


def _require_file(config: Config, file: Path) -> None:
    with suppress(OSError):  # what may not be looked at is told when it is opened
        if file.exists():
            return
        near = {each.name for each in file.parent.glob(f"*{file.suffix}")}
        if (ledger := sqlite_file(config.text("database.url"))) is not None:
            near.discard(ledger.name)
        url = config.text("queue.url")
        raise QueueMissing(f"--queue: there is no queue {url}{did_you_mean(file.name, near)}")


def read_queue_status(config: Config) -> QueueStatus | None:
    """Count what waits in the configured queue, by reading only; None if it was never made."""
    path = sqlite_file(config.text("queue.url"))
    if path is None:
        with closing(open_queue(config)) as queue:
            return queue.status()
    with suppress(OSError):  # what may not be looked at is told when it is opened
        if not path.exists():
            return None
    database = SqliteDatabase(path, clock=system_clock, read_only=True, schema="sqlite_queue")
    try:
        require_current_schema(database)
        return QueueStore(database).status()
    finally:
        database.close()

"""The places that a drain works with: dead letters, and the queue of a run."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tallgrass.bootstrap.queues import open_queue, open_queue_store, open_sqs_queue
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.errors import ConfigError, QueueMissing
from tallgrass.queues.dead_letters import DeadLetterPlace
from tallgrass.queues.embedded_dead_letters import EmbeddedDeadLetters
from tallgrass.queues.protocol import OpenQueue
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.queues.sqs_address import read_address
from tallgrass.sqlite_address import sqlite_file

#: Enough for SQS to ask all of its servers whether anything is left.
_WAIT_S = 1.0
#: SQS's counts lag behind: so many looks, each with a poll, must find nothing.
_LOOKS = 3
#: Letters moved together from the queue of a run to the main one's.
_PAGE = 500


def open_dead_letters(
    config: Config,
    *,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
) -> DeadLetterPlace:
    """Return where the configured queue's dead letters are."""
    url = config.text("queue.url")
    file = sqlite_file(url)
    if file is not None:
        if not file.exists():
            message = f"queue {config.text('queue.name')}: nothing is at {url}"
            raise QueueMissing(message)
        return EmbeddedDeadLetters(
            config.text("queue.name"),
            open_queue_store(config, file, clock=clock),
            ids=ids,
            visibility_s=config.number("queue.visibility_s"),
        )
    from tallgrass.queues.sqs_dead_letters import SqsDeadLetters  # noqa: PLC0415 - optional extra

    with _sqs_client(config) as client:
        from tallgrass.queues.sqs_replay_queue import dead_letter_arn  # noqa: PLC0415

        arn = dead_letter_arn(client, read_address(url))
    queue = open_sqs_queue(config, read_address(arn), clock, _WAIT_S)
    return SqsDeadLetters(queue, visibility_s=config.number("queue.visibility_s"))


def make_replay_queue(config: Config, replay_run_id: str) -> str:
    """Make the queue of a run, if it is not there; return its address."""
    main = config.text("queue.url")
    url = replay_queue_url(main, replay_run_id)
    if sqlite_file(url) is not None:
        open_queue(config, url=url).close()
        return url
    with _sqs_client(config) as client:
        from tallgrass.queues.sqs_replay_queue import make_replay_queue as make  # noqa: PLC0415

        make(client, read_address(main), read_address(url), replay_run_id)
    return url


def remove_replay_queue(config: Config, replay_run_id: str) -> bool | None:
    """Remove the queue of a run; return None if it has none, False if its queue is not empty.

    What died in an embedded queue of a run goes to the main queue's dead letters first.
    """
    url = replay_queue_url(config.text("queue.url"), replay_run_id)
    if not bring_letters_home(config, replay_run_id):
        return None
    if (file := sqlite_file(url)) is not None:
        return _remove_embedded(config, file)
    with closing(open_queue(config, url=url, wait_s=_WAIT_S)) as queue:
        if not all(_is_empty(queue) for _ in range(_LOOKS)):
            return False
    with _sqs_client(config) as client:
        from tallgrass.queues.sqs_replay_queue import remove_queue  # noqa: PLC0415

        remove_queue(client, read_address(url))
    return True


def bring_letters_home(config: Config, replay_run_id: str) -> bool:
    """Tell whether a run has a queue; move what died in an embedded one to the main dead letters.

    On SQS nothing needs to be moved: the queue of a run has the main queue's redrive policy.
    """
    main_url = config.text("queue.url")
    url = replay_queue_url(main_url, replay_run_id)
    file, main_file = sqlite_file(url), sqlite_file(main_url)
    if file is None or main_file is None:
        try:
            with closing(open_queue(config, url=url)) as queue:
                queue.status()
        except QueueMissing:
            return False
        return True
    if not file.exists():
        return False
    with (
        closing(open_queue_store(config, file)) as store,
        closing(open_queue_store(config, main_file)) as main,
    ):
        while letters := store.dead_letters(0, _PAGE):
            # Buried there before they go here: one that is met twice is known by its id.
            main.bury(letters)
            store.drop_dead(letters)
    return True


def _remove_embedded(config: Config, path: Path) -> bool:
    def unlink() -> None:
        for end in ("", "-wal", "-shm", ".lock"):
            path.with_name(path.name + end).unlink(missing_ok=True)

    with closing(open_queue_store(config, path)) as store:
        return store.remove_if_empty(unlink)


def _is_empty(queue: OpenQueue) -> bool:
    """Look once whether anything is in a queue of SQS; what comes is given back."""
    found = queue.status()
    if found.visible or found.in_flight:
        return False
    messages = queue.receive(1)
    queue.change_visibility([(message.receipt, 0.0) for message in messages])
    return not messages


@contextmanager
def _sqs_client(config: Config) -> Iterator[Any]:
    try:
        from tallgrass.queues.sqs_client import open_client  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError("queue.url: boto3 is not installed", code="aws_missing") from exc
    client = open_client(
        read_address(config.text("queue.url")),
        endpoint_url=config.text("queue.endpoint_url") or None,
        connections=1,
    )
    try:
        yield client
    finally:
        client.close()

"""The queue of one replay run: beside the main queue, named after both. Pure."""

import re

from tallgrass.canonical_json import sha256_hex
from tallgrass.queues.sqs_address import read_address

_SQLITE = "sqlite:///"
#: As much of a run's id stands in a name as SQS takes: 80 characters in all.
_RUN = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME_CHARS_MAX = 80
_DIGEST_CHARS = 32


def replay_queue_name(queue: str, replay_run_id: str) -> str:
    """Return the name of a run's queue; an id that no name can hold stands there as its hash."""
    run = replay_run_id
    if not _RUN.fullmatch(run):
        run = sha256_hex(run.encode())[:_DIGEST_CHARS]
    tail = f"-replay-{run}"
    return queue[: _NAME_CHARS_MAX - len(tail)] + tail


def replay_queue_url(url: str, replay_run_id: str) -> str:
    """Return the address of a run's queue: a file beside the queue's, or a queue of SQS."""
    if url.startswith(_SQLITE):
        stem, dot, end = url.rpartition(".")
        if not dot or "/" in end:
            stem, dot, end = url, "", ""
        folder, _, name = stem.rpartition("/")
        return f"{folder}/{replay_queue_name(name, replay_run_id)}{dot}{end}"
    name = read_address(url).queue
    return url.removesuffix(name) + replay_queue_name(name, replay_run_id)


def is_replay_queue(url: str, replay_run_id: str) -> bool:
    """Tell whether an address is that of the run's queue, whatever main queue it stands beside."""
    name = replay_queue_name("", replay_run_id)
    if url.startswith(_SQLITE):
        return url.rpartition("/")[2].rpartition(".")[0].endswith(name)
    return read_address(url).queue.endswith(name)

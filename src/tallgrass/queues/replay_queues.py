"""The queue of one replay run: beside the main queue, named after both. Pure."""

import re

from tallgrass.canonical_json import sha256_hex
from tallgrass.queues.sqs_address import read_address
from tallgrass.sqlite_address import sqlite_file

#: As much of a run's id stands in a name as SQS takes: 80 characters in all.
_RUN = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MARK = "-replay-"
_NAME_CHARS_MAX = 80
_DIGEST_CHARS = 32


def replay_queue_name(queue: str, replay_run_id: str) -> str:
    """Return the name of a run's queue; an id that no name can hold stands there as its hash."""
    run = replay_run_id
    if not _RUN.fullmatch(run):
        run = sha256_hex(run.encode())[:_DIGEST_CHARS]
    tail = f"{_MARK}{run}"
    return queue[: _NAME_CHARS_MAX - len(tail)] + tail


def replay_queue_url(url: str, replay_run_id: str) -> str:
    """Return the address of a run's queue: a file beside the queue's, or a queue of SQS."""
    if sqlite_file(url) is not None:
        folder, name, end = _parts_of(url)
        return f"{folder}/{replay_queue_name(name, replay_run_id)}{end}"
    name = read_address(url).queue
    return url.removesuffix(name) + replay_queue_name(name, replay_run_id)


def is_replay_file_of(url: str, file_name: str) -> bool:
    """Tell whether a file may be the queue of a run, of those beside the embedded queue `url`."""
    _, queue, end = _parts_of(url)
    name = file_name.removesuffix(end)
    if name + end != file_name:
        return False
    # The queue's own name may have the mark in it, and a run's id too.
    marks = [at for at in range(len(name)) if name.startswith(_MARK, at)]
    runs = [name[at + len(_MARK) :] for at in marks]
    return any(_RUN.fullmatch(run) and replay_queue_name(queue, run) == name for run in runs)


def _parts_of(url: str) -> tuple[str, str, str]:
    """Split the address of a file: its folder, its name, and the name's ending with its dot."""
    stem, dot, end = url.rpartition(".")
    if not dot or "/" in end:
        stem, dot, end = url, "", ""
    folder, _, name = stem.rpartition("/")
    return folder, name, dot + end


def is_replay_queue(url: str, replay_run_id: str) -> bool:
    """Tell whether an address is that of the run's queue, whatever main queue it stands beside."""
    name = replay_queue_name("", replay_run_id)
    if sqlite_file(url) is not None:
        return _parts_of(url)[1].endswith(name)
    return read_address(url).queue.endswith(name)

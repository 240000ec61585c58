"""A backup of what this machine's files hold: ledger, embedded queue and the queues of runs."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from tallgrass.config import Config
from tallgrass.errors import DatabaseUnusable, InvalidInput, Refused
from tallgrass.queues.replay_queues import is_replay_file_of
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.sqlite_backup import Moment, writers_held

LEDGER = "ledger.db"
QUEUE = "queue.db"
#: What SQLite keeps beside a file. Where the queue's name has no ending, they look like queues.
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """One file of a backup."""

    file: str
    source: str
    bytes: int
    sha256: str


def back_up(config: Config, folder: Path, *, queue_only: bool = False) -> list[BackupFile]:
    """Copy the embedded queue, the queues of replay runs and the ledger into a new folder.

    If a file cannot be copied, the folder stays empty: half a backup could be taken for a whole
    one, and would block the next try.
    """
    database, queue = config.text("database.url"), config.text("queue.url")
    ledger = None if queue_only else sqlite_file(database)
    if not queue_only and ledger is None:
        raise DatabaseUnusable(
            "the database is not SQLite: its server makes the backup", code="backup_by_server"
        )
    if queue_only and sqlite_file(queue) is None:
        raise InvalidInput("queue.url is not the embedded queue: SQS keeps its own messages")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is there already", code="export_target_in_use")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as held:
        moments = _one_moment(held, queue, ledger, queue_only=queue_only)
        try:
            return [_copied(moment, folder / name) for name, moment in moments.items()]
        except BaseException:
            for name in moments:
                (folder / name).unlink(missing_ok=True)
            raise


def _one_moment(
    held: ExitStack, queue: str, ledger: Path | None, *, queue_only: bool
) -> dict[str, Moment]:
    """Return the files of a backup as they are at one moment, in which no queue can change.

    A message may be in several of the copies, and must never be in none. It moves in circles: from
    a queue into the ledger, which has its unit before the queue lets go of it; from the dead
    letters to the queue of a run; from there home again to the dead letters. And a drain notes in
    the ledger that a letter was sent: a copy that knows of it needs the queue that has it. So no
    order of copies is right by itself. While the writers of all queues wait, a message that was
    sent is in its queue, or it went on from there into the ledger, whose moment comes last.
    They wait for an instant: the copies are written when they have gone on.
    """
    while True:
        queues = dict(_queues(queue, queue_only=queue_only))
        with ExitStack() as trial, writers_held(list(queues.values())):
            if dict(_queues(queue, queue_only=queue_only)) != queues:
                continue  # a queue of a run was removed
            sources = queues if ledger is None else {**queues, LEDGER: ledger}
            moments = {
                name: trial.enter_context(closing(Moment(path))) for name, path in sources.items()
            }
            if dict(_queues(queue, queue_only=queue_only)) == queues:
                held.push(trial.pop_all())
                return moments
            # A drain made a queue meanwhile, which is not held: begin anew.


def _queues(url: str, *, queue_only: bool) -> Iterator[tuple[str, Path]]:
    """Yield the files of the embedded queue and of the queues of runs, by their names as copies."""
    path = sqlite_file(url)
    if path is None:
        return
    if queue_only or path.exists():
        yield QUEUE, path
    if path.parent.is_dir():
        names = {each.name for each in path.parent.iterdir()}
        beside = {name + end for name in names for end in _BESIDE}
        for name in sorted(names - beside):
            if is_replay_file_of(url, name):
                yield name, path.with_name(name)


def _copied(moment: Moment, target: Path) -> BackupFile:
    moment.copy_to(target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupFile(
        file=str(target), source=str(moment.source), bytes=target.stat().st_size, sha256=digest
    )

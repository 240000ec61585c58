"""A backup of what this machine's files hold: ledger and embedded queue."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tallgrass.config import Config
from tallgrass.errors import DatabaseUnusable, InvalidInput, Refused
from tallgrass.storage.sqlite_backup import copy_database

_SQLITE = "sqlite:///"
LEDGER = "ledger.db"
QUEUE = "queue.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """One file of a backup."""

    file: str
    source: str
    bytes: int
    sha256: str


def back_up(config: Config, folder: Path, *, queue_only: bool = False) -> list[BackupFile]:
    """Copy the embedded queue, then the ledger, into a new folder.

    In this order: a message that the copied queue still has is at worst a duplicate for the copied
    ledger. The other way round a message could be in neither. If a file cannot be copied, the
    folder stays empty: half a backup could be taken for a whole one, and would block the next try.
    """
    database, queue = config.text("database.url"), config.text("queue.url")
    if not queue_only and not database.startswith(_SQLITE):
        raise DatabaseUnusable(
            "the database is not SQLite: its server makes the backup", code="backup_by_server"
        )
    if queue_only and not queue.startswith(_SQLITE):
        raise InvalidInput("queue.url is not the embedded queue: SQS keeps its own messages")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is there already", code="export_target_in_use")
    sources = [(database, LEDGER)] if not queue_only else []
    if queue.startswith(_SQLITE) and (queue_only or Path(queue.removeprefix(_SQLITE)).exists()):
        sources.insert(0, (queue, QUEUE))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return [_copied(url, folder / name) for url, name in sources]
    except BaseException:
        for _, name in sources:
            (folder / name).unlink(missing_ok=True)
        raise


def _copied(url: str, target: Path) -> BackupFile:
    source = Path(url.removeprefix(_SQLITE))
    copy_database(source, target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupFile(
        file=str(target), source=str(source), bytes=target.stat().st_size, sha256=digest
    )

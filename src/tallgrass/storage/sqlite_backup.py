"""Copies SQLite databases while they are in use: one moment of each, as one whole file."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tallgrass.errors import DatabaseUnreachable, DatabaseUnusable
from tallgrass.storage.driver_errors import from_sqlite
from tallgrass.storage.sqlite import LOCK_TIMEOUT_S, reading_mode, writers_lock
from tallgrass.syncing import sync_path


@contextlib.contextmanager
def writers_held(paths: Sequence[Path]) -> Iterator[None]:
    """Let the writers of these files wait.

    Who has no right to write there cannot hold the others and goes on without: on a disk that is
    only read nobody writes.
    """
    with contextlib.ExitStack() as held:
        for path in paths:
            lock = writers_lock(path)
            with contextlib.suppress(OSError):
                lock.acquire(LOCK_TIMEOUT_S)
                held.callback(lock.release)
        yield


class Moment:
    """One moment of a database: every commit up to it, and none after, until it is closed."""

    def __init__(self, source: Path) -> None:
        if not source.is_file():
            raise DatabaseUnreachable(f"there is no database {source}")
        self.source = source
        address = f"{source.absolute().as_uri()}?{reading_mode(source)}"
        with self._translated():
            self._reading = sqlite3.connect(address, uri=True, isolation_level=None)
            try:
                self._reading.execute("BEGIN")
                # The view begins with the first read, not with BEGIN.
                self._reading.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            except BaseException:
                self._reading.close()
                raise

    def close(self) -> None:
        """Let go of it."""
        self._reading.close()

    def copy_to(self, target: Path) -> None:
        """Write the copy; writers go on meanwhile.

        It gets its name only when SQLite itself found it sound and it is on the disk.
        """
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(descriptor)
        half = Path(name)
        try:
            with self._translated():
                self._copy(half)
            sync_path(half)
            half.replace(target)
            sync_path(target.parent)
        finally:
            half.unlink(missing_ok=True)

    def _copy(self, half: Path) -> None:
        with contextlib.closing(sqlite3.connect(half)) as writing:
            # All pages in one step: in the journal's mode a reader holds up nobody, and what is
            # committed meanwhile is not half in the copy.
            self._reading.backup(writing, pages=-1)
            # One file without a journal beside it; who opens it next turns the journal on again.
            writing.execute("PRAGMA journal_mode = DELETE")
            found = writing.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            message = f"the copy of {self.source} is damaged: {found}"
            raise DatabaseUnusable(message, code="database_corrupt")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise from_sqlite(error, str(self.source)) from error

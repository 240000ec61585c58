"""Copies a SQLite database while it is in use: one moment of it, as one whole file."""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from tallgrass.errors import DatabaseUnreachable, DatabaseUnusable
from tallgrass.storage.driver_errors import from_sqlite
from tallgrass.storage.sqlite import reading_mode
from tallgrass.syncing import sync_path


def copy_database(source: Path, target: Path) -> None:
    """Write a copy that holds every commit up to one moment; writers go on meanwhile.

    The copy gets its name only when SQLite itself found it sound and it is on the disk.
    """
    if not source.is_file():
        raise DatabaseUnreachable(f"there is no database {source}")
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    half = Path(name)
    try:
        try:
            _copy(source, half)
        except sqlite3.Error as error:
            raise from_sqlite(error, str(source)) from error
        sync_path(half)
        half.replace(target)
        sync_path(target.parent)
    finally:
        half.unlink(missing_ok=True)


def _copy(source: Path, half: Path) -> None:
    address = f"{source.absolute().as_uri()}?{reading_mode(source)}"
    with (
        contextlib.closing(sqlite3.connect(address, uri=True)) as reading,
        contextlib.closing(sqlite3.connect(half)) as writing,
    ):
        # All pages in one step: in the journal's mode a reader holds up nobody, and what is
        # committed meanwhile is not half in the copy.
        reading.backup(writing, pages=-1)
        # One file without a journal beside it; who opens it next turns the journal on again.
        writing.execute("PRAGMA journal_mode = DELETE")
        found = writing.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise DatabaseUnusable(f"the copy of {source} is damaged: {found}", code="database_corrupt")

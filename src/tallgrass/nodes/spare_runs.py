"""Folders of runs that are made ahead: ``spare/<n>/`` with a journal of zeros, all on the disk.

To make a journal takes three syncs of what the file system notes of it, 0.9 ms where one sync takes
0.1; to give a spare one its place as a run takes 0.3 ms. A spare is locked by whoever made it; that
of a killed process is used by the next. None is ever waited for, and to have none is no error: a
run's folder is then made when it is needed.
"""

import contextlib
import fcntl
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallgrass.nodes.files import Files, make_and_open, open_root
from tallgrass.nodes.journal import JOURNAL_NAME, ROOM_BYTES

#: Of so many processes that begin runs below one folder each has a spare; others have none.
_SPARES_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """A folder and its journal, both open."""

    name: str
    folder: int
    journal: int

    def close(self) -> None:
        """Close both; the kernel gives the lock back."""
        os.close(self.journal)
        os.close(self.folder)


class SpareRuns:
    """At most one spare folder of this process, below a folder of their own."""

    def __init__(self, root: Path, files: Files) -> None:
        # Folders are moved out of it by names, whatever the process's own folder is by then.
        self._root = root.absolute()
        self._files = files
        self._ready: Spare | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Have one, if there is none; called by one thread at a time."""
        if self._ready is not None:
            return
        root = open_root(self._root)
        try:
            for number in range(_SPARES_MAX):
                self._ready = self._made(str(number), root)
                if self._ready is not None:
                    return
        finally:
            os.close(root)

    def given(self, name: str, folder: int) -> Spare | None:
        """Make a run of the spare, and return it; durable after a sync of the folder it is in."""
        with self._lock:
            spare, self._ready = self._ready, None
        if spare is None:
            return None
        try:
            self._files.replace(str(self._root / spare.name), name, folder=folder)
        except OSError:
            # Another has made the run meanwhile, or the name is not a run's to have.
            self._ready = spare
            return None
        return spare

    def remove(self) -> None:
        """Leave none behind."""
        with self._lock:
            spare, self._ready = self._ready, None
        if spare is not None:
            with contextlib.suppress(OSError):
                self._files.remove(JOURNAL_NAME, folder=spare.folder)
                (self._root / spare.name).rmdir()
            spare.close()

    def abandon(self) -> None:
        """Close, in a process that was forked, what its parent has."""
        spare, self._ready, self._lock = self._ready, None, threading.Lock()
        if spare is not None:
            spare.close()

    def _made(self, name: str, root: int) -> Spare | None:
        """Make a spare, or take one that was left behind; None if it is another process's."""
        with contextlib.ExitStack() as opened:
            folder = make_and_open(self._files, name, folder=root)
            opened.callback(os.close, folder)
            journal = self._files.open(JOURNAL_NAME, os.O_RDWR | os.O_CREAT, folder=folder)
            opened.callback(os.close, journal)
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            # While it was not locked its owner may have made a run of it.
            is_there = os.path.samestat(os.stat(name, dir_fd=root), os.fstat(folder))
            if not is_there or os.pread(journal, ROOM_BYTES, 0).strip(b"\0"):
                return None
            self._files.write(journal, bytes(ROOM_BYTES))
            self._files.sync_data(journal)
            self._files.sync_folder(folder)
            opened.pop_all()
            return Spare(name=name, folder=folder, journal=journal)

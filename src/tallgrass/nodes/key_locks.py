"""Locks by name between all who might compute the same result: one computes, the others wait.

A name is a place in one file, which is never written: a file for each lock would have to be made
and removed, and little that a file system does takes longer.
"""

import fcntl
import os
import struct
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from tallgrass.nodes.files import retried, translated
from tallgrass.nodes.forks import begin_anew_after_forks

FILE_NAME: Final = "keys"
#: The system's `struct flock`: kind, from where, place, length, process (0: the open file's own).
_RANGE: Final = struct.Struct("hhqqi")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderLocks:
    """Locks by name between all threads and processes of a machine; a killed one holds none."""

    def __init__(self, root: Path, *, sleep: Callable[[float], None]) -> None:
        self._root = root
        self._path = str(root / FILE_NAME)
        self._sleep = sleep
        self._held: set[int] = set()
        begin_anew_after_forks(self)

    def acquire(self, name: str, timeout_s: float) -> int:
        """Wait for a name's lock; what is returned holds it."""
        with translated(self._root):
            descriptor = self._open()
            try:
                lock = partial(_lock, descriptor, _place_of(name))
                retried(lock, timeout_s, f"the result {name[:16]}", self._sleep)
            except BaseException:
                os.close(descriptor)
                raise
        self._held.add(descriptor)
        return descriptor

    def release(self, held: int) -> None:
        """Let the next one in: the system gives a lock back with the file that took it."""
        if held in self._held:
            self._held.remove(held)
            os.close(held)

    def begin_anew(self) -> None:
        """Close, in a process that was forked, what its parent holds."""
        held, self._held = self._held, set()
        for each in held:
            os.close(each)

    def _open(self) -> int:
        """Open the file anew: locks belong to who opened it, so threads exclude each other too."""
        try:
            return os.open(self._path, _FLAGS, 0o600)
        except FileNotFoundError:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, _FLAGS, 0o600)


def _lock(descriptor: int, place: int) -> None:
    wanted = _RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)


def _place_of(name: str) -> int:
    """Return a place that no two names share, but for a chance of one in 2**62."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big") >> 2

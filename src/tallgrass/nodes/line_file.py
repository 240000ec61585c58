"""A file of lines that several processes add to, each line once: what is derived from journals.

A line is added under the file's lock, and only if the file has not got it: whoever was killed
between adding a line and noting so may add it again. A line that a crash tore is ended there and
counts for nothing; nothing is synced, since all of it can be derived again.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from tallgrass.nodes.files import translated

#: Takes a line that was read for the first time, without its end.
Reader = Callable[[bytes], None]


def _nobody(_line: bytes) -> None:
    """Do nothing."""


class LineFile:
    """A file of lines; what was read of it once is not read again."""

    def __init__(self, path: Path, reader: Reader = _nobody) -> None:
        self.path = path
        self._reader = reader
        #: Lines of the file, and those of files that it replaced: the reader had them.
        self._known: set[bytes] = set()
        self._told: set[bytes] = set()
        self._read_to = 0
        self._inode: int | None = None
        self._lock = threading.Lock()

    def add(self, lines: Iterable[bytes]) -> int:
        """Add the lines that the file has not got; return how many those were."""
        with self._lock, translated(self.path), self._locked() as descriptor:
            ends_torn = self._catch_up(descriptor)
            new = [line for line in dict.fromkeys(lines) if _digest(line) not in self._known]
            if not new:
                return 0
            text = b"".join(line + b"\n" for line in new)
            os.lseek(descriptor, 0, os.SEEK_END)
            _write(descriptor, b"\n" + text if ends_torn else text)
            self._catch_up(descriptor)
            return len(new)

    def refresh(self) -> None:
        """Read what others added; a file that is not there has no lines."""
        with self._lock, translated(self.path):
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            try:
                self._catch_up(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _catch_up(self, descriptor: int) -> bool:
        """Read whole lines that are new; tell whether a piece of one follows them."""
        facts = os.fstat(descriptor)
        if facts.st_ino != self._inode or facts.st_size < self._read_to:
            # Somebody removed it, or put another in its place.
            self._told |= self._known
            self._known.clear()
            self._inode, self._read_to = facts.st_ino, 0
        data = b""
        while self._read_to + len(data) < facts.st_size:
            more = os.pread(descriptor, facts.st_size, self._read_to + len(data))
            if not more:
                # Somebody cut it off meanwhile.
                break
            data += more
        whole, end, torn = data.rpartition(b"\n")
        self._read_to += len(whole) + len(end)
        for line in whole.split(b"\n") if end else ():
            digest = _digest(line)
            if line and digest not in self._known:
                self._known.add(digest)
                if digest not in self._told:
                    self._reader(line)
        return bool(torn)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=12).digest()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]

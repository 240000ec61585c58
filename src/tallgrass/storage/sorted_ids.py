"""Ids in order, however many there are and in whatever order they come.

Runs of them are sorted in memory and kept in a temporary file, which the system removes with the
process; a million ids are 36 MB of disk and some of memory.
"""

import os
import tempfile
from collections.abc import Iterator
from heapq import merge
from typing import BinaryIO, Self

#: Ids sorted at once.
RUN_SIZE = 100_000
#: Ids of a run that are read at once.
_READ_SIZE = 2000
#: Characters of a UUID.
_WIDTH = 36


class SortedIds:
    """Takes ids, then gives them back in order. Close it: it may hold a file."""

    def __init__(self, *, run_size: int = RUN_SIZE) -> None:
        self._run_size = run_size
        self._run: list[str] = []
        self._lengths: list[int] = []
        self._file: BinaryIO | None = None

    def add(self, wal_id: str) -> None:
        """Take an id, in any order; some come twice."""
        self._run.append(wal_id)
        if len(self._run) >= self._run_size:
            self._spill()

    def __iter__(self) -> Iterator[str]:
        """Yield all ids in order."""
        self._run.sort()
        begin, runs = 0, []
        for length in self._lengths:
            runs.append(self._read(begin, begin + length))
            begin += length
        return merge(*runs, self._run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="tallgrass-")  # noqa: SIM115 - closed by `__exit__`
        self._run.sort()
        self._lengths.append(self._file.write("".join(self._run).encode()))
        self._run.clear()

    def _read(self, begin: int, end: int) -> Iterator[str]:
        assert self._file is not None  # noqa: S101 - a run that was written
        self._file.flush()
        step = _READ_SIZE * _WIDTH
        for offset in range(begin, end, step):
            text = os.pread(self._file.fileno(), min(step, end - offset), offset).decode()
            for at in range(0, len(text), _WIDTH):
                yield text[at : at + _WIDTH]

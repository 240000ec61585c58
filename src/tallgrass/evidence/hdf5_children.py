"""Attributes of HDF5 files, read by processes of their own.

What the superblock cannot tell, h5py can; but it is native code that a damaged file may crash or
hang. A crash there costs one unit its attempt, and the next file a new process.
"""

import os
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import orjson

from tallgrass.evidence.header import Seen
from tallgrass.evidence.reading import ReadFailure

#: How long a file may take; a process that is slower is ended.
ANSWER_S_MAX = 20.0
#: How many blocks of 64 kB of an object that is not near a file may take.
FAR_BLOCKS_MAX = 32

CRASHED = "reader_crashed"

_CHILD = Path(__file__).with_name("hdf5_child.py")
_ANSWER_BYTES_MAX = 64 * 1024


class Attributes(Protocol):
    """Reads what the attributes of an HDF5 file say."""

    def read(self, seen: Seen, *, near: bool) -> dict[str, Any] | ReadFailure:
        """Return what was found: `attributes`, `bbox`; `error` where it is no such file."""

    def close(self) -> None:
        """End what was started."""


class _Ended(Exception):
    """The process did not answer."""


class Hdf5Children:
    """A few processes that read attributes; threads share them. They are started when needed."""

    def __init__(
        self,
        processes: int = 2,
        *,
        program: Path = _CHILD,
        answer_s_max: float = ANSWER_S_MAX,
    ) -> None:
        self._program = program
        self._answer_s_max = answer_s_max
        self._free: queue.LifoQueue[_Child | None] = queue.LifoQueue()
        for _ in range(processes):
            self._free.put(None)
        self._started: set[_Child] = set()
        self._lock = threading.Lock()
        # Nobody need close a reader at the end of the program.
        self._finalizer = weakref.finalize(self, _stop_all, self._started)

    def read(self, seen: Seen, *, near: bool) -> dict[str, Any] | ReadFailure:
        """Return what was found: `attributes`, `bbox`; `error` where it is no such file."""
        child = self._free.get()
        try:
            if child is None:
                child = self._start()
            return child.ask(seen, self._answer_s_max, FAR_BLOCKS_MAX if not near else None)
        except _Ended as ended:
            self._drop(child)
            child = None
            return ReadFailure(code=CRASHED, message=f"the reader of HDF5 {ended}")
        except BaseException:
            # Its pipe may hold half a message.
            self._drop(child)
            child = None
            raise
        finally:
            self._free.put(child)

    def close(self) -> None:
        """End the processes that are idle; a later read starts new ones."""
        idle = []
        with suppress(queue.Empty):
            while True:
                idle.append(self._free.get_nowait())
        for child in idle:
            self._drop(child)
            self._free.put(None)

    def _start(self) -> "_Child":
        child = _Child(self._program)
        with self._lock:
            self._started.add(child)
        return child

    def _drop(self, child: "_Child | None") -> None:
        if child is not None:
            child.stop()
            with self._lock:
                self._started.discard(child)


def _stop_all(started: "set[_Child]") -> None:
    while started:
        started.pop().stop()


class _Child:
    """One process and its pipes."""

    def __init__(self, program: Path) -> None:
        # -P: the program's own folder is no place to import from.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package's file
            [sys.executable, "-P", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Ctrl-C is for the worker, which ends its processes itself.
            process_group=0,
        )

    def ask(self, seen: Seen, answer_s_max: float, blocks_max: int | None) -> dict[str, Any]:
        """Let it read one file."""
        until = time.monotonic() + answer_s_max
        self._send(struct.pack(">Q", seen.size))
        blocks, refused = 0, False
        while True:
            if self._receive(1, until) == b"A":
                (length,) = struct.unpack(">I", self._receive(4, until))
                if length > _ANSWER_BYTES_MAX:
                    raise _Ended(f"answered with {length} bytes")
                answer: dict[str, Any] = orjson.loads(self._receive(length, until))
                # A file that takes too many requests is not judged by what it did not get.
                return {"attributes": {}} if refused and "error" in answer else answer
            start, length = struct.unpack(">QI", self._receive(12, until))
            blocks += 1
            refused = blocks_max is not None and blocks > blocks_max
            asked_at = time.monotonic()
            data = b"" if refused else seen.at(start, length) or b""
            # A slow store is no fault of the reader.
            until += time.monotonic() - asked_at
            self._send(struct.pack(">I", len(data)) + data)

    def stop(self) -> None:
        """End the process."""
        for pipe in (self._stdin, self._stdout):
            pipe.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def _stdin(self) -> IO[bytes]:
        if self._process.stdin is None:
            raise _Ended("has no pipe")
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        if self._process.stdout is None:
            raise _Ended("has no pipe")
        return self._process.stdout

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._stdin.fileno(), view) :]
        except OSError:
            raise _Ended(self._fate()) from None

    def _receive(self, length: int, until: float) -> bytes:
        parts: list[bytes] = []
        descriptor = self._stdout.fileno()
        while length:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                raise _Ended("did not answer in time")
            part = os.read(descriptor, length)
            if not part:
                raise _Ended(self._fate())
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _fate(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with {code}"

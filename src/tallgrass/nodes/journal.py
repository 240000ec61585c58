"""One append-only file a run: the truth about its nodes.

A frame is ``magic, length, checksum, synced_to`` and a payload. `synced_to` says how much of the
file was on the disk when the frame was written. So a reader can tell the two ways in which a frame
can be wrong: nothing after it knows that it was synced, then a crash tore it, nobody was told of
it, and it is cut off; something does, then what was promised is gone, and that is an error.

The file has room behind its last entry, filled with zeros: to sync what is written over them takes
a third less time, for the file system has nothing to note. Zeros are no entry, and no torn one.

Threads of a process share a sync: whoever comes while one is under way waits for the next, which
covers all that was written until then. After a sync that failed the file is never synced again
through the same descriptor, since the kernel may have forgotten what was not written.
"""

import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tallgrass.errors import InvalidInput, NodeWalDamaged, NodeWalFull, NodeWalUnusable
from tallgrass.nodes.files import Files, as_wal_error, lock_file, unlock_file

_MAGIC: Final = b"TGJ1"
_FRAME: Final = struct.Struct(">4sIIQ")
_CHECKED: Final = struct.Struct(">IQ")
PAYLOAD_BYTES_MAX: Final = 64 << 20
_ROOM_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """An entry as it was read; `end` is where the next one begins."""

    payload: bytes
    end: int
    synced_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The entries of a journal, and how many bytes of a torn one follow them."""

    frames: tuple[Frame, ...]
    end: int
    torn_bytes: int


class Journal:
    """An open journal. Every error leaves it usable for readers, and says so loudly."""

    def __init__(
        self,
        descriptor: int,
        *,
        place: str,
        files: Files,
        sleep: Callable[[float], None] = time.sleep,
        folders: Sequence[int] = (),
    ) -> None:
        self._descriptor = descriptor
        #: The folders that lead to it; synced with the first entry, when they cost least.
        self._folders = tuple(folders)
        self._place = place
        self._files = files
        self._sleep = sleep
        self._changed = threading.Condition()
        self._end = 0
        #: The size of the file; from `_end` to there are zeros.
        self._room = 0
        self._synced = 0
        #: Written by others, or before: never cut off here.
        self._floor = 0
        self._syncing = False
        self._broken: str | None = None

    @property
    def is_broken(self) -> bool:
        """Whether it must be opened anew."""
        return self._broken is not None

    def lock(self, timeout_s: float) -> tuple[Frame, ...]:
        """Take the run's lock and return what others wrote since; a torn end is cut off."""
        lock_file(self._descriptor, timeout_s, self._place, self._sleep)
        try:
            return self._catch_up()
        except BaseException:
            unlock_file(self._descriptor)
            raise

    def unlock(self) -> None:
        """Give the run's lock back."""
        unlock_file(self._descriptor)

    def append(self, *payloads: bytes) -> int:
        """Write entries and return where they end; durable after `commit` of that place."""
        largest = max(map(len, payloads))
        if largest > PAYLOAD_BYTES_MAX:
            raise InvalidInput(
                f"an entry of {largest} bytes; at most {PAYLOAD_BYTES_MAX} are written",
                code="node_result_unstorable",
            )
        with self._changed:
            self._require_whole()
            frames = b"".join([framed(payload, self._synced) for payload in payloads])
            end = self._end + len(frames)
            room = self._room if end <= self._room else -(-end // _ROOM_BYTES) * _ROOM_BYTES
            try:
                os.lseek(self._descriptor, self._end, os.SEEK_SET)
                zeros = bytes(room - end) if room > self._room else b""
                self._files.write(self._descriptor, frames + zeros)
            except OSError as exc:
                self._cut_back(self._end)
                error = as_wal_error(exc, self._place)
                if not isinstance(error, NodeWalFull):
                    self._broken = str(error)
                raise error from exc
            self._end, self._room = end, room
            return end

    def commit(self, end: int) -> None:
        """Return when everything up to `end` is on the disk; one sync serves all who wait."""
        with self._changed:
            while self._synced < end:
                self._require_whole()
                if self._syncing:
                    self._changed.wait()
                    continue
                self._sync_once()

    def close(self) -> None:
        """Close the file; the kernel gives its lock back."""
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Close a fork's copy, whose lock is the parent's; nothing is written through it."""
        self._changed = threading.Condition()
        self._broken = f"{self._place} was opened by the process that this one was forked from"
        self.close()

    def _sync_once(self) -> None:
        target, self._syncing = self._end, True
        self._changed.release()
        failure: OSError | None = None
        try:
            self._files.sync_data(self._descriptor)
            for folder in self._folders:
                self._files.sync_folder(folder)
        except OSError as exc:
            failure = exc
        finally:
            self._changed.acquire()
            self._syncing = False
            self._changed.notify_all()
        if failure is None:
            self._folders = ()
            self._synced = max(self._synced, target)
            return
        # What was not synced was promised to nobody: it must not be found by the next reader.
        self._cut_back(max(self._synced, self._floor))
        error = as_wal_error(failure, self._place)
        self._broken = str(error)
        raise error from failure

    def _cut_back(self, size: int) -> None:
        try:
            self._files.truncate(self._descriptor, size)
            self._end = self._room = size
        except OSError as exc:
            self._broken = f"{self._place} could not be cut back after an error: {exc.strerror}"

    def _require_whole(self) -> None:
        if self._broken is not None:
            raise NodeWalUnusable(f"{self._broken}; the run must be opened again")

    def _catch_up(self) -> tuple[Frame, ...]:
        with self._changed:
            facts = os.fstat(self._descriptor)
            if facts.st_nlink == 0:
                self._broken = f"{self._place} was replaced or removed"
                self._require_whole()
            size = self._room = facts.st_size
            # At the front zeros alone say nothing: a lost block looks like that, too.
            if 0 < self._end <= size and not _has_entry_at(self._descriptor, self._end):
                self._floor = self._end
                return ()
            if size < self._end:
                # Another process gave up what it could not sync; what was read of it is not so.
                self._broken = f"{self._place} is shorter than it was"
                self._require_whole()
            reading = read_frames(_read_from(self._descriptor, self._end, size), self._end)
            if reading.torn_bytes:
                try:
                    self._files.truncate(self._descriptor, reading.end)
                except OSError as exc:
                    raise as_wal_error(exc, self._place) from exc
                self._room = reading.end
            self._end = self._floor = reading.end
            self._synced = max([self._synced, *(frame.synced_to for frame in reading.frames)])
            return reading.frames


def framed(payload: bytes, synced_to: int) -> bytes:
    """Return the bytes of an entry."""
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(len(payload), synced_to)))
    return _FRAME.pack(_MAGIC, len(payload), checksum, synced_to) + payload


def read_frames(data: bytes, start: int = 0) -> Reading:
    """Read the entries of `data`, which begins at `start` of its file.

    What follows the last whole entry is torn, unless a later entry knows that it was synced.
    """
    frames: list[Frame] = []
    place = 0
    while (frame := _frame_at(data, place, start)) is not None:
        frames.append(frame)
        place = frame.end - start
    end = start + place
    if any(later.synced_to > end for later in _later_frames(data, place, start)):
        raise NodeWalDamaged(f"entries from byte {end} on were synced, and are gone or changed")
    return Reading(frames=tuple(frames), end=end, torn_bytes=len(data[place:].rstrip(b"\0")))


def _frame_at(data: bytes, place: int, start: int) -> Frame | None:
    body = place + _FRAME.size
    if body > len(data):
        return None
    magic, length, checksum, synced_to = _FRAME.unpack_from(data, place)
    if magic != _MAGIC or body + length > len(data):
        return None
    payload = data[body : body + length]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(length, synced_to))) != checksum:
        return None
    return Frame(payload=payload, end=start + body + length, synced_to=synced_to)


def _later_frames(data: bytes, place: int, start: int) -> Iterator[Frame]:
    found = data.find(_MAGIC, place + 1)
    while found != -1:
        frame = _frame_at(data, found, start)
        if frame is not None:
            yield frame
        found = data.find(_MAGIC, found + 1)


def _has_entry_at(descriptor: int, place: int) -> bool:
    return bool(os.pread(descriptor, len(_MAGIC), place).strip(b"\0"))


def _read_from(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(descriptor, min(end - start, 1 << 20), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def salvaged(data: bytes) -> tuple[bytes, int]:
    """Return the whole entries before a damage, and how many bytes follow them."""
    place = 0
    while (frame := _frame_at(data, place, 0)) is not None:
        place = frame.end
    return data[:place], len(data) - place


def is_damaged(data: bytes) -> bool:
    """Tell whether entries that were synced are gone or changed."""
    try:
        read_frames(data)
    except NodeWalDamaged:
        return True
    return False

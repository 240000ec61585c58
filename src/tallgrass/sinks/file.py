"""Appends events to a file, one CloudEvent a line.

An event counts as delivered when its line is on the disk (fsync). Several processes and threads may
append to one file: each holds a lock on it while it writes, so lines are never mixed. A line that a
crash cut off stays as it is and the next begins on a line of its own; its event comes again, whole.
The file may be moved away at any time: the next event begins a new one, and an event whose file
went while it was written is not taken for delivered.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.cloud_event import cloud_event
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.syncing import sync_path

BATCH_MAX = 500
#: Beside the database, unless the target names another.
DEFAULT_PATH = "tallgrass-events.jsonl"
_LOCK_S_MAX = 5.0
_BETWEEN_TRIES_S = 0.01
#: Not blocking: opening a pipe would wait for a reader.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
#: Somebody must mend these; of all others a disk is to blame, and may recover.
_WRONG_PLACE = frozenset(
    {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.EROFS}
)


class FileSink:
    """Writes JSON Lines."""

    batch_max = BATCH_MAX

    def __init__(
        self,
        path: Path,
        *,
        lock_s_max: float,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._path = path
        self._lock_s_max = lock_s_max
        self._monotonic = monotonic
        self._sleep = sleep
        #: The file, by device and number, whose name is known to be on the disk.
        self._named: tuple[int, int] | None = None

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Append all events, or report that none is known to be on the disk."""
        lines = b"".join(b"%b\n" % cloud_event(event) for event in events)
        try:
            self._append(lines)
        except TimeoutError as exc:
            return [Undelivered(code="sink_timeout", message=str(exc))] * len(events)
        except OSError as exc:
            wrong = exc.errno in _WRONG_PLACE
            code = "sink_misconfigured" if wrong else "sink_unreachable"
            reason = f"{self._path}: {exc.strerror or exc}"
            return [Undelivered(code=code, message=reason)] * len(events)
        return [Delivered()] * len(events)

    def close(self) -> None:
        """Do nothing: the file is open only while it is written."""

    def _append(self, lines: bytes) -> None:
        ends_at = self._monotonic() + self._lock_s_max
        while (descriptor := self._open_locked(ends_at)) is None:
            # It was moved away while its lock was awaited.
            self._sleep(_BETWEEN_TRIES_S)
        try:
            file = _number(os.fstat(descriptor))
            _write(descriptor, lines if _ends_a_line(descriptor) else b"\n" + lines)
            os.fsync(descriptor)
            if self._named_now() != file:
                # Whoever moved it may have read it before these lines were in it.
                raise OSError(errno.ESTALE, "was moved away while it was written")
        finally:
            os.close(descriptor)  # also unlocks
        if file != self._named:
            # Also where the file was there: whoever made it may have ended before this.
            sync_path(self._path.parent)
            self._named = file

    def _open_locked(self, ends_at: float) -> int | None:
        """Open the file and lock it; None if it is not the one of that name any more."""
        descriptor = os.open(self._path, _FLAGS, 0o644)
        is_ours = False
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.ENXIO, "is not a file that lines can be kept in")
            self._lock(descriptor, ends_at)
            is_ours = self._named_now() == _number(facts)
            return descriptor if is_ours else None
        finally:
            if not is_ours:
                os.close(descriptor)

    def _named_now(self) -> tuple[int, int] | None:
        """Return the file that the name leads to."""
        try:
            return _number(self._path.stat())
        except FileNotFoundError:
            return None

    def _lock(self, descriptor: int, ends_at: float) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._monotonic() > ends_at:
                    raise TimeoutError(
                        f"{self._path} was locked by another process for {self._lock_s_max:g} s"
                    ) from None
                self._sleep(_BETWEEN_TRIES_S)
            else:
                return


def _number(facts: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from all others, whatever its name."""
    return facts.st_dev, facts.st_ino


def _ends_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _write(descriptor: int, lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(descriptor, left) :]


def open_file(settings: Mapping[str, object], resources: SinkResources) -> FileSink:
    """Make the sink: `path`."""
    options = Options(settings, environment=resources.environment)
    path = Path(options.text("path", DEFAULT_PATH))
    options.done()
    return FileSink(
        path if path.is_absolute() else resources.folder / path,
        lock_s_max=min(_LOCK_S_MAX, resources.send_s_max),
        monotonic=resources.monotonic,
        sleep=resources.sleep,
    )

"""The file operations of the nodes' log and cache, in one place so that each can be made to fail.

Folders are opened by their descriptors and no link is ever followed: what stands below a root was
made by this package, or is refused. Folders are 0700, files 0600.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from tallgrass.errors import NodeWalFull, NodeWalUnusable, RunBusy

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
#: What opening says of a link, or of a file in a folder's place.
_NOT_OURS: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_POLL_S_MAX: Final = 0.05
_READ_BYTES: Final = 1 << 16


class Files:
    """The operating system's files."""

    def open(self, name: str, flags: int, *, folder: int) -> int:
        """Open a file of a folder; never through a link."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)

    def make_folder(self, name: str, *, folder: int) -> bool:
        """Make a folder inside another; False if it was there."""
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            return False
        return True

    def open_folder(self, name: str, *, folder: int | None = None) -> int:
        """Open a folder, inside another if one is given; never through a link."""
        return os.open(name, _FOLDER, dir_fd=folder)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of it."""
        written = os.write(descriptor, data)
        if written == len(data):
            return
        view = memoryview(data)[written:]
        while view:
            view = view[os.write(descriptor, view) :]

    def sync_data(self, descriptor: int) -> None:
        """Have a file's content on the disk."""
        os.fdatasync(descriptor)

    def sync_folder(self, descriptor: int) -> None:
        """Have a folder's names on the disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def replace(self, source: str, target: str, *, folder: int) -> None:
        """Put a file in another's place, at once."""
        os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)

    def link(self, source: str, target: str, *, folder: int) -> bool:
        """Give a file a second name; False if that name is taken."""
        try:
            os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return False
        return True

    def remove(self, name: str, *, folder: int) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    def close(self, descriptor: int) -> None:
        """Close a file or folder."""
        os.close(descriptor)


def open_root(root: Path) -> int:
    """Make and open the folder that everything else is opened below."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with translated(root):
        try:
            return os.open(root, flags)
        except FileNotFoundError:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(root, flags)


def make_and_open(
    files: Files, name: str, *, folder: int, durable: bool = False, is_new: bool = False
) -> int:
    """Open a folder inside another, made if it was not there; `durable`: for good.

    To sync a folder takes longer than all the rest of a node, so only what cannot be made again is.
    `is_new`: it will not be there, so it is not looked for first.
    """
    if is_new:
        files.make_folder(name, folder=folder)
        return files.open_folder(name, folder=folder)
    try:
        return files.open_folder(name, folder=folder)
    except FileNotFoundError:
        files.make_folder(name, folder=folder)
    opened = files.open_folder(name, folder=folder)
    if durable:
        files.sync_folder(folder)
    return opened


def replace_file(
    files: Files, name: str, data: bytes, *, folder: int, durable: bool = False
) -> None:
    """Write a file whole: readers see the old one or the new one; `durable`: its content too."""
    temporary = write_temporary(files, f".{name}.tmp", data, folder=folder, durable=durable)
    files.replace(temporary, name, folder=folder)


def write_temporary(
    files: Files, name: str, data: bytes, *, folder: int, durable: bool = False
) -> str:
    """Write a new file under a name that one process at a time uses; a crash's leftover goes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = files.open(name, flags, folder=folder)
    except FileExistsError:
        files.remove(name, folder=folder)
        descriptor = files.open(name, flags, folder=folder)
    try:
        files.write(descriptor, data)
        if durable:
            files.sync_data(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(name, folder=folder)
        raise
    finally:
        files.close(descriptor)
    return name


def read_file(name: str, *, folder: int) -> bytes | None:
    """Return a file's content, or None if it is not there; never through a link."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        parts = [os.read(descriptor, _READ_BYTES)]
        # Of a regular file less than was asked for is the end of it.
        while len(parts[-1]) == _READ_BYTES:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, timeout_s: float, what: str, sleep: Callable[[float], None]) -> None:
    """Lock an open file; the kernel unlocks it when its process ends, however it ends."""
    lock = partial(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    retried(lock, timeout_s, what, sleep)


def retried(
    lock: Callable[[], None], timeout_s: float, what: str, sleep: Callable[[float], None]
) -> None:
    """Try to lock until nobody else holds it; RunBusy after the timeout."""
    waited_until = time.monotonic() + timeout_s
    pause_s = 0.001
    while True:
        try:
            lock()
        except BlockingIOError:
            if time.monotonic() >= waited_until:
                waited = f" for {timeout_s:g} s" if timeout_s else ""
                raise RunBusy(f"{what} is held by another{waited}") from None
            sleep(pause_s)
            pause_s = min(pause_s * 2, _POLL_S_MAX)
        else:
            return


def unlock_file(descriptor: int) -> None:
    """Let the next one in."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


class _Translated:
    """A class, for it is entered ten times a node: a generator takes three times as long."""

    __slots__ = ("_place",)

    def __init__(self, place: Path | str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            raise as_wal_error(error, self._place) from error


def translated(place: Path | str) -> AbstractContextManager[None]:
    """Raise the operating system's errors as errors of the nodes' log."""
    return _Translated(place)


def as_wal_error(exc: OSError, place: Path | str) -> NodeWalFull | NodeWalUnusable:
    """Say what an error of the operating system means for a log."""
    said = exc.strerror or str(exc)
    if exc.errno in _NO_ROOM:
        return NodeWalFull(f"no room left in {place}: {said}")
    if exc.errno in _NOT_OURS:
        return NodeWalUnusable(f"{place} is a link, or no folder: {said}", code="node_wal_unsafe")
    return NodeWalUnusable(f"cannot use {place}: {said}")

"""Files and folders that appear whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tallgrass.errors import Refused
from tallgrass.syncing import sync_path


@contextmanager
def appearing_whole(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Write beside the target, then put it in its place; a reader never sees half a file.

    Without a mode, who may read it is up to the umask, as with any other file. A link stays, and
    leads to the new file; a device or a pipe takes what is written as it comes.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    # Unlike `resolve`, this bears a link that leads to itself.
    path = Path(os.path.realpath(path))
    folder = path.parent
    with _told_of(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask() if mode is None else mode)
            os.fsync(file.fileno())
        Path(name).replace(path)
        sync_path(folder)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def appearing_folder(path: Path, *, replace: Callable[[Path], bool]) -> Iterator[Path]:
    """Fill a folder beside the target, then put it in its place.

    A target that is there and not empty is replaced only if `replace` says so.
    """
    path = path.absolute()
    _require_free(path, replace)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _told_of(path):
        half = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield half
        half.chmod(0o777 & ~_umask())
        os.sync()  # one call for all files, which may be a million
        _require_free(path, replace)
        _swap(half, path)
        sync_path(path.parent)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Name the target in an error: nobody knows the file beside it."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc


def _swap(new: Path, path: Path) -> None:
    """Put a folder in its place; what was there goes only when the new one stands."""
    if not path.exists():
        new.replace(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        path.replace(old)
        new.replace(path)
    except BaseException:
        if not path.exists():
            old.replace(path)
        shutil.rmtree(old, ignore_errors=True)
        raise
    shutil.rmtree(old)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def _require_free(path: Path, replace: Callable[[Path], bool]) -> None:
    there = path.is_symlink() or path.exists()
    if there and (
        path.is_symlink() or not path.is_dir() or (any(path.iterdir()) and not replace(path))
    ):
        raise Refused(f"{path} is there already", code="export_target_in_use")

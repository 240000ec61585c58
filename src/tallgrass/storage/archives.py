"""Where archives lie: a folder, or a bucket. A file is there whole, or not at all."""

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from tallgrass.errors import ArchiveDamaged, ArchiveFull, ArchiveUnusable
from tallgrass.syncing import sync_path

_CHUNK = 1 << 20
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ArchivePlace(Protocol):
    """A folder or a bucket."""

    #: As the database keeps it.
    place: str

    def put(
        self, write: Callable[[BinaryIO], None], name: Callable[[str], str]
    ) -> tuple[str, str, int]:
        """Write a file whose name follows from its SHA-256; return name, SHA-256 and bytes."""

    def open(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file for reading."""

    def remove(self, name: str) -> None:
        """Remove a file that no archive was made of."""


def open_place(address: str) -> ArchivePlace:
    """Return the place of an address: a folder's path, or scheme://bucket/prefix."""
    if address.startswith("file:"):
        address = address.removeprefix("file:").removeprefix("//")
    if "://" in address:
        return ArchiveBucket(address)
    return ArchiveFolder(Path(address))


def digest_of(file: BinaryIO) -> tuple[str, int]:
    """Return SHA-256 and length of what is left of a file."""
    digest, length = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        length += len(chunk)
    return digest.hexdigest(), length


class ArchiveFolder:
    """Files in a local folder, made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.place = str(self._folder)

    def put(
        self, write: Callable[[BinaryIO], None], name: Callable[[str], str]
    ) -> tuple[str, str, int]:
        """Write beside, sync, then give the file its name; on any error nothing is left."""
        with _translated(self.place):
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".archive.", dir=self._folder)
            try:
                with os.fdopen(descriptor, "w+b") as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                    file.seek(0)
                    sha256, length = digest_of(file)
                Path(temporary).replace(self._folder / name(sha256))
                sync_path(self._folder)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        return name(sha256), sha256, length

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for reading."""
        with _translated(self.place), (self._folder / name).open("rb") as file:
            yield file

    def remove(self, name: str) -> None:
        """Remove a file."""
        with _translated(self.place):
            (self._folder / name).unlink(missing_ok=True)


class ArchiveBucket:
    """Objects below a prefix; they are made in a local file first, for their name is their hash."""

    def __init__(self, address: str) -> None:
        self.place = address.rstrip("/")
        self._opened: Any = None

    def put(
        self, write: Callable[[BinaryIO], None], name: Callable[[str], str]
    ) -> tuple[str, str, int]:
        """Write a temporary file, then put it whole."""
        with _translated(self.place), tempfile.TemporaryFile() as file:
            write(file)
            file.seek(0)
            sha256, length = digest_of(file)
            file.seek(0)
            self._store.put(name(sha256), file)
        return name(sha256), sha256, length

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Fetch an object into a temporary file, and open that."""
        with _translated(self.place), tempfile.TemporaryFile() as file:
            for chunk in self._store.get(name).stream():
                file.write(bytes(chunk))
            file.seek(0)
            yield file

    def remove(self, name: str) -> None:
        """Remove an object."""
        with _translated(self.place):
            self._store.delete(name)

    @property
    def _store(self) -> Any:
        if self._opened is None:
            from obstore.store import from_url  # noqa: PLC0415 - 0.1 s, for buckets only

            self._opened = from_url(self.place)
        return self._opened


@contextmanager
def _translated(place: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as exc:
        raise ArchiveDamaged(f"a file of the archive {place} is not there: {exc.filename}") from exc
    except OSError as exc:
        if exc.errno in _NO_ROOM:
            raise ArchiveFull(
                f"no room left for an archive in {place}; nothing was removed"
            ) from exc
        raise ArchiveUnusable(f"cannot use the archive {place}: {exc.strerror or exc}") from exc
    except Exception as exc:
        if type(exc).__module__.partition(".")[0] != "obstore":
            raise
        error = ArchiveDamaged if type(exc).__name__ == "NotFoundError" else ArchiveUnusable
        raise error(f"cannot use the archive {place}: {exc}") from exc

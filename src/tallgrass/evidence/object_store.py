"""Objects in a folder: head, tail, size and etag in one pass."""

import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from obstore.exceptions import BaseError, PreconditionError
from obstore.store import LocalStore

from tallgrass.evidence.formats import HEAD_BYTES
from tallgrass.evidence.header import Ranges
from tallgrass.evidence.reading import ReadFailure

if TYPE_CHECKING:
    from obstore import GetOptions

#: Objects up to this size are read in one call; larger ones in pieces of this size.
PIECE_BYTES = 4 * 1024 * 1024

_URI = re.compile(r"s3://([^/]+)/(.+)", re.DOTALL)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
#: No part of a path is called so.
_NO_NAMES = frozenset({"", ".", ".."})
_DENIED = (1, 13)
_NOT_THERE = (2, 20, 36, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectBytes:
    """What was read of an object; head and tail overlap where it is small."""

    head: bytes
    tail: bytes
    size: int
    etag: str
    #: Reads further bytes of the same version, or raises `RangeUnread`.
    more: Ranges | None = field(default=None, compare=False, repr=False)
    #: Whether reading more costs next to nothing.
    near: bool = field(default=False, compare=False, repr=False)


class RangeUnread(Exception):
    """Further bytes of an object could not be read."""

    def __init__(self, failure: ReadFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Objects(Protocol):
    """A place where objects are."""

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Return head, tail, size and etag of one version of the object, or why not."""


class LocalObjects:
    """Objects of ``s3://bucket/key`` as files ``folder/bucket/key``.

    The etag is the MD5 of the content, as S3's own for an object that was put in one piece; what
    obstore calls the etag of a file (inode, time, size) differs in every copy. So a file is read
    whole, though never held whole in memory if it is large.
    """

    def __init__(self, folder: Path) -> None:
        self._store = LocalStore(folder)
        self._folder = str(folder)

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Return head, tail, size and etag of the file, or why it could not be read."""
        path = _path(object_uri)
        if path is None:
            return ReadFailure(
                code="missing_object",
                message=f"no file can be the object {object_uri}: its key is no path of a folder",
            )
        try:
            return self._read(path, object_uri, tail_bytes)
        except (OSError, ValueError, BaseError) as exc:
            return _failure(exc, object_uri)

    def _read(self, path: str, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        content = _read_small(f"{self._folder}/{path}")
        if content is None:
            return self._read_in_pieces(path, object_uri, tail_bytes)
        return ObjectBytes(
            head=content[:HEAD_BYTES],
            tail=content[-tail_bytes:],
            size=len(content),
            etag=hashlib.md5(content, usedforsecurity=False).hexdigest(),
            more=_ranges_of(content),
            near=True,
        )

    def _read_in_pieces(
        self, path: str, object_uri: str, tail_bytes: int
    ) -> ObjectBytes | ReadFailure:
        meta = self._store.get(path).meta
        size, length, head, tail = meta["size"], 0, b"", b""
        digest = hashlib.md5(usedforsecurity=False)
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            piece = bytes(self._store.get_range(path, start=start, end=end))
            digest.update(piece)
            length += len(piece)
            head = head or piece[:HEAD_BYTES]
            tail = (tail + piece[-tail_bytes:])[-tail_bytes:]
        # A file that is written while it is read would give bytes that never existed.
        if length != size or self._store.head(path)["e_tag"] != meta["e_tag"]:
            return _changed(object_uri)
        return ObjectBytes(
            head=head,
            tail=tail,
            size=size,
            etag=digest.hexdigest(),
            more=self._ranges(path, object_uri, meta["e_tag"]),
            near=True,
        )

    def _ranges(self, path: str, object_uri: str, version: str | None) -> Ranges:
        """Return what reads ranges of a large file, as long as it is the same."""

        def read(start: int, length: int) -> bytes:
            options: GetOptions = {"range": (start, start + length), "if_match": version}
            try:
                return bytes(self._store.get(path, options=options).bytes())
            except PreconditionError:
                raise RangeUnread(_changed(object_uri)) from None
            except (OSError, ValueError, BaseError) as exc:
                raise RangeUnread(_failure(exc, object_uri)) from None

        return read


class OneFile(LocalObjects):
    """One file, read as the object of whatever address it is asked for."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.parent)
        self._name = file.name

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Return head, tail, size and etag of the file, or why it could not be read."""
        try:
            return self._read(self._name, object_uri, tail_bytes)
        except (OSError, ValueError, BaseError) as exc:
            return _failure(exc, object_uri)


def _read_small(file: str) -> bytes | None:
    """Return the content of a file of one piece; None where it is none, or was written meanwhile.

    Without obstore, which takes 30 µs to open and read a small file and 20 more to say whether it
    changed: this takes 8. What goes wrong here is found again, and told, by obstore; but what is no
    file is refused.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            # obstore would open a pipe too, and wait for somebody to write into it.
            raise FileNotFoundError(errno.ENOENT, "is no file", file)
        if before.st_size > PIECE_BYTES:
            return None
        try:
            content = os.read(descriptor, before.st_size + 1)
        except OSError:
            return None
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    same = before.st_mtime_ns == after.st_mtime_ns and before.st_ctime_ns == after.st_ctime_ns
    return content if same and len(content) == before.st_size == after.st_size else None


def _ranges_of(content: bytes) -> Ranges:
    return lambda start, length: content[start : start + length]


def _changed(object_uri: str) -> ReadFailure:
    return ReadFailure(code="io_error", message=f"{object_uri} changed while it was read")


def _not_there(object_uri: str) -> ReadFailure:
    message = f"{object_uri} is not in the folder"
    return ReadFailure(code="missing_object", message=message, may_come=True)


def _path(object_uri: str) -> str | None:
    """Return the file's path below the folder; None where the key is no such path.

    An empty part would let two keys name one file, a dotted one would leave the bucket.
    """
    match = _URI.fullmatch(object_uri)
    if match is None:
        return None
    path = f"{match[1]}/{match[2]}"
    return path if _NO_NAMES.isdisjoint(path.split("/")) else None


def _failure(exc: Exception, object_uri: str) -> ReadFailure:
    """Say what went wrong by a code; obstore's own text holds paths of the machine."""
    if isinstance(exc, FileNotFoundError | ValueError):
        return _not_there(object_uri)
    match = _OS_ERROR.search(str(exc))
    number = int(match[1]) if match else 0
    if number in _NOT_THERE:
        return _not_there(object_uri)
    if isinstance(exc, PermissionError) or number in _DENIED:
        return ReadFailure(code="access_denied", message=f"{object_uri} may not be read")
    reason = os.strerror(number) if number else type(exc).__name__
    return ReadFailure(code="io_error", message=f"{object_uri} could not be read: {reason}")

"""Objects in a folder: head, tail, size and etag in one pass."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from obstore.exceptions import BaseError
from obstore.store import LocalStore

from tallgrass.evidence.formats import HEAD_BYTES
from tallgrass.evidence.reading import ReadFailure

#: Objects up to this size are read in one call; larger ones in pieces of this size.
PIECE_BYTES = 4 * 1024 * 1024

_URI = re.compile(r"s3://([^/]+)/(.+)", re.DOTALL)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_DENIED = (1, 13)
_NOT_THERE = (2, 20, 36, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectBytes:
    """What was read of an object; head and tail overlap where it is small."""

    head: bytes
    tail: bytes
    size: int
    etag: str


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
        result = self._store.get(path)
        meta = result.meta
        size = meta["size"]
        if size <= PIECE_BYTES:
            content = bytes(result.bytes())
            length, head, tail = len(content), content[:HEAD_BYTES], content[-tail_bytes:]
            digest = hashlib.md5(content, usedforsecurity=False)
        else:
            length, head, tail = 0, b"", b""
            digest = hashlib.md5(usedforsecurity=False)
            for start in range(0, size, PIECE_BYTES):
                end = min(start + PIECE_BYTES, size)
                piece = bytes(self._store.get_range(path, start=start, end=end))
                digest.update(piece)
                length += len(piece)
                head = head or piece[:HEAD_BYTES]
                tail = (tail + piece[-tail_bytes:])[-tail_bytes:]
        # 20 µs: a file that is written while it is read would give bytes that never existed.
        if length != size or self._store.head(path)["e_tag"] != meta["e_tag"]:
            return ReadFailure(code="io_error", message=f"{object_uri} changed while it was read")
        return ObjectBytes(head=head, tail=tail, size=size, etag=digest.hexdigest())


def _path(object_uri: str) -> str | None:
    """Return the file's path below the folder; None where the key is no such path.

    An empty part would let two keys name one file, a dotted one would leave the bucket.
    """
    match = _URI.fullmatch(object_uri)
    if match is None:
        return None
    path = f"{match[1]}/{match[2]}"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return None
    return path


def _failure(exc: Exception, object_uri: str) -> ReadFailure:
    """Say what went wrong by a code; obstore's own text holds paths of the machine."""
    if isinstance(exc, FileNotFoundError | ValueError):
        return ReadFailure(code="missing_object", message=f"{object_uri} is not in the folder")
    match = _OS_ERROR.search(str(exc))
    number = int(match[1]) if match else 0
    if number in _NOT_THERE:
        return ReadFailure(code="missing_object", message=f"{object_uri} is not in the folder")
    if isinstance(exc, PermissionError) or number in _DENIED:
        return ReadFailure(code="access_denied", message=f"{object_uri} may not be read")
    reason = os.strerror(number) if number else type(exc).__name__
    return ReadFailure(code="io_error", message=f"{object_uri} could not be read: {reason}")

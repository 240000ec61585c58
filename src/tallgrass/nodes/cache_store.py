"""Results by content address: a local folder, or an object store.

An entry is ``magic, SHA-256 of the rest, rest``; the rest says its own key. What does not verify
when it is read is no entry: a miss, reported as corrupt, and removed. The first result of a key
stays: a second one that was computed meanwhile is not written over it. Bodies are plain bytes that
`values` reads; nothing is ever unpickled.
"""

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from tallgrass.errors import InvalidInput
from tallgrass.nodes.files import (
    Files,
    make_and_open,
    open_root,
    translated,
    write_temporary,
)

_MAGIC: Final = b"TGC1"
_HEAD_BYTES: Final = len(_MAGIC) + 32
_KEY: Final = re.compile(r"[0-9a-f]{64}")
BYTES_MAX: Final = 1 << 30
#: An entry that was made young within so many seconds is young still: to say so again would cost
#: more than to read it.
_YOUNG_S: Final = 60.0
#: After pruning so much of the bound is used.
_PRUNED_TO: Final = 0.9


class Found(StrEnum):
    """What a look into the cache came to."""

    HIT = "hit"
    MISS = "miss"
    #: Something was there and did not verify; it is gone now.
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLook:
    """What was found, and the body of a hit."""

    found: Found
    body: bytes | None = None


_MISS: Final = CacheLook(found=Found.MISS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """How full a cache is."""

    entries: int
    bytes: int
    bytes_max: int


class CacheStore(Protocol):
    """Keeps results by their content address."""

    def get(self, key: str) -> CacheLook:
        """Look a key up; only what verifies is a hit."""

    def put(self, key: str, body: bytes) -> bool:
        """Keep a result; False if the key has one already, or if it is too large to be kept."""

    def delete(self, key: str) -> None:
        """Forget a result."""

    def stats(self) -> CacheStats:
        """Count what is kept."""

    def prune(self, bytes_max: int | None = None, *, unused_since: datetime | None = None) -> int:
        """Remove the oldest results until the rest fits; return how many went.

        Those that were neither made nor used since a time go first, whether there is room or not.
        """

    def clear(self) -> int:
        """Remove everything; return how many results went."""

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Yield each key with its result, where it verifies; to be read so makes nothing young."""


def sealed(key: str, body: bytes) -> bytes:
    """Return the bytes of an entry."""
    content = bytes.fromhex(_checked(key)) + body
    return _MAGIC + sha256(content).digest() + content


def unsealed(key: str, data: bytes) -> bytes | None:
    """Return the body of an entry of this key, or None if it is not what was written."""
    content = data[_HEAD_BYTES:]
    if data[: len(_MAGIC)] != _MAGIC or sha256(content).digest() != data[len(_MAGIC) : _HEAD_BYTES]:
        return None
    return content[32:] if content[:32] == bytes.fromhex(key) else None


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise InvalidInput(f"{key!r} is no key of the cache", code="node_declaration_invalid")
    return key


class FolderCache:
    """A local folder: ``<first two digits>/<key>``. A hit renews an entry's age, once a minute."""

    def __init__(
        self, root: Path, *, bytes_max: int = BYTES_MAX, files: Files | None = None
    ) -> None:
        self.root = root
        self._place = str(root)
        self._bytes_max = bytes_max
        self._files = files or Files()
        self._lock = threading.Lock()
        #: None until it was counted; others may add to the folder, so it is counted again now and
        #: then.
        self._bytes: int | None = None

    def get(self, key: str) -> CacheLook:
        """Look a key up; only what verifies is a hit."""
        path = self._path(key)
        try:
            data, used_at = _read(path)
        except FileNotFoundError:
            return _MISS
        except OSError:
            data, used_at = b"", 0.0
        body = unsealed(key, data)
        if body is None:
            self.delete(key)
            return CacheLook(found=Found.CORRUPT)
        if time.time() - used_at > _YOUNG_S:
            with contextlib.suppress(OSError):
                os.utime(path)
        return CacheLook(found=Found.HIT, body=body)

    def put(self, key: str, body: bytes) -> bool:
        """Keep a result; False if the key has one already, or if it is too large to be kept."""
        data = sealed(key, body)
        if len(data) > self._bytes_max * _PRUNED_TO:
            return False
        with translated(self._place):
            folder = self._open_folder(key)
            try:
                added = self._write(key, data, folder)
            finally:
                os.close(folder)
        if added:
            self._grown(len(data))
        return added

    def delete(self, key: str) -> None:
        """Forget a result."""
        with translated(self.root), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(key))  # noqa: PTH108 - as `_path`

    def stats(self) -> CacheStats:
        """Count what is kept."""
        sizes = [size for _, size, _ in self._entries()]
        return CacheStats(entries=len(sizes), bytes=sum(sizes), bytes_max=self._bytes_max)

    def prune(self, bytes_max: int | None = None, *, unused_since: datetime | None = None) -> int:
        """Remove the oldest results until the rest fits; return how many went."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        bound = self._bytes_max if bytes_max is None else bytes_max
        since = None if unused_since is None else unused_since.timestamp()
        removed = 0
        for used, size, path in entries:
            if total <= bound and (since is None or used >= since):
                break
            with translated(path), contextlib.suppress(FileNotFoundError):
                path.unlink()
            total -= size
            removed += 1
        with self._lock:
            self._bytes = total
        return removed

    def clear(self) -> int:
        """Remove everything; return how many results went."""
        return self.prune(-1)

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Yield each key with its result, where it verifies; to be read so makes nothing young."""
        for _, _, path in self._entries():
            with contextlib.suppress(OSError):
                is_key = _KEY.fullmatch(path.name)
                body = unsealed(path.name, _read(str(path))[0]) if is_key else None
                if body is not None:
                    yield path.name, body

    def _write(self, key: str, data: bytes, folder: int) -> bool:
        name = f".{key}.{secrets.token_hex(4)}.tmp"
        write_temporary(self._files, name, data, folder=folder)
        try:
            return self._files.link(name, key, folder=folder)
        finally:
            self._files.remove(name, folder=folder)

    def _grown(self, size: int) -> None:
        with self._lock:
            if self._bytes is None:
                self._bytes = self.stats().bytes
            else:
                self._bytes += size
            too_many = self._bytes > self._bytes_max
        if too_many:
            self.prune(int(self._bytes_max * _PRUNED_TO))

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield age, size and path of each entry, and of what crashes left behind."""
        if not self.root.is_dir():
            return
        for folder in sorted(self.root.glob("[0-9a-f][0-9a-f]")):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    facts = path.lstat()
                    yield facts.st_mtime, facts.st_size, path

    def _open_folder(self, key: str) -> int:
        path = f"{self._place}/{key[:2]}"
        try:
            return self._files.open_folder(path)
        except FileNotFoundError:
            root = open_root(self.root)
        try:
            return make_and_open(self._files, key[:2], folder=root)
        finally:
            os.close(root)

    def _path(self, key: str) -> str:
        # Text: to join paths took longer than to look the key up.
        return f"{self._place}/{_checked(key)[:2]}/{key}"


class ObjectCache:
    """An object store through obstore; two writers of a key are told apart by a conditional put.

    `store` is one of ``obstore.store``. What is kept is counted at every `count_every`-th put.
    """

    def __init__(
        self,
        store: Any,
        *,
        prefix: str = "node-cache",
        bytes_max: int = BYTES_MAX,
        count_every: int = 256,
    ) -> None:
        self._store = store
        self._prefix = prefix.strip("/")
        self._bytes_max = bytes_max
        self._count_every = count_every
        self._puts = 0

    def get(self, key: str) -> CacheLook:
        """Look a key up; only what verifies is a hit."""
        try:
            data = bytes(self._store.get(self._name(key)).bytes())
        except FileNotFoundError:
            return CacheLook(found=Found.MISS)
        body = unsealed(key, data)
        if body is None:
            self.delete(key)
            return CacheLook(found=Found.CORRUPT)
        return CacheLook(found=Found.HIT, body=body)

    def put(self, key: str, body: bytes) -> bool:
        """Keep a result; False if the key has one already, or if it is too large to be kept."""
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - for buckets only

        data = sealed(key, body)
        if len(data) > self._bytes_max * _PRUNED_TO:
            return False
        try:
            self._store.put(self._name(key), data, mode="create")
        except AlreadyExistsError:
            return False
        self._puts += 1
        if self._puts % self._count_every == 0:
            self._prune_if_full()
        return True

    def delete(self, key: str) -> None:
        """Forget a result."""
        with contextlib.suppress(FileNotFoundError):
            self._store.delete(self._name(key))

    def stats(self) -> CacheStats:
        """Count what is kept."""
        sizes = [size for _, size, _ in self._entries()]
        return CacheStats(entries=len(sizes), bytes=sum(sizes), bytes_max=self._bytes_max)

    def prune(self, bytes_max: int | None = None, *, unused_since: datetime | None = None) -> int:
        """Remove the oldest results until the rest fits; return how many went."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        bound = self._bytes_max if bytes_max is None else bytes_max
        old: list[str] = []
        for made, size, name in entries:
            if total <= bound and (unused_since is None or made >= unused_since):
                break
            old.append(name)
            total -= size
        if old:
            self._store.delete(old)
        return len(old)

    def clear(self) -> int:
        """Remove everything; return how many results went."""
        return self.prune(-1)

    def bodies(self) -> Iterator[tuple[str, bytes]]:
        """Yield each key with its result, where it verifies."""
        for _, _, name in list(self._entries()):
            key = name.rpartition("/")[2]
            with contextlib.suppress(FileNotFoundError):
                data = bytes(self._store.get(name).bytes())
                body = unsealed(key, data) if _KEY.fullmatch(key) else None
                if body is not None:
                    yield key, body

    def _prune_if_full(self) -> None:
        if self.stats().bytes > self._bytes_max:
            self.prune(int(self._bytes_max * _PRUNED_TO))

    def _entries(self) -> Iterable[tuple[Any, int, str]]:
        for batch in self._store.list(self._prefix):
            for each in batch:
                yield each["last_modified"], each["size"], each["path"]

    def _name(self, key: str) -> str:
        return f"{self._prefix}/{_checked(key)[:2]}/{key}"


def _read(path: str) -> tuple[bytes, float]:
    """Return an entry's bytes and when it was last made young; never through a link of its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        facts = os.fstat(descriptor)
        data = os.read(descriptor, facts.st_size)
        while len(data) < facts.st_size and (more := os.read(descriptor, facts.st_size)):
            data += more
        return data, facts.st_mtime
    finally:
        os.close(descriptor)

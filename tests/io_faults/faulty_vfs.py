"""A file layer for SQLite whose n-th operation fails, and which can tell all that was done.

It stands in front of the system's own ("unix") inside the very library that Python's `sqlite3` is
bound to, so the package's own connections go through it, unchanged. Each open file keeps SQLite's
own methods but for those that change something on the disk.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Result codes of SQLite.
OK = 0
FULL = 13
CANNOT_OPEN = 14
BROKEN = {"write": 778, "sync": 1034, "truncate": 1546, "delete": 2570, "open": CANNOT_OPEN}

_pointer, _int, _int64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
#: Names are passed on by their address: SQLite keeps that of a file as long as it is open.
_OPEN = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _pointer, _int, _pointer)
_DELETE = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int)
_WRITE = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _int, _int64)
_TRUNCATE = ctypes.CFUNCTYPE(_int, _pointer, _int64)
_SYNC = ctypes.CFUNCTYPE(_int, _pointer, _int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("file_bytes", _int),
        ("path_bytes", _int),
        ("next", _pointer),
        ("name", ctypes.c_char_p),
        ("data", _pointer),
        ("open", _pointer),
        ("delete", _pointer),
        ("others", _pointer * 14),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("version", _int),
        ("close", _pointer),
        ("read", _pointer),
        ("write", _pointer),
        ("truncate", _pointer),
        ("sync", _pointer),
        ("others", _pointer * 13),
    )


class How(Enum):
    """What happens instead of the n-th operation."""

    #: Nothing was done, and the disk says that it is broken.
    BEFORE = "before"
    #: Half of a write was done; of all else nothing.
    TORN = "torn"
    #: All was done, and the disk says that it is broken.
    AFTER = "after"
    #: Nothing was done: there is no room. Only what needs room fails like that.
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True)
class Done:
    """One operation on one file."""

    what: str
    path: str
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Script:
    """Counts operations, lets one fail, and keeps them if asked to."""

    fails_at: int | None = None
    how: How = How.BEFORE
    keeps: bool = False
    #: The disk stays broken from then on, as disks do.
    for_good: bool = False
    seen: int = 0
    log: list[Done] = field(default_factory=list)
    struck: str | None = None

    def turn(self, done: Done) -> How | None:
        """Count an operation; return how it is to fail, if it is."""
        number, self.seen = self.seen, self.seen + 1
        if self.keeps:
            self.log.append(done)
        if self.fails_at is None or number < self.fails_at:
            return None
        if number > self.fails_at and not self.for_good:
            return None
        if self.how is How.NO_ROOM and done.what != "write":
            return None
        self.struck = self.struck or done.what
        return self.how


class FaultyVfs:
    """The file layer; one a process."""

    def __init__(self) -> None:
        self.script: Script | None = None
        library: Any = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = (ctypes.c_char_p,)
        library.sqlite3_vfs_register.argtypes = (ctypes.POINTER(_Vfs), _int)
        self._library = library
        self._system = library.sqlite3_vfs_find(None)
        self._open = _OPEN(self._system.contents.open)
        self._delete = _DELETE(self._system.contents.delete)
        self._paths: dict[int, str] = {}
        #: By the address of the system's own table; kept, for SQLite uses them.
        self._tables: dict[int, _Methods] = {}
        self._kept: list[Any] = [_OPEN(self._opening), _DELETE(self._deleting)]
        self._vfs = _Vfs.from_buffer_copy(self._system.contents)
        self._vfs.name = b"tallgrass-faulty"
        self._vfs.open = ctypes.cast(self._kept[0], _pointer)
        self._vfs.delete = ctypes.cast(self._kept[1], _pointer)

    @contextmanager
    def playing(self, script: Script) -> Iterator[Script]:
        """Let all connections that are opened now follow a script."""
        self.script = script
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        try:
            yield script
        finally:
            self.script = None
            self._library.sqlite3_vfs_register(self._system, 1)

    def _opening(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        path = "" if name is None else ctypes.string_at(name).decode()
        if self._turn(Done("open", path)) is not None:
            # SQLite looks at the methods of a file even where it could not be opened.
            ctypes.cast(file, ctypes.POINTER(_pointer))[0] = None
            return CANNOT_OPEN
        result: int = self._open(vfs, name, file, flags, out)
        if result == OK:
            methods = ctypes.cast(file, ctypes.POINTER(_pointer))
            methods[0] = ctypes.addressof(self._table(methods[0] or 0))
            self._paths[file] = path
        return result

    def _deleting(self, vfs: int, name: int, sync: int) -> int:
        def delete() -> int:
            result: int = self._delete(vfs, name, sync)
            return result

        return self._act(Done("delete", ctypes.string_at(name).decode()), delete)

    def _table(self, system: int) -> _Methods:
        """Return a copy of the system's table of methods with ours in it."""
        if system not in self._tables:
            theirs = ctypes.cast(system, ctypes.POINTER(_Methods)).contents
            ours = _Methods.from_buffer_copy(theirs)
            for name, kind, make in (
                ("write", _WRITE, self._writing),
                ("truncate", _TRUNCATE, self._truncating),
                ("sync", _SYNC, self._syncing),
            ):
                callback = kind(make(kind(getattr(theirs, name))))
                self._kept.append(callback)
                setattr(ours, name, ctypes.cast(callback, _pointer))
            self._tables[system] = ours
        return self._tables[system]

    def _writing(self, system: Callable[..., int]) -> Callable[..., int]:
        def write(file: int, data: int, length: int, offset: int) -> int:
            # The content is copied only for a script that keeps it.
            keeps = self.script is not None and self.script.keeps
            content = ctypes.string_at(data, length) if keeps else b""
            done = Done("write", self._paths[file], offset, content)
            return self._act(
                done,
                lambda: system(file, data, length, offset),
                lambda: system(file, data, length // 2, offset),
            )

        return write

    def _truncating(self, system: Callable[..., int]) -> Callable[..., int]:
        def truncate(file: int, size: int) -> int:
            done = Done("truncate", self._paths[file], size)
            return self._act(done, lambda: system(file, size))

        return truncate

    def _syncing(self, system: Callable[..., int]) -> Callable[..., int]:
        def sync(file: int, flags: int) -> int:
            return self._act(Done("sync", self._paths[file]), lambda: system(file, flags))

        return sync

    def _turn(self, done: Done) -> How | None:
        return None if self.script is None else self.script.turn(done)

    def _act(
        self, done: Done, whole: Callable[[], int], half: Callable[[], int] = lambda: OK
    ) -> int:
        """Do it, or what the script says instead."""
        how = self._turn(done)
        if how is None:
            return whole()
        if how is How.NO_ROOM:
            return FULL
        if how is How.TORN:
            half()
        elif how is How.AFTER:
            whole()
        return BROKEN[done.what]


_made: list[FaultyVfs] = []


def faulty_vfs() -> FaultyVfs:
    """Return the process's own; SQLite keeps its address for good."""
    if not _made:
        _made.append(FaultyVfs())
    return _made[0]

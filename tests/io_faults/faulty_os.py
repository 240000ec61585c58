"""The system's file operations as Python's `os` offers them, of which the n-th fails.

Only what this thread does counts. Files that are opened by descriptor (`os.fdopen`) or
by path (`Path.open`) write through it too, as their buffer is emptied.
"""

from __future__ import annotations

import errno
import io
import os
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.io_faults.faulty_vfs import How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Operations that change something on the disk, or promise that it is there.
CHANGING = ("open", "write", "fsync", "fdatasync", "sync", "replace", "rename", "link", "mkdir",
            "ftruncate")  # fmt: skip


@dataclass(slots=True)
class OsScript:
    """Counts operations and lets one fail."""

    fails_at: int | None = None
    how: How = How.BEFORE
    seen: int = 0
    struck: str | None = None
    _thread: int = field(default_factory=threading.get_ident)

    def act(self, name: str, whole: Callable[[], Any], half: Callable[[], Any] | None) -> Any:
        """Do it, or fail in its place."""
        if threading.get_ident() != self._thread:
            return whole()
        number, self.seen = self.seen, self.seen + 1
        if number != self.fails_at:
            return whole()
        self.struck = name
        if self.how is How.AFTER:
            done = whole()
            if isinstance(done, io.FileIO):
                done.close()
            elif name == "open":
                os.close(done)
        elif self.how is How.TORN and half is not None:
            half()
        code = errno.ENOSPC if self.how is How.NO_ROOM else errno.EIO
        raise OSError(code, os.strerror(code))


class _Raw(io.FileIO):
    """A file whose writes follow a script."""

    script: OsScript

    def write(self, data: Any, /) -> int:
        content, write = bytes(data), super().write
        found: int = self.script.act(
            "write", lambda: write(content), lambda: write(content[: len(content) // 2])
        )
        return found


@contextmanager
def playing(script: OsScript) -> Iterator[OsScript]:
    """Let the operations of this thread follow a script."""
    fdopen, open_by_name = os.fdopen, io.open

    def opened(descriptor: int, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        if mode not in {"wb", "w+b"}:
            return fdopen(descriptor, mode, *arguments, **keywords)
        raw = _Raw(descriptor, mode)
        raw.script = script
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

    def opened_by_name(
        file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **keywords: Any
    ) -> Any:
        if mode not in {"wb", "ab"}:
            return open_by_name(file, mode, buffering, *arguments, **keywords)
        raw: _Raw = script.act("open", lambda: _Raw(file, mode), None)
        raw.script = script
        return io.BufferedWriter(raw) if buffering else raw

    with ExitStack() as patches:
        for name in CHANGING:
            patches.enter_context(patch.object(os, name, _scripted(script, name)))
        patches.enter_context(patch.object(os, "fdopen", opened))
        patches.enter_context(patch.object(io, "open", opened_by_name))
        yield script


def _scripted(script: OsScript, name: str) -> Callable[..., Any]:
    system: Callable[..., Any] = getattr(os, name)

    def scripted(*arguments: Any, **keywords: Any) -> Any:
        half = None
        if name == "write":
            descriptor, data = arguments
            half = lambda: system(descriptor, bytes(data)[: len(data) // 2])  # noqa: E731
        return script.act(name, lambda: system(*arguments, **keywords), half)

    return scripted

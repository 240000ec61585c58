"""File operations that fail, or kill their process, when the test says so."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tallgrass.nodes.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable

#: Operations that change something on the disk.
CHANGING = (
    "open", "make_folder", "write", "sync_data", "sync_folder", "truncate", "replace", "link",
    "remove",
)  # fmt: skip


class ScriptedFiles(Files):
    """Calls `before` with the number and name of each operation that changes something."""

    def __init__(self, before: Callable[[int, str], None]) -> None:
        self.done: list[str] = []
        self._before = before

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CHANGING:
            return found

        def scripted(*arguments: Any, **keywords: Any) -> Any:
            number = len(self.done)
            self.done.append(name)
            self._before(number, name)
            return found(*arguments, **keywords)

        return scripted


def failing_at(number: int, code: int) -> ScriptedFiles:
    """Files whose n-th operation, and only that, fails with an error of the system."""

    def before(count: int, _name: str) -> None:
        if count == number:
            raise OSError(code, os.strerror(code))

    return ScriptedFiles(before)


class HalfWriting(Files):
    """Files whose n-th write, and only that, stops in the middle with an error of the system."""

    def __init__(self, number: int, code: int) -> None:
        self._left = number
        self._code = code

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of it, or half."""
        self._left -= 1
        if self._left != -1:
            super().write(descriptor, data)
            return
        super().write(descriptor, data[: len(data) // 2])
        raise OSError(self._code, os.strerror(self._code))


def killing_at(number: int) -> ScriptedFiles:
    """Files that kill their process, as kill -9 does, right before the n-th operation."""

    def before(count: int, _name: str) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return ScriptedFiles(before)

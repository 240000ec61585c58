"""The floor of reliable nodes: the same files, bytes and syncs by bare calls, inside LangGraph.

Each run has a folder and a journal with room, each node a folder, three files that are replaced
whole, an entry of the cache, and two syncs: before its function is called and after. Nothing is
looked up, hashed, locked, decided or read back. A floor of journals alone leaves the files out: it
shows what a journal a run with two syncs a node costs, whoever writes it. Imports nothing of the
package.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROOM_BYTES = 16 << 10
#: Sizes of what a node of the benchmark's graph writes.
JOURNAL_BYTES, PRE_BYTES, ATTEMPTS_BYTES, POST_BYTES, CACHED_BYTES = 820, 850, 240, 480, 206


class Floor:
    """Runs of nodes below a folder; one run at a time."""

    def __init__(self, root: Path) -> None:
        self._wal, self._cache = root / "wal", root / "cache"
        for folder in (self._wal, *(self._cache / f"{digit:02x}" for digit in range(256))):
            folder.mkdir(parents=True)
        self._root = os.open(self._wal, os.O_RDONLY)
        self._journal = self._run = -1
        self._run_path = self._wal
        self._written = 0

    def begin(self, run_id: str) -> None:
        """Make a run: its folder and its journal, whose names are synced with its first entry."""
        self._close_run()
        self._run_path = self._wal / run_id
        self._run_path.mkdir()
        self._run = os.open(self._run_path, os.O_RDONLY)
        self._journal = os.open(self._run_path / ".journal", os.O_RDWR | os.O_CREAT)
        self._written = 0
        os.pwrite(self._journal, bytes(ROOM_BYTES), 0)

    def journaled(self, _name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function as a node that leaves its two synced entries, and nothing else."""

        def durable(state: Any) -> Any:
            self._append()
            self._sync()
            result = function(state)
            self._append()
            self._sync()
            return result

        return durable

    def node(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function as a node that leaves what ours leaves."""

        def durable(state: Any) -> Any:
            folder = f"{self._run_path}/{name}"
            os.mkdir(folder)  # noqa: PTH102 - the bare call, as all below
            self._append()
            _replace(folder, "pre.json", PRE_BYTES)
            self._sync()
            result = function(state)
            self._append()
            self._sync()
            _replace(folder, "attempts.json", ATTEMPTS_BYTES)
            _replace(folder, "post.json", POST_BYTES)
            self._keep()
            return result

        return durable

    def close(self) -> None:
        """Close what is open."""
        self._close_run()
        os.close(self._root)

    def _close_run(self) -> None:
        if self._journal != -1:
            os.close(self._journal)
            os.close(self._run)

    def _append(self) -> None:
        os.pwrite(self._journal, b"x" * JOURNAL_BYTES, self._written)
        self._written += JOURNAL_BYTES

    def _sync(self) -> None:
        os.fdatasync(self._journal)
        if self._written == JOURNAL_BYTES:
            os.fsync(self._run)
            os.fsync(self._root)

    def _keep(self) -> None:
        key = os.urandom(32).hex()
        folder = f"{self._cache}/{key[:2]}"
        _write(f"{folder}/.{key}", CACHED_BYTES)
        os.link(f"{folder}/.{key}", f"{folder}/{key}")
        os.unlink(f"{folder}/.{key}")  # noqa: PTH108


def _replace(folder: str, name: str, size: int) -> None:
    _write(f"{folder}/.{name}", size)
    os.replace(f"{folder}/.{name}", f"{folder}/{name}")  # noqa: PTH105


def _write(path: str, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, b"x" * size)
    os.close(descriptor)

"""Learns that events were written, without asking the outbox itself.

A wake-up is only a hint: whoever waits for one looks once a second anyway, so that a lost one, or a
database that is away, costs a second and no event.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

#: How often SQLite is asked; the question reads one number of the file's shared memory.
_LOOK_EVERY_S = 0.05


class SqliteWake:
    """Sees by the file's version that another connection has committed."""

    def __init__(self, path: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path = path
        self._sleep = sleep
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None

    def wait(self, timeout_s: float) -> bool:
        """Wait for a commit of any kind: a dispatcher that finds nothing rests again."""
        for _ in range(max(1, round(timeout_s / _LOOK_EVERY_S))):
            version = self._version()
            changed = version is not None and self._seen is not None and version != self._seen
            self._seen = version
            if changed:
                return True
            self._sleep(_LOOK_EVERY_S)
        return False

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _version(self) -> int | None:
        try:
            if self._connection is None:
                uri = f"{self._path.absolute().as_uri()}?mode=ro"
                self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            self.close()
            return None
        return version

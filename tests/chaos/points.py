"""Named crash points: where a process of the pipeline may end itself, as kill -9 or a freeze would.

They are put around the package's own methods in the process that is to die; the package knows
nothing of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from tallgrass.outbox.dispatcher import Dispatcher
from tallgrass.sinks import file as file_sink
from tallgrass.storage.postgres import PostgresDatabase
from tallgrass.storage.sqlite import SqliteDatabase
from tallgrass.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PHASES = (
    "receive",
    "parse",
    "record_and_claim",
    "read_evidence",
    "operate",
    "commit",
    "acknowledge",
)
_TRANSACTION = ("begun", "before commit", "committed")
#: By role, each point that is struck in turn.
POINTS = {
    "worker": (*(f"after {phase}" for phase in PHASES), *_TRANSACTION),
    "dispatcher": ("after claim", "lines written", "after send", "after settle", *_TRANSACTION),
    "replayer": ("approved", "prepared", "between batches", *_TRANSACTION),
    "node": ("file operation",),
}


class Points:
    """Ends its process when it comes to a point for the n-th time."""

    def __init__(self, name: str | None, number: int) -> None:
        self._name = name
        self._left = number

    def reach(self, name: str) -> None:
        """Say where the process is."""
        if name != self._name:
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def install(points: Points) -> None:
    """Put the points around what this process does from now on."""
    for phase in PHASES:
        _after(points, Worker, phase, f"after {phase}")
    for phase in ("claim", "send", "settle"):
        _after(points, Dispatcher, phase, f"after {phase}")
    _after(points, file_sink, "_write", "lines written")
    for database in (SqliteDatabase, PostgresDatabase):
        _around_transactions(points, database)


def _after(points: Points, place: Any, name: str, point: str) -> None:
    system: Callable[..., Any] = getattr(place, name)

    def reaching(*arguments: Any, **keywords: Any) -> Any:
        found = system(*arguments, **keywords)
        points.reach(point)
        return found

    setattr(place, name, reaching)


def _around_transactions(points: Points, database: Any) -> None:
    system = database.transaction

    @contextlib.contextmanager
    def transaction(self: Any) -> Iterator[Any]:
        with system(self) as begun:
            points.reach("begun")
            yield begun
            points.reach("before commit")
        points.reach("committed")

    database.transaction = transaction

"""A feed in a folder, and `tallgrass ingest` on it as a real process."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.cli.command import PROGRAM, Done, environment, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

SHARES = (
    "overwritten", "stale", "truncated", "zero-bytes", "missing", "late", "duplicated", "reordered",
    "poison", "deletions", "sidecars", "test-events", "raw-delivery", "two-records",
)  # fmt: skip


def shares(**given: str) -> list[str]:
    """Return flags that set the given shares, and all others to 0."""
    values = {name: given.get(name.replace("-", "_"), "0") for name in SHARES}
    return [word for name, value in values.items() for word in (f"--{name}", value)]


@dataclass(frozen=True)
class FeedFolder:
    """A simulated feed: its objects, its queue, and what `simulate` told of it."""

    folder: Path
    told: dict[str, Any]

    @property
    def queue(self) -> str:
        """The queue's address."""
        return f"sqlite:///{self.folder / 'queue.db'}"

    @property
    def objects(self) -> str:
        """The objects' address."""
        return f"file:{self.folder / 'objects'}"

    def flags(self, backend: Backend) -> list[str]:
        """Return the flags that lead a worker here."""
        return ["--queue", self.queue, "--store", backend.url, "--objects", self.objects]

    def ingest(self, backend: Backend, *flags: str, **env: str) -> Done:
        """Run `tallgrass ingest` here and return how it ended."""
        return tallgrass("ingest", *self.flags(backend), *flags, "--output", "json", env=env)

    def start(self, backend: Backend, *flags: str, **env: str) -> subprocess.Popen[str]:
        """Start `tallgrass ingest` here, without an end of its own."""
        return subprocess.Popen(
            [*PROGRAM, "ingest", *self.flags(backend), *flags, "--output", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | env,
        )

    def in_queue(self, table: str = "messages") -> int:
        """Count the rows of a table of the queue by plain SQL."""
        with contextlib.closing(sqlite3.connect(self.folder / "queue.db")) as connection:
            found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found[0])


def make_feed(folder: Path, units: int, *flags: str) -> FeedFolder:
    """Run `tallgrass simulate` into a queue."""
    queue = f"sqlite:///{folder / 'queue.db'}"
    done = tallgrass(
        "simulate", "--units", str(units), "--dir", str(folder), "--queue", queue, *flags,
        "--output", "json",
    )  # fmt: skip
    assert done.code == 0, done.err
    return FeedFolder(folder, done.json)

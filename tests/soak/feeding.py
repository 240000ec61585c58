"""The feeder: objects and notifications of simulated feeds, one after the other, at a rate.

A process of its own: `python -m tests.soak.feeding JSON`. It tells what it sent, a line of JSON
each tick: units and messages so far, and one unit to look out for, with the time of sending.
What must become of each unit stands in the file of manifests, a line a feed.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.simulate.feed import Feed, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tests.oracle.tables import announced_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.queues.protocol import Queue

FAULTS = FeedFaults(
    overwritten=0.04, stale=0.02, truncated=0.002, zero_bytes=0.001, missing=0.001, late=0.02,
    duplicated=0.05, reordered=0.1, poison=0.01, deletions=0.01, sidecars=0.02,
)  # fmt: skip
#: Without what takes its time to be settled.
SHORT_FAULTS = replace(FAULTS, overwritten=0.0, stale=0.0, missing=0.0)
#: One feed's contents are in memory while it lasts, and planning it takes a third of a second.
UNITS_A_FEED = 1000
TICK_S = 0.1
_FIRST = datetime(2020, 1, 1, tzinfo=UTC)
#: More than the data times of one feed fill, so that no two feeds name the same object.
_APART = timedelta(hours=12)


def feeds(seed: int, units: int, faults: FeedFaults) -> Iterator[Feed]:
    """Yield feeds without end, each with the next data times; none shares an object."""
    for number in count():
        yield Feed(seed + number, units, faults, start=_FIRST + number * _APART)


class Feeder:
    """Sends at a rate, until it is enough and the feed that was begun is at its end."""

    def __init__(self, queue: Queue, objects: Path, manifests: Path) -> None:
        self._queue = queue
        self._objects = objects
        self._manifests = manifests
        self._units = 0.0
        self._messages = 0
        self._began = 0.0

    def run(self, told: dict[str, Any], faults: FeedFaults) -> None:
        """Send feeds, each about a sixth of the time that is planned."""
        rate, enough = told["rate"], Path(told["enough"])
        self._began = time.monotonic()
        units = min(UNITS_A_FEED, max(50, int(rate * told["seconds"] / 6)))
        for feed in feeds(told["seed"], units, faults):
            self._send_feed(feed, units, rate)
            if enough.exists():
                return

    def _send_feed(self, feed: Feed, units: int, rate: float) -> None:
        """Send one feed, evenly; if this process is late, faster until it is not."""
        manifest = feed.manifest()
        with self._manifests.open("a", encoding="utf-8") as file:
            file.write(json.dumps(manifest.to_json()) + "\n")
        plain = {unit.object_uri for unit in manifest.units if unit.fate == "plain"}
        at_once = max(1, round(manifest.messages / units * rate * TICK_S))
        bodies: list[bytes] = []
        for step in feed.steps():
            if isinstance(step, FeedObject):
                step.write(self._objects)
                continue
            bodies.append(step.body)
            if len(bodies) == at_once:
                self._send(bodies, plain, units * at_once / manifest.messages)
                bodies = []
                time.sleep(max(0.0, self._units / rate - (time.monotonic() - self._began)))
        self._send(bodies, plain, units * len(bodies) / manifest.messages)

    def _send(self, bodies: list[bytes], plain: set[str], units: float) -> None:
        """Send some messages; a unit of them is watched."""
        self._queue.send(bodies)
        self._units += units
        self._messages += len(bodies)
        announced = (uri for body in bodies for uri in sorted(announced_objects(body) & plain))
        watched = next(announced, None)
        if watched is not None:
            plain.discard(watched)
        _tell({"units": round(self._units), "messages": self._messages, "at": time.time(),
               "watched": watched})  # fmt: skip


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - whoever started this reads it


def main(arguments: str) -> None:
    """Feed as told."""
    told = json.loads(arguments)
    config = load_config(environment={}, flags=told["flags"])
    with closing(open_queue(config)) as queue:
        feeder = Feeder(queue, Path(told["objects"]), Path(told["manifests"]))
        faults = FAULTS if told["long"] else SHORT_FAULTS
        feeder.run(told, faults)


if __name__ == "__main__":
    main(sys.argv[1])

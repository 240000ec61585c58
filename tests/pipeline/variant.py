"""One way of working on a feed, as a real process: `python -m tests.pipeline.variant ARGUMENTS`.

The process's environment is a part of the variant. It prints one line when all is done.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FeedFaults
from tests.pipeline.scene import Pipeline
from tests.support.backends import Backend

if TYPE_CHECKING:
    from tallgrass.worker import Worker

#: Nothing here waits: an object that is not there would be looked for again and again.
CORPUS = Feed(28, 24, FeedFaults(overwritten=0.2, stale=0.1, zero_bytes=0.1))

#: Longer than any message is hidden that nobody holds any more.
HIDDEN_S = 400.0


def work(
    *, name: str, url: str, folder: str, order: int, batch: int, workers: int, processes: int
) -> None:
    """Send the messages of the corpus in an order, and let workers or processes drain them."""
    pipeline = Pipeline(Backend(name, url), Path(folder), batch=batch, max_receive_count=10)
    CORPUS.write(pipeline.objects)
    chance, bodies = random.Random(order), list(CORPUS.bodies())
    if order:
        chance.shuffle(bodies)
    pipeline.queue.send(bodies)
    if processes:
        _by_processes(pipeline, batch, processes)
        # A message that met its unit in another process's hands is hidden for a while. It must come
        # with what is tried again meanwhile: without a pause that ends in quarantine before.
        pipeline.clock.instant = datetime.now(UTC) + timedelta(seconds=HIDDEN_S)
    team = [pipeline.start(pipeline.register(f"team-{number}")) for number in range(workers)]
    _by_turns(pipeline, team, chance)
    pipeline.backend.close()


def _by_turns(pipeline: Pipeline, team: list[Worker], chance: random.Random) -> None:
    """Let workers take turns by chance until nothing is left that can be done."""
    for _ in range(1000):
        # What is handed back goes behind what nobody has seen yet, as in any queue.
        pipeline.clock.advance(0.001)
        worker = chance.choice(team)
        if worker.run_messages().is_empty and worker.run_due().is_empty:
            status = pipeline.queue.status()
            if not status.visible and not status.in_flight:
                return
            pipeline.clock.advance(HIDDEN_S)
    raise AssertionError("not drained")


def _by_processes(pipeline: Pipeline, batch: int, processes: int) -> None:
    """Let the shipped command work on all that it can take now."""
    flags = {
        "--processes": str(processes),
        "--batch": str(batch),
        "--store": pipeline.backend.url,
        "--queue": pipeline.config.text("queue.url"),
        "--objects": f"file:{pipeline.objects}",
    }
    words = [word for flag in flags.items() for word in flag]
    subprocess.run(
        [sys.executable, "-m", "tallgrass", "ingest", "--drain", *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main(arguments: dict[str, Any]) -> None:
    """Work and say so."""
    work(**arguments)
    print("done", flush=True)  # noqa: T201 - stdout is how a child talks


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

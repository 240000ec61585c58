"""How long a loop rests: longer the longer there is nothing to do, and not at all at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ingest_loop import Until
from tests.pipeline.scene import Pipeline, thing
from tests.pipeline.watched import Watched

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Half of 0.2 s, doubled up to half of 5 s: the draw is always in the middle.
GROWING = [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5, 2.5]


def test_rests_grow_to_their_cap_and_begin_anew_after_work(
    backend: Backend, tmp_path: Path
) -> None:
    """Eight idle rounds, then a message: the rests before and after it are the same row."""
    pipeline = Pipeline(backend, tmp_path)
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == len(GROWING):
            pipeline.feed(thing())

    loop = pipeline.loop(sleep=rest)
    report = loop.run(Until.STOPPED, stop=lambda: len(rests) >= 2 * len(GROWING))
    assert rests == pytest.approx(GROWING * 2)
    assert report.messages == 1
    assert pipeline.statuses() == {"succeeded": 1}


def test_a_round_that_took_its_time_is_part_of_the_rest(backend: Backend, tmp_path: Path) -> None:
    """A queue that waits for messages has rested for the loop: only what is left is slept."""
    pipeline = Pipeline(backend, tmp_path)
    now: list[float] = [0.0]
    rests: list[float] = []

    def wait(name: str) -> None:
        now[0] += 0.3 if name == "receive" else 0

    pipeline.worker = pipeline.start(pipeline.lease, queue=Watched(pipeline.queue, wait, "receive"))
    loop = pipeline.loop(sleep=rests.append, monotonic=lambda: now[0])
    loop.run(Until.STOPPED, stop=lambda: len(rests) >= 3)
    # The first two rests, of 0.1 and 0.2 s, were over before the queue answered.
    assert rests == pytest.approx([0.4 - 0.3, 0.8 - 0.3, 1.6 - 0.3])

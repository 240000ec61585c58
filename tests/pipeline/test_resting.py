"""How long a loop rests: longer the longer there is nothing to do, and not at all at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ingest_loop import Until
from tests.pipeline.scene import Pipeline, thing, things
from tests.pipeline.watched import Watched

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: As long as SQS waits for messages by default.
WAIT_S = 20.0
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


class WaitingQueue:
    """The pipeline's queue; one that is empty keeps whoever may wait, as SQS does."""

    def __init__(self, queue: Any, now: list[float]) -> None:
        self._queue = queue
        self._now = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def receive(self, limit: int, *, wait: bool = True) -> Any:
        """Take messages; wait for them in vain."""
        messages = self._queue.receive(limit, wait=wait)
        if wait and not messages:
            self._now[0] += WAIT_S
        return messages


@pytest.fixture
def waiting(backend: Backend, tmp_path: Path) -> tuple[Pipeline, list[float]]:
    """Six batches of parked units that are due, before a queue that waits; and the time."""
    pipeline = Pipeline(backend, tmp_path, batch=5)
    now = [0.0]
    pipeline.switch(is_on=True)
    pipeline.feed(*things(30))
    pipeline.drain()
    pipeline.switch(is_on=False)
    queue = WaitingQueue(pipeline.queue, now)
    pipeline.worker = pipeline.start(pipeline.lease, queue=queue)
    return pipeline, now


def test_due_units_do_not_wait_for_messages(waiting: tuple[Pipeline, list[float]]) -> None:
    """Six batches of due units take one wait of the queue before the first, and none between."""
    pipeline, now = waiting
    loop = pipeline.loop(monotonic=lambda: now[0])
    seen: list[float] = []

    def stop() -> bool:
        if pipeline.statuses().get("succeeded") == 30:
            seen.append(now[0])
        return bool(seen)

    loop.run(Until.STOPPED, stop)
    assert seen == [WAIT_S]


def test_messages_are_taken_between_batches_of_due_units(
    waiting: tuple[Pipeline, list[float]],
) -> None:
    """A backlog of due units keeps no message waiting for longer than a batch."""
    pipeline, now = waiting
    fresh = thing(90)
    loop = pipeline.loop(monotonic=lambda: now[0])
    rounds = 0

    def stop() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            pipeline.feed(fresh)
        return rounds == 4

    loop.run(Until.STOPPED, stop)
    assert pipeline.row(fresh)["status"] == "succeeded"
    assert pipeline.statuses()["pending"] == 30 - 3 * 5


def test_a_drain_ends_only_after_the_queue_was_waited_for(
    waiting: tuple[Pipeline, list[float]],
) -> None:
    """A look without waiting may miss messages of SQS: it does not end a drain."""
    pipeline, now = waiting
    loop = pipeline.loop(monotonic=lambda: now[0])
    report = loop.run(Until.DRAINED)
    assert report.by_verdict == {"succeeded": 30}
    # The first round and the last; six rounds between them had due units before.
    assert now == [2 * WAIT_S]
    assert report.rounds == 8

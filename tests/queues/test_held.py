"""Messages in hand stay hidden for as long as their units are worked on, and no longer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import (
    DatabaseFull,
    DatabaseUnreachable,
    DatabaseUnusable,
    QueueThrottled,
    QueueUnreachable,
    TallgrassError,
    WorkerFenced,
)
from tallgrass.heartbeat import Beside, Heartbeat
from tallgrass.queues.held import HeldMessages
from tests.queues.harness import VISIBILITY_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.queues.harness import Harness

LEASE_S = 30.0
TWELVE_HOURS_S = 43_200.0


class Asked:
    """A queue that notes what it is asked, and answers as told."""

    name = "nodd-primary"

    def __init__(self) -> None:
        self.changes: list[list[tuple[str, float]]] = []
        self.stale: list[str] = []
        self.error: Exception | None = None

    def change_visibility(self, changes: Sequence[tuple[str, float]]) -> Sequence[str]:
        """Note it."""
        if self.error is not None:
            raise self.error
        self.changes.append(list(changes))
        return self.stale


class Scene:
    """Held messages on a clock that moves when told."""

    def __init__(self, visibility_s: float = 100.0, lease_s: float = LEASE_S) -> None:
        self.now = 0.0
        self.queue = Asked()
        self.held = HeldMessages(
            visibility_s=visibility_s, lease_s=lease_s, monotonic=lambda: self.now
        )

    def beat_at(self, now: float) -> list[list[tuple[str, float]]]:
        """Extend at a time; return what was asked of the queue."""
        self.now = now
        self.queue.changes.clear()
        self.held.extend(self.queue)  # type: ignore[arg-type]
        return self.queue.changes


@pytest.mark.conformance("C-48")
def test_only_what_runs_short_is_hidden_again() -> None:
    """Within a lease of its end the whole batch is hidden anew; before that nobody is asked."""
    scene = Scene()
    scene.held.hold(["a", "b"], 0.0)
    assert scene.beat_at(69) == []
    assert scene.beat_at(71) == [[("a", 100.0), ("b", 100.0)]]
    assert scene.beat_at(140) == []
    assert scene.beat_at(142) == [[("a", 100.0), ("b", 100.0)]]


@pytest.mark.conformance("C-48")
def test_messages_are_hidden_for_a_lease_at_least() -> None:
    """Where the queue's own time is shorter than the lease, the lease counts."""
    scene = Scene(visibility_s=10.0, lease_s=60.0)
    scene.held.hold(["a"], 0.0)
    assert scene.beat_at(5) == [[("a", 60.0)]]


@pytest.mark.conformance("C-48")
def test_nothing_is_hidden_beyond_twelve_hours_from_its_receipt() -> None:
    """The last extension ends below the ceiling; after it the queue is asked no more."""
    scene = Scene()
    scene.held.hold(["a"], 0.0)
    hidden_until, now, asked = 100.0, 0.0, 0
    while now < TWELVE_HOURS_S + 500:
        now += 10
        for ((_, seconds),) in scene.beat_at(now):
            hidden_until = now + seconds
            asked += 1
            assert hidden_until <= TWELVE_HOURS_S
    assert asked > 400
    assert hidden_until == TWELVE_HOURS_S - 5
    assert scene.held.hideable_s() == 0.0


def test_an_acknowledgement_may_wish_for_no_more_than_is_left() -> None:
    """An hour after the receipt a message can be hidden for eleven more."""
    scene = Scene()
    scene.held.hold(["a"], 0.0)
    scene.now = 3600.0
    assert scene.held.hideable_s() == TWELVE_HOURS_S - 3600 - 5


@pytest.mark.conformance("C-48")
def test_what_was_released_is_not_hidden_again() -> None:
    """After a release a late beat changes nothing: the message may have been handed back."""
    scene = Scene()
    scene.held.hold(["a"], 0.0)
    scene.held.release()
    assert scene.beat_at(99) == []


def test_a_receipt_that_is_stale_is_let_go() -> None:
    """What is in other hands is not asked for again; the others are."""
    scene = Scene()
    scene.held.hold(["a", "b"], 0.0)
    scene.queue.stale = ["a"]
    assert scene.beat_at(80) == [[("a", 100.0), ("b", 100.0)]]
    assert scene.beat_at(160) == [[("b", 100.0)]]


def test_a_failed_extension_is_tried_at_the_next_beat() -> None:
    """A queue that throttles is asked again: the time is still short."""
    scene = Scene()
    scene.held.hold(["a"], 0.0)
    scene.queue.error = QueueThrottled("planned")
    with pytest.raises(QueueThrottled):
        scene.beat_at(80)
    scene.queue.error = None
    assert scene.beat_at(90) == [[("a", 100.0)]]


@pytest.mark.conformance("C-48")
@pytest.mark.parametrize("harness", ["embedded", "ministack"], indirect=True)
def test_a_long_batch_is_delivered_to_nobody_else(harness: Harness) -> None:
    """Beats keep a message hidden over many times its visibility; without them it comes again."""
    now = [0.0]
    held = HeldMessages(visibility_s=VISIBILITY_S, lease_s=LEASE_S, monotonic=lambda: now[0])
    beating, other = harness.consumer(), harness.consumer()

    def wait(seconds: float) -> None:
        now[0] += seconds
        harness.wait(seconds)

    harness.queue.send([b"one"])
    (message,) = harness.queue.receive(10)
    held.hold([message.receipt], now[0])
    for _ in range(20):
        wait(LEASE_S / 3)
        held.extend(beating)
        assert list(other.receive(10)) == []
    assert list(harness.queue.delete([message.receipt])) == []
    harness.queue.send([b"two"])
    (message,) = harness.queue.receive(10)
    held.hold([message.receipt], now[0])
    held.release()
    for _ in range(7):
        wait(LEASE_S / 3)
        held.extend(beating)
    assert [found.body for found in other.receive(10)] == [b"two"]


# --- the heartbeat --------------------------------------------------------------------------------


class Beats:
    """A heartbeat whose lease and queue answer as told."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.lease_error: Exception | None = None
        self.queue_error: Exception | None = None
        self.now = 0.0
        self.heartbeat = Heartbeat(
            lambda: self._do("lease", self.lease_error),
            extend=lambda: self._do("messages", self.queue_error),
            interval_s=LEASE_S / 3,
            deadline_s=100,
            monotonic=lambda: self.now,
        )

    def _do(self, what: str, error: Exception | None) -> None:
        if error is not None:
            raise error
        self.done.append(what)

    def beat(self) -> list[str]:
        """Beat once; return what was renewed."""
        self.done.clear()
        self.heartbeat.beat()
        return self.done


@pytest.mark.conformance("C-48")
def test_a_beat_renews_the_lease_and_then_the_messages() -> None:
    """Both are extended together."""
    assert Beats().beat() == ["lease", "messages"]


@pytest.mark.conformance("C-48")
def test_a_lost_lease_ends_the_extensions() -> None:
    """Whoever was fenced leaves the messages to others."""
    beats = Beats()
    beats.lease_error = WorkerFenced("planned")
    assert beats.beat() == []
    assert beats.heartbeat.lost.is_set()


@pytest.mark.conformance("C-48")
def test_a_hung_loop_keeps_no_message() -> None:
    """Without progress neither lease nor messages are extended."""
    beats = Beats()
    beats.now = 101.0
    assert beats.beat() == []


@pytest.mark.parametrize("error", [DatabaseUnreachable("planned"), DatabaseUnusable("planned")])
def test_a_beat_in_vain_is_not_the_last(error: TallgrassError) -> None:
    """Whatever the store answers, the next beat tries again; only a fence ends them."""
    beats = Beats()
    beats.lease_error = error
    assert beats.beat() == []
    beats.lease_error = None
    assert beats.beat() == ["lease", "messages"]
    assert not beats.heartbeat.lost.is_set()


def test_a_full_store_lets_no_message_go() -> None:
    """The lease cannot be renewed, and nobody else could record what is in hand."""
    beats = Beats()
    beats.lease_error = DatabaseFull("planned")
    assert beats.beat() == ["messages"]
    beats.lease_error = None
    assert beats.beat() == ["lease", "messages"]


def test_a_queue_that_is_down_does_not_end_the_lease() -> None:
    """A failed extension is left for the next beat; the lease is renewed all the same."""
    beats = Beats()
    beats.queue_error = QueueUnreachable("planned")
    assert beats.beat() == ["lease"]
    beats.queue_error = None
    assert beats.beat() == ["lease", "messages"]
    assert not beats.heartbeat.lost.is_set()


@pytest.mark.conformance("C-48")
def test_a_queue_that_hangs_does_not_hold_up_the_lease() -> None:
    """While an extension waits for its answer beats go on; only one extension is under way."""
    begun, answered = threading.Semaphore(0), threading.Event()
    renewed: list[int] = []

    def hang() -> None:
        begun.release()
        assert answered.wait(5)

    extend = Beside(hang)
    heartbeat = Heartbeat(
        lambda: renewed.append(1), extend=extend, interval_s=LEASE_S / 3, deadline_s=100
    )
    for _ in range(3):
        heartbeat.beat()
    assert len(renewed) == 3
    assert begun.acquire(timeout=30)
    assert not begun.acquire(blocking=False)
    answered.set()
    extend.close()

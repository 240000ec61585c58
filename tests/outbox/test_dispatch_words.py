"""What dispatchers add up, how they read a sink's answers, and when they leave a target alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest

from tallgrass.outbox.breaker import PAUSE_BASE_S, Admission, Breaker, is_down
from tallgrass.outbox.dispatch_loop import DispatchReport, DispatchUntil
from tallgrass.outbox.dispatch_rules import AttemptOutcome, Settled, Settlement, answers
from tallgrass.outbox.dispatcher import Batch
from tallgrass.sinks.protocol import Delivered, Undelivered

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
AWAY = Undelivered(code="sink_unreachable", message="no answer")


def settlement(number: int, outcome: AttemptOutcome, **more: Any) -> Settlement:
    """Return what became of an event."""
    event: Any = SimpleNamespace(outbox_id=f"event-{number}")
    return Settlement(event=event, outcome=outcome, **more)


def a_batch() -> Batch:
    """Return a batch with one settlement of each kind; one of them came too late."""
    return Batch(
        claimed_at=0.0,
        exhausted=[settlement(9, AttemptOutcome.FAILED)],
        settlements=[
            settlement(1, AttemptOutcome.DISPATCHED),
            settlement(2, AttemptOutcome.DISPATCHED, duplicate=True),
            settlement(3, AttemptOutcome.RELEASED, wait_s=0.0),
            settlement(4, AttemptOutcome.FAILED, wait_s=5.0),
            settlement(5, AttemptOutcome.FAILED),
            settlement(6, AttemptOutcome.DISPATCHED, duplicate=True),
        ],
        settled=Settled(at=NOON, lost=frozenset({"event-6"})),
    )


def test_each_settlement_is_counted_as_what_it_is() -> None:
    """What came too late is lost and nothing else; a failure for good is both."""
    report = DispatchReport()
    report.add(a_batch())
    counted = DispatchReport(
        batches=1, dispatched=2, failed=2, exhausted=2, released=1, lost=1, duplicates=1
    )
    assert report == counted
    report.merge(counted)
    assert report == DispatchReport(
        batches=2, dispatched=4, failed=4, exhausted=4, released=2, lost=2, duplicates=2
    )


def test_what_was_never_written_is_not_lost() -> None:
    """A batch without a result of its writing counts as it is."""
    batch = a_batch()
    batch.settled = None
    report = DispatchReport()
    report.add(batch)
    assert (report.lost, report.dispatched, report.duplicates) == (0, 3, 2)


def test_the_words_for_an_end_are_those_of_the_command() -> None:
    """They are told in JSON."""
    assert [each.value for each in DispatchUntil] == ["stopped", "once", "drained"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([Delivered()], "the sink answered 1 times for 2 events"),
        ([Delivered()] * 3, "the sink answered more than 2 times for 2 events"),
        (repeat(Delivered()), "the sink answered more than 2 times for 2 events"),
        (7, "the sink answered int, not a list"),
    ],
)
def test_answers_that_do_not_match_say_so(given: object, told: str) -> None:
    """Every event is undelivered then, and is tried again."""
    found = answers(2, given)
    assert [getattr(each, "message", None) for each in found] == [told, told]


@pytest.mark.parametrize(
    "wrong",
    [
        Undelivered(code=7, message="x"),  # type: ignore[arg-type]
        Undelivered(code="x", message=None),  # type: ignore[arg-type]
        Undelivered(code="x", message="x", permanent="yes"),  # type: ignore[arg-type]
        Undelivered(code="x", message="x", retry_after_s="soon"),  # type: ignore[arg-type]
        Delivered(duplicate=1),  # type: ignore[arg-type]
    ],
)
def test_an_answer_with_a_wrong_part_is_none(wrong: object) -> None:
    """Sinks are written by others: what a part is, is looked at."""
    [found] = answers(1, [wrong])
    assert isinstance(found, Undelivered)
    assert found.message.startswith("the sink gave no Delivered or Undelivered, but ")
    whole = Undelivered(code="x", message="x", permanent=True, retry_after_s=2)
    assert answers(2, [whole, Delivered()]) == [whole, Delivered()]


# --- a target that is down ------------------------------------------------------------------------


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def a_breaker(clock: Clock) -> Breaker:
    """Return a breaker that draws the shortest pause each time."""
    return Breaker(pause_s_max=60.0, probe_s_max=9.0, monotonic=clock, random=lambda: 0.0)


def test_a_target_that_judges_is_not_down() -> None:
    """A refusal for good is an answer, whatever its code; and no answer at all says nothing."""
    for_good = Undelivered(code=AWAY.code, message="never", permanent=True)
    assert is_down([AWAY, AWAY])
    assert not is_down([AWAY, for_good])
    assert not is_down([])


def test_a_pause_ends_with_the_first_success() -> None:
    """Also before its time is over: what another sent meanwhile arrived."""
    clock = Clock()
    breaker = a_breaker(clock)
    assert breaker.is_paused() is False
    assert breaker.learn([AWAY], probe=False).pause_s == PAUSE_BASE_S / 2
    assert breaker.is_paused() is True
    clock.now += 0.25
    assert breaker.learn([Delivered()], probe=False).closed_after_s == 0.25
    assert breaker.is_paused() is False
    assert breaker.admit() is Admission.ALL


def test_only_whoever_tries_may_end_a_pause_without_an_answer() -> None:
    """A batch of another in which nothing was sent changes nothing."""
    clock = Clock()
    breaker = a_breaker(clock)
    breaker.learn([AWAY], probe=False)
    breaker.learn([], probe=False)
    assert breaker.is_paused() is True
    breaker.learn([], probe=True)
    assert breaker.is_paused() is False


def test_a_wait_without_an_end_is_not_believed() -> None:
    """A target that asks for it is paused as one that asks for nothing; else the longest counts."""
    clock = Clock()
    endless = Undelivered(code=AWAY.code, message="", retry_after_s=math.inf)
    longer = Undelivered(code=AWAY.code, message="", retry_after_s=30.0)
    assert a_breaker(clock).learn([endless], probe=False).pause_s == PAUSE_BASE_S / 2
    assert a_breaker(clock).learn([endless, longer, AWAY], probe=False).pause_s == 30.0

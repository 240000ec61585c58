"""When a dispatcher's loop rests and for how long, and what it asks of the database meanwhile."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import CommitUnknown, DatabaseLocked, DatabaseUnreachable
from tallgrass.outbox.dispatch_loop import DispatchReport, DispatchUntil, Rest
from tallgrass.telemetry import names
from tests.support.events import down, event_id
from tests.support.shelf import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

#: More rests than any of these loops takes.
MANY = 40
NONE = Rest(s=0.0)
#: Between two looks at an outbox in which nothing is due.
A_SECOND = Rest(s=1.0, until_woken=True)
GONE = DatabaseUnreachable("gone")
#: Half of 0.2, 0.4, 0.8, 1.6, 3.2 and then always 5 seconds.
HALVES = [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]


def seconds(steps: Iterator[Rest]) -> list[float]:
    """Take a loop to its end; return how long it rested each time that it did."""
    return [rest.s for rest in islice(steps, MANY) if rest.s]


def test_a_batch_can_be_stopped_between_its_phases() -> None:
    """After the claim, and after the send; what is sent by then is not yet written."""
    scene = Scene(2)
    steps = scene.loop().steps(DispatchUntil.ONCE)
    assert next(steps) == NONE
    assert (scene.shelf.calls, scene.sink.sent) == (["claim"], [])
    assert next(steps) == NONE
    assert (scene.shelf.calls, scene.sink.sent) == (["claim"], [event_id(1), event_id(2)])
    assert list(islice(steps, MANY)) == []
    assert scene.shelf.calls == ["claim", "settle"]


def test_a_loop_with_work_does_not_rest() -> None:
    """One batch follows the other; with nothing left it ends, or looks once a second."""
    scene = Scene(4, batch_size=2)
    loop = scene.loop()
    assert list(islice(loop.steps(DispatchUntil.DRAINED), MANY)) == [NONE] * 4
    assert scene.shelf.calls == ["claim", "settle", "claim", "settle", "claim"]
    assert loop.report == DispatchReport(batches=2, dispatched=4)
    forever = loop.steps(DispatchUntil.STOPPED)
    assert list(islice(forever, 3)) == [A_SECOND] * 3
    assert scene.shelf.calls[5:] == ["claim", "is_due", "is_due"]


def test_a_loop_that_is_stopped_begins_no_round() -> None:
    """Not even the first."""
    scene = Scene(1)
    assert list(islice(scene.loop().steps(DispatchUntil.STOPPED, lambda: True), MANY)) == []
    assert scene.shelf.calls == []


def test_a_database_that_is_down_is_asked_ever_less_often() -> None:
    """Up to five seconds apart; each outage begins anew, and is told once for each reason."""
    scene = Scene(1)
    scene.fail("claim", *[GONE] * 6, DatabaseLocked("busy"))
    steps = scene.loop().steps(DispatchUntil.STOPPED)
    assert [next(steps).s for _ in range(7)] == HALVES
    # A claim that failed may have been written: before each further one it is given back.
    assert scene.shelf.calls == ["claim", *["abandon", "claim"] * 6]
    assert list(islice(steps, 3)) == [NONE, NONE, A_SECOND]
    scene.fail("is_due", DatabaseUnreachable("gone again"))
    assert next(steps) == Rest(s=0.1)
    assert scene.recorder.events == [
        (names.STORE_WAITED_FOR, {"error_code": code, "message": message})
        for code, message in (
            ("database_unreachable", "gone"),
            ("database_locked", "busy"),
            ("database_unreachable", "gone again"),
        )
    ]


def test_results_are_written_when_the_database_is_back() -> None:
    """However long that takes: nothing is sent a second time."""
    scene = Scene(1)
    scene.fail("settle", *[GONE] * 7)
    loop = scene.loop()
    assert seconds(loop.steps(DispatchUntil.DRAINED)) == HALVES
    assert scene.sink.sent == [event_id(1)]
    assert scene.shelf.calls == ["claim", *["settle"] * 8, "claim"]
    assert loop.report == DispatchReport(batches=1, dispatched=1)


def test_who_is_told_to_stop_tries_to_write_five_times() -> None:
    """Then the lease must do it."""
    scene = Scene(1)
    scene.fail("settle", *[GONE] * 50)
    stop: list[bool] = []
    loop = scene.loop()
    steps = loop.steps(DispatchUntil.STOPPED, lambda: bool(stop))
    assert list(islice(steps, 2)) == [NONE] * 2
    stop.append(True)
    # Four rests between five tries, and the one after a round that failed.
    assert seconds(steps) == [0.1, 0.2, 0.4, 0.8, 0.1]
    assert scene.shelf.calls == ["claim", *["settle"] * 5]
    assert loop.report == DispatchReport()


def test_a_claim_of_which_nothing_is_known_is_given_back_once() -> None:
    """What another takes meanwhile is not looked for again and again."""
    scene = Scene()
    steps = scene.loop().steps(DispatchUntil.STOPPED)
    assert next(steps) == A_SECOND
    scene.shelf.put(1)
    scene.fail("claim", CommitUnknown("broke during COMMIT"))
    assert next(steps) == Rest(s=0.1)
    scene.shelf.waiting.clear()
    assert list(islice(steps, 3)) == [A_SECOND] * 3
    assert scene.shelf.calls == ["claim", "is_due", "claim", "abandon", *["is_due"] * 3]


@pytest.mark.parametrize(
    ("takes_s", "rests"),
    [
        (0.0, [0.5]),
        (0.2, [0.3]),
        (0.5, []),  # the send itself took as long as five events may
        (9.0, []),
    ],
)
def test_a_rate_leaves_a_target_the_rest_of_its_time(takes_s: float, rests: list[float]) -> None:
    """Five events at ten a second are half a second, from the claim on."""
    scene = Scene(5, takes_s=takes_s)
    assert seconds(scene.loop(rate=10.0).steps(DispatchUntil.DRAINED)) == pytest.approx(rests)


def test_a_rate_does_not_count_what_was_not_sent() -> None:
    """Two of four events are given back, as a quarter of the lease is over after 20 seconds."""
    scene = Scene(4, batch_max=1, takes_s=10.0)
    # Two events at one in 20 seconds are 40, less the 20 that have passed.
    assert seconds(scene.loop(rate=0.05).steps(DispatchUntil.DRAINED)) == pytest.approx([20.0])
    assert scene.sink.sent == [event_id(1), event_id(2)]


def test_a_target_that_is_left_alone_costs_the_database_nothing() -> None:
    """No look and no claim while it is paused; then a look, and a claim of one event."""
    scene = Scene(2, watched=True)
    scene.sink.answers = [down(), down()]
    steps = scene.loop().steps(DispatchUntil.STOPPED)
    assert list(islice(steps, 5)) == [NONE, NONE, A_SECOND, A_SECOND, A_SECOND]
    assert scene.shelf.calls == ["claim", "settle"]
    assert scene.dispatcher.is_paused() is True
    scene.time.seconds += 0.5
    assert scene.dispatcher.is_paused() is False
    scene.shelf.put(3, 4)
    assert next(steps) == NONE
    assert scene.shelf.calls == ["claim", "settle", "is_due", "claim"]
    assert scene.shelf.limits == [100, 1]

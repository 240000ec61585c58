"""What a delivery makes of an event: retried inside its bounds, exhausted at its limit."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.outbox.dispatch_rules import (
    AttemptOutcome,
    ClaimedEvent,
    DispatchRules,
    answers,
    put_behind,
    release,
    settle,
    wait_s,
)
from tallgrass.outbox.event import OutboxEvent
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import RETRY_AFTER_S_MAX, Delivered, Undelivered

EVENT = OutboxEvent(
    outbox_id="00000000-0000-4000-8000-000000000001",
    subject="s",
    pipeline_id="p",
    event_name="made",
    dataset_id="d",
    version="1.0.0",
    idempotency_key="k",
    target="t",
    payload=b"{}",
    care_label="public",
    governance_ref=None,
    created_at=datetime(2026, 6, 1, tzinfo=UTC),
    attempt=1,
)
RULES = DispatchRules()
DOWN = Undelivered(code="sink_unreachable", message="connection refused")


def claimed(tries: int = 1) -> ClaimedEvent:
    """Return an event at its n-th try."""
    return ClaimedEvent(event=EVENT, tries=tries)


def test_a_delivered_event_is_dispatched() -> None:
    """Success has no wait and no error; whether the target had it before is kept."""
    done = settle(claimed(), Delivered(duplicate=True), RULES, Random(1).random)
    assert (done.outcome, done.wait_s, done.error_code) == (AttemptOutcome.DISPATCHED, None, None)
    assert (done.duplicate, done.exhausted) == (True, False)


@pytest.mark.conformance("OB-4.7")
def test_five_tries_are_the_default_and_the_limit_can_be_set() -> None:
    """Four failures are retried, the fifth is the last; with another limit, another one."""

    def exhausted(rules: DispatchRules) -> list[bool]:
        return [
            settle(claimed(tries), DOWN, rules, Random(1).random).exhausted for tries in range(1, 9)
        ]

    assert exhausted(RULES) == [False] * 4 + [True] * 4
    assert exhausted(DispatchRules(attempts_max=2)) == [False] + [True] * 7
    assert exhausted(DispatchRules(attempts_max=1)) == [True] * 8


@pytest.mark.conformance("C-30")
def test_what_is_permanent_is_exhausted_at_once() -> None:
    """Trying again cannot help, so it is not tried, whatever wait was asked for."""
    refused = Undelivered(code="sink_refused", message="422", permanent=True, retry_after_s=1.0)
    done = settle(claimed(), refused, RULES, Random(1).random)
    assert (done.outcome, done.wait_s, done.exhausted) == (AttemptOutcome.FAILED, None, True)
    assert (done.error_code, done.error) == ("sink_refused", "422")


@pytest.mark.conformance("OB-4.6", "C-18")
@given(
    tries=st.integers(1, 3000),
    draw=st.floats(0, 1, exclude_max=True),
    base_s=st.floats(0.001, 10),
    cap_s=st.floats(0.001, 60),
)
def test_every_wait_lies_inside_the_cap(
    tries: int, draw: float, base_s: float, cap_s: float
) -> None:
    """Between nothing and base x 2^(n-1), and never beyond the cap, however many failures."""
    rules = DispatchRules(backoff=Backoff(base_s=base_s, cap_s=cap_s))
    found = wait_s(tries, None, rules, lambda: draw)
    ceiling = cap_s if tries > 40 else min(cap_s, base_s * 2 ** (tries - 1))
    assert 0 <= found <= ceiling
    assert found == pytest.approx(draw * ceiling)


@pytest.mark.conformance("OB-4.6")
@pytest.mark.parametrize("asked", [None, 10.0])
def test_a_thousand_events_that_fail_together_do_not_come_back_together(
    asked: float | None,
) -> None:
    """They spread over the whole window, also if the target named one time for all of them."""
    random = Random(7)
    waits = [wait_s(4, asked, RULES, random.random) - (asked or 0.0) for _ in range(1000)]
    window = 4.0  # 0.5 s x 2^3
    assert min(waits) >= 0
    assert max(waits) < window
    tenths = [sum(n * 0.4 <= wait < (n + 1) * 0.4 for wait in waits) for n in range(10)]
    # 100 expected in each; fewer than 60 or more than 140 would be four deviations off.
    assert all(60 <= number <= 140 for number in tenths), tenths


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        (7.5, 7.5),
        (0.0, 0.0),
        (-3.0, 0.0),
        (math.nan, 0.0),
        (math.inf, 0.0),
        (1e9, RETRY_AFTER_S_MAX),
    ],
)
def test_a_target_can_ask_for_a_wait_but_not_for_nonsense(asked: float, least: float) -> None:
    """Its Retry-After is honoured up to an hour; what is no time counts as none."""
    found = wait_s(1, asked, RULES, lambda: 0.5)
    assert found == pytest.approx(least + 0.25)


def test_an_unknown_code_of_a_foreign_sink_is_a_sink_error() -> None:
    """Codes are a closed registry; the message still says what happened."""
    odd = Undelivered(code="my_own_code", message="odd")
    done = settle(claimed(), odd, RULES, Random(1).random)
    assert (done.error_code, done.error) == ("sink_error", "odd")


def test_what_is_given_back_is_due_at_once() -> None:
    """It was not sent and did not fail."""
    done = release(claimed(3))
    assert (done.outcome, done.wait_s, done.exhausted) == (AttemptOutcome.RELEASED, 0.0, False)


def test_answers_that_do_not_fit_are_no_answers() -> None:
    """One too few or too many: nobody knows which event each is of, so none is taken."""
    two = [Delivered(), Delivered(duplicate=True)]
    assert answers(2, two) == two
    for count in (1, 3):
        given_up = answers(count, two)
        assert [isinstance(one, Undelivered) for one in given_up] == [True] * count


def test_no_more_answers_are_taken_than_show_that_there_are_too_many() -> None:
    """A sink that answers without end is asked for one more than there are events."""
    given_by_sink = iter([Delivered()] * 9)
    assert all(isinstance(one, Undelivered) for one in answers(2, given_by_sink))
    assert len(list(given_by_sink)) == 9 - 3


def test_an_event_that_tried_a_target_in_vain_waits_for_its_next_try() -> None:
    """At least so long; one that waits longer is not hurried, one given up not called back."""
    waiting = settle(claimed(), DOWN, RULES, lambda: 0.5)
    assert waiting.wait_s == 0.25
    assert put_behind(waiting, 9.0) == waiting._replace(wait_s=9.0)
    assert put_behind(waiting, 0.1) == waiting
    given_up = settle(claimed(5), DOWN, RULES, lambda: 0.5)
    assert given_up.exhausted
    assert put_behind(given_up, 9.0) == given_up


def test_what_holds_where_nothing_is_set() -> None:
    """Five tries, waits of up to half a minute, a minute's lease; and the words of the table."""
    assert (RULES.attempts_max, RULES.lease_s) == (5, 60.0)
    assert RULES.backoff == Backoff(base_s=0.5, cap_s=30.0)
    words = ["dispatched", "failed", "lost", "released"]
    assert [each.value for each in AttemptOutcome] == words

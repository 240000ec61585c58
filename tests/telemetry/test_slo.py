"""Promises and error budgets, with expectations worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tallgrass.telemetry.slo import (
    DEAD_LETTERS,
    LATENCY,
    QUEUE_AGE,
    REPLAY_IDENTITY,
    SLOS,
    SloFacts,
    SloState,
    Zone,
    percentile,
    slo_states,
)


def test_the_promises_are_the_agreed_ones() -> None:
    """P90 of the queue below 90 s, of latency below 300 s, dead letters 0.05 %, replay 100 %."""
    assert [(one.name, float(one.objective), one.limit_s) for one in SLOS] == [
        ("queue_age", 0.9, 90.0),
        ("latency", 0.9, 300.0),
        ("dead_letters", 0.9995, None),
        ("replay_identity", 1.0, None),
    ]


@pytest.mark.parametrize(
    ("bad", "remaining", "zone"),
    [
        # Of 1,000 units 100 may be late.
        (0, 1.0, Zone.GREEN),
        (50, 0.5, Zone.GREEN),
        (51, 0.49, Zone.YELLOW),
        (80, 0.2, Zone.YELLOW),
        (81, 0.19, Zone.RED),
        (99, 0.01, Zone.RED),
        (100, 0.0, Zone.BLACK),
        (200, -1.0, Zone.BLACK),
    ],
)
def test_zones_begin_exactly_at_their_bounds(bad: int, remaining: float, zone: Zone) -> None:
    """Green from 50 %, yellow from 20 %, red above nothing, black at nothing."""
    state = SloState(slo=QUEUE_AGE, events=1000, bad=bad)
    assert (float(state.remaining), state.zone) == (remaining, zone)


def test_dead_letters_may_be_one_in_two_thousand() -> None:
    """Of 20,000 units 10 may die: 5 leave half of the budget, 10 nothing."""
    zones = [SloState(slo=DEAD_LETTERS, events=20_000, bad=bad).zone for bad in (5, 6, 9, 10)]
    assert zones == [Zone.GREEN, Zone.YELLOW, Zone.RED, Zone.BLACK]


def test_a_promise_without_a_budget_is_broken_by_the_first_mismatch() -> None:
    """One replay of a million that differs is one too many."""
    assert SloState(slo=REPLAY_IDENTITY, events=1_000_000, bad=0).zone is Zone.GREEN
    assert SloState(slo=REPLAY_IDENTITY, events=1_000_000, bad=1).zone is Zone.BLACK


def test_nothing_happened_spends_nothing() -> None:
    """A pipeline that had no units has its whole budget."""
    facts = SloFacts(waits_s=(), latencies_s=(), units=0, failed=0, replayed=0, mismatches=0)
    for state in slo_states(facts):
        assert (float(state.remaining), state.zone, state.p90_s) == (1.0, Zone.GREEN, None)


def test_a_time_at_the_limit_is_too_long() -> None:
    """The promise is "below": 90 s are bad, 89.9 s are good. Each limit is its own promise's."""
    facts = SloFacts(
        waits_s=[1.0] * 8 + [89.9, 90.0],
        latencies_s=[299.0, 300.0],
        units=10,
        failed=1,
        replayed=3,
        mismatches=2,
    )
    found = {state.slo.name: (state.events, state.bad) for state in slo_states(facts)}
    assert found == {
        "queue_age": (10, 1), "latency": (2, 1), "dead_letters": (10, 1), "replay_identity": (3, 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([7.0], 7.0), ([3.0, 1.0, 2.0], 3.0), (list(range(1, 11)), 9), (range(20), 17)],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], expected: object) -> None:
    """P90 is the smallest value that 90 % do not exceed; order does not matter."""
    assert percentile(list(values), Fraction(9, 10)) == expected


def test_latency_names_its_runbook() -> None:
    """Whoever sees a broken promise is led on."""
    assert LATENCY.runbook == "delayed-queue-runbook.md"

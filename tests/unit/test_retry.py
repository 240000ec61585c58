from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.retry import Backoff

DEFAULT = Backoff(base_s=5.0, cap_s=900.0)
draws = st.floats(0, 1, exclude_max=True)
seconds = st.floats(1e-3, 86_400)


@pytest.mark.parametrize(
    ("failures", "ceiling_s"),
    [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (8, 640), (9, 900), (10, 900), (2000, 900)],
)
def test_the_ceiling_doubles_up_to_the_cap(failures: int, ceiling_s: float) -> None:
    """The longest wait is the base, doubled with each failure, and never above the cap."""
    assert DEFAULT.ceiling_s(failures) == ceiling_s


@given(seconds, seconds, st.integers(-5, 10**9), draws)
def test_a_delay_lies_between_zero_and_the_cap(
    base_s: float, cap_s: float, failures: int, drawn: float
) -> None:
    """Whatever the number of failures and the draw, a wait is never negative nor above the cap."""
    backoff = Backoff(base_s=base_s, cap_s=cap_s)
    delay = backoff.delay_s(failures, lambda: drawn)
    assert 0 <= delay <= backoff.ceiling_s(failures) <= cap_s


@given(seconds, seconds, st.integers(1, 3000))
def test_the_ceiling_never_falls(base_s: float, cap_s: float, failures: int) -> None:
    """A further failure never shortens the longest wait, and no number of them overflows."""
    backoff = Backoff(base_s=base_s, cap_s=cap_s)
    assert backoff.ceiling_s(failures) <= backoff.ceiling_s(failures + 1)


def test_delays_are_spread_over_the_whole_range() -> None:
    """Full jitter: of many waits about as many fall into each tenth of the range."""
    draw = random.Random(20261115).random
    tenths = [0] * 10
    for _ in range(10_000):
        tenths[int(DEFAULT.delay_s(5, draw) / 80.0 * 10)] += 1
    assert all(850 < count < 1150 for count in tenths)


def test_the_first_wait_can_be_short_and_can_be_long() -> None:
    """The extremes of the draw give no wait at all and nearly the ceiling."""
    assert DEFAULT.delay_s(3, lambda: 0.0) == 0
    assert DEFAULT.delay_s(3, lambda: 0.999) == pytest.approx(19.98)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger.budget import after_a_hand_back, attempts_used, company_limit


@pytest.mark.parametrize(
    ("attempts", "budget_from", "used"), [(0, 0, 0), (3, 0, 3), (9, 9, 0), (12, 9, 3)]
)
def test_only_attempts_since_the_budgets_start_count(
    attempts: int, budget_from: int, used: int
) -> None:
    """Attempts up to `budget_from` do not count against the limit."""
    assert attempts_used(attempts, budget_from) == used


@pytest.mark.parametrize(("budget_from", "used"), [(0, 2), (2, 0)])
def test_a_hand_back_is_one_attempt_that_does_not_count(budget_from: int, used: int) -> None:
    """Of three attempts the last was given back: those before it count as they did."""
    assert attempts_used(2, budget_from) == used
    assert attempts_used(3, after_a_hand_back(budget_from)) == used


@pytest.mark.parametrize(
    ("expiries", "limit", "together"),
    [
        (0, 500, 500),
        (1, 500, 16),
        (1, 10, 10),
        (2, 500, 1),
        (2, 1, 1),
    ],
)
def test_a_unit_that_lost_its_worker_is_isolated(expiries: int, limit: int, together: int) -> None:
    """After one lost lease at most 16 are claimed together, after two the unit is alone."""
    assert company_limit(expiries, limit) == together


@given(st.integers(0, 1), st.integers(1, 10_000))
def test_more_lost_leases_never_mean_more_company(expiries: int, limit: int) -> None:
    """The batch is never larger than asked for, and shrinks with each lost lease."""
    now, after = (company_limit(count, limit) for count in (expiries, expiries + 1))
    assert 1 <= after <= now <= limit

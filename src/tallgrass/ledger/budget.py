"""How often a unit may be tried, and in what company."""

#: A unit that its worker was lost with, or that the store cut off, is next claimed among at most
#: this many.
SMALL_COMPANY = 16


def attempts_used(attempts: int, budget_from: int) -> int:
    """Return how many attempts count against the limit."""
    return attempts - budget_from


def after_a_hand_back(budget_from: int) -> int:
    """Return where the budget begins once an attempt was given back: one more does not count."""
    return budget_from + 1


def company_limit(company_class: int, limit: int) -> int:
    """Return how many units of one class of company are claimed together.

    The class is the number of attempts in a row that ended without a report, their lease lost or
    cut off by the store, and 2 for more: 0 any company, 1 small, 2 alone.
    """
    return (limit, min(limit, SMALL_COMPANY), min(limit, 1))[company_class]

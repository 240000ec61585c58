"""How often a unit may be tried, and in what company."""

#: A unit that may have killed its worker is next claimed among at most this many.
SMALL_COMPANY = 16


def attempts_used(attempts: int, budget_from: int) -> int:
    """Return how many attempts count against the limit."""
    return attempts - budget_from


def company(lease_expiries: int) -> int:
    """Return the class of company: 0 any, 1 small, 2 alone. Units of one class share a batch."""
    return min(lease_expiries, 2)


def company_limit(company_class: int, limit: int) -> int:
    """Return how many units of one class of company are claimed together."""
    return (limit, min(limit, SMALL_COMPANY), min(limit, 1))[company_class]

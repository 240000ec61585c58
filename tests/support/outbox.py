"""An outbox on a database of the test's, with short words to claim, settle and look."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.clock import parse_instant
from tallgrass.outbox.dispatch_rules import (
    AttemptOutcome,
    ClaimedEvent,
    Claims,
    DispatchRules,
    Settlement,
)
from tests.support.backends import Backend, ManualClock
from tests.support.events import CREATED_AT, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.bootstrap.stores import Stores

ONE, TWO = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
RULES = DispatchRules()
#: A database's time: SQLite's is the injected clock, PostgreSQL's its own.
LONG_AGO = "2000-01-01T00:00:00.000000Z"
#: How often an ordered claim is made anew, and how long after the last.
LOOKS, BETWEEN_LOOKS_S = 200, 0.05


class Outbox:
    """Stores over an outbox, with shorter words for the tests."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.clock = ManualClock(parse_instant(CREATED_AT) + timedelta(minutes=1))
        self.stores: Stores = backend.open(clock=self.clock)
        self.store = self.stores.outbox

    def claim(self, dispatcher: str = ONE, limit: int = 100, **options: Any) -> list[ClaimedEvent]:
        """Claim of the target `t`."""
        return list(self.claims(dispatcher, limit, **options).events)

    def claims(self, dispatcher: str = ONE, limit: int = 100, **options: Any) -> Claims:
        """Claim of the target `t`; return what was given up as well."""
        options = {"rules": RULES, **options}
        return self.store.claim("t", dispatcher=dispatcher, limit=limit, **options)

    def ordered(self, count: int = 1) -> list[ClaimedEvent]:
        """Claim in order until so many events have come, or far too often; sorted by id.

        On PostgreSQL a transaction of another database that ends during the look holds events
        back once more, and tests beside this one write in such databases all the time.
        """
        found: list[ClaimedEvent] = []
        for _ in range(LOOKS):
            found += self.claim(ordered=True)
            if len(found) >= count:
                break
            time.sleep(BETWEEN_LOOKS_S)
        return sorted(found, key=lambda one: one.event.outbox_id)

    def settle(self, claims: Sequence[ClaimedEvent], dispatcher: str = ONE, **how: Any) -> set[str]:
        """Settle all alike; return the lost."""
        values: dict[str, Any] = {"outcome": AttemptOutcome.DISPATCHED, **how}
        settlements = [Settlement(event=one.event, **values) for one in claims]
        return set(self.store.settle(dispatcher, settlements).lost)

    def fail(self, claims: Sequence[ClaimedEvent], wait_s: float | None, **how: Any) -> set[str]:
        """Settle all as failed."""
        values: dict[str, Any] = {"error_code": "sink_timeout", "error": "late", **how}
        return self.settle(claims, outcome=AttemptOutcome.FAILED, wait_s=wait_s, **values)

    def expire(self) -> None:
        """Let all leases and waits end."""
        self.backend.sql("UPDATE outbox_delivery SET due_at = ? WHERE due_at IS NOT NULL", LONG_AGO)

    def deliveries(self) -> list[tuple[Any, ...]]:
        """Return how each delivery stands, by raw SQL."""
        return self.backend.sql(
            "SELECT status, attempt, budget_from, due_at IS NOT NULL, claimed_by, error_code,"
            " last_error FROM outbox_delivery ORDER BY outbox_id"
        )

    def attempts(self) -> list[tuple[Any, ...]]:
        """Return all attempts that ended, by raw SQL."""
        return self.backend.sql(
            "SELECT attempt, dispatcher, outcome, error_code FROM outbox_attempts"
            " ORDER BY outbox_id, attempt"
        )


def ids(claims: Sequence[ClaimedEvent]) -> list[str]:
    """Return the ids of claimed events."""
    return [one.event.outbox_id for one in claims]


def exhaust(outbox: Outbox, *numbers: int, **changes: Any) -> None:
    """Write events and give each up at once."""
    code = changes.pop("code", "sink_refused")
    write(outbox.backend, *numbers, **changes)
    target = changes.get("target", "t")
    outbox.fail(
        outbox.store.claim(target, dispatcher=ONE, limit=100, rules=RULES).events,
        None,
        error_code=code,
    )

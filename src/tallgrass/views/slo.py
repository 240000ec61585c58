"""Promises and their error budgets, as documents."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tallgrass.telemetry.slo import SloState

#: Newest units of a dataset that times are judged by.
SAMPLE: Final = 10_000
SAMPLE_MAX: Final = 1_000_000


def slos_document(
    states: Sequence[SloState], *, judged_at: datetime, days: float
) -> dict[str, object]:
    """Return the state of all promises."""
    slos = [slo_document(one) for one in states]
    return {"judged_at": judged_at, "days": days, "slos": slos}


def slo_document(one: SloState) -> dict[str, object]:
    """Return the state of one promise."""
    return {
        "slo": one.slo.name,
        "promise": one.slo.promise,
        "objective": float(one.slo.objective),
        "limit_s": one.slo.limit_s,
        "events": one.events,
        "bad": one.bad,
        "p90_s": one.p90_s,
        "budget_remaining": float(one.remaining),
        "zone": one.zone.value,
        "runbook": one.slo.runbook,
    }

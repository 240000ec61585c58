"""Whether a dataset is as fresh as its cadence asks, and if not, whose fault that is. Pure.

Two things are looked at: what was announced, and what of it is in the catalog.

Nothing heard for too long has two causes. Where workers are there, nothing waits and nothing hangs,
the source is silent. Else we are stuck: the news may be here, and nobody has taken it up.
Where news come, but what is tried of them fails and the catalog stands still, we are failing.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

#: Sources are not exact: so many cadences may pass, and never less than some minutes.
_CADENCES: Final = 2
_PATIENCE_S_MIN: Final = 300.0
#: News of a dataset without a cadence count as new for so long.
_IRREGULAR_NEWS_S: Final = 86_400.0


class Freshness(StrEnum):
    """How a dataset is."""

    FRESH = "fresh"
    NOAA_SILENT = "noaa_silent"
    WE_ARE_STUCK = "we_are_stuck"
    FAILING = "failing"
    SWITCHED_OFF = "switched_off"
    #: It has no cadence to be judged by.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What holds for all datasets of a pipeline."""

    now: datetime
    live_workers: int
    #: Messages that wait.
    queue_depth: int
    #: None where nothing waits, or the queue does not tell.
    queue_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTimes:
    """When something last happened to a dataset."""

    #: None where objects come irregularly.
    cadence_s: float | None
    switched_off: bool
    #: When the newest object was announced that the ledger knows.
    heard_at: datetime | None
    #: When the newest object was announced that is in the catalog.
    done_at: datetime | None
    #: When the newest object was announced of those whose last attempt failed.
    failed_at: datetime | None
    #: Since when the oldest unit waits, or is in work; None where none does.
    pending_since: datetime | None
    in_progress_since: datetime | None


def patience_s(cadence_s: float) -> float:
    """Return how long nothing may happen before somebody should look."""
    return max(_CADENCES * cadence_s, _PATIENCE_S_MIN)


def judge(times: DatasetTimes, around: Surroundings) -> Freshness:
    """Say how a dataset is."""
    if times.switched_off:
        return Freshness.SWITCHED_OFF
    # Work that hangs is ours, whatever the cadence: those without one get the least patience.
    patience = patience_s(times.cadence_s or 0.0)
    if any(
        _longer_than(patience, since, around.now)
        for since in (times.pending_since, times.in_progress_since)
    ):
        return Freshness.WE_ARE_STUCK
    if _fails(times, around.now):
        return Freshness.FAILING
    if times.cadence_s is None or times.heard_at is None:
        return Freshness.UNKNOWN
    if not _longer_than(patience, times.heard_at, around.now):
        return Freshness.FRESH
    return Freshness.WE_ARE_STUCK if _news_may_wait(around) else Freshness.NOAA_SILENT


def _fails(times: DatasetTimes, now: datetime) -> bool:
    """Tell whether news that came lately failed, while the catalog stood still for too long."""
    failed, done, cadence = times.failed_at, times.done_at, times.cadence_s
    if failed is None:
        return False
    if cadence is None:
        # Nobody knows when the catalog should have moved, unless nothing was ever in it.
        return done is None and not _longer_than(_IRREGULAR_NEWS_S, failed, now)
    patience = patience_s(cadence)
    if _longer_than(patience, failed, now):
        return False
    return done is None or _longer_than(patience, done, now)


def _news_may_wait(around: Surroundings) -> bool:
    if around.live_workers == 0:
        return True
    if around.queue_depth == 0:
        return False
    # A queue that does not tell its age, and is not empty, may hold what we miss.
    since = around.queue_since
    return since is None or _longer_than(_PATIENCE_S_MIN, since, around.now)


def _longer_than(seconds: float, since: datetime | None, now: datetime) -> bool:
    return since is not None and (now - since).total_seconds() > seconds

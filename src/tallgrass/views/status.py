"""The whole pipeline at one moment, as one document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tallgrass.clock import age_s
from tallgrass.ledger.vocabulary import Status
from tallgrass.telemetry.freshness import Freshness

if TYPE_CHECKING:
    from datetime import datetime

    from tallgrass.bootstrap.views import LedgerStats, ProjectionLag
    from tallgrass.governance.switches import KillSwitch
    from tallgrass.intake.poison import PoisonState
    from tallgrass.inventory.retention import DiskForecast
    from tallgrass.outbox.deliveries import TargetCounts
    from tallgrass.queues.protocol import QueueStatus
    from tallgrass.telemetry.gauges import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What `tallgrass status` and the overview page show."""

    stats: LedgerStats
    #: Due units whose dataset is switched off.
    parked: int
    queue_name: str
    #: None if the queue was never made.
    queue: QueueStatus | None
    #: Those that are on, and so stop work.
    switches: list[KillSwitch]
    poison: dict[PoisonState, int]
    #: By target; one that has everything is left out.
    undelivered: dict[str, TargetCounts]
    #: None where the catalog is not copied to pgstac.
    projection: ProjectionLag | None
    disk: DiskForecast
    #: What stands still.
    health: Health
    now: datetime

    @property
    def by_status(self) -> dict[str, int]:
        """How many units there are in each status."""
        return {
            status.value: sum(c.get(status.value, 0) for c in self.stats.by_dataset.values())
            for status in Status
        }


def status_document(found: Overview) -> dict[str, object]:
    """Return everything that `tallgrass status` tells."""
    stats, queue = found.stats, found.queue
    return {
        "units": sum(found.by_status.values()),
        "by_status": found.by_status,
        "by_dataset": stats.by_dataset,
        "stale": sum(stats.stale.values()),
        "parked": found.parked,
        "due": stats.due,
        "oldest_due_at": stats.oldest_due_at,
        "due_lag_s": age_s(stats.oldest_due_at, found.now),
        "live_workers": stats.live_workers,
        "lapsed_workers": found.health.lapsed_workers,
        "fenced_workers": found.health.fenced_workers,
        "near_limit": sum(one.near_limit for one in found.health.datasets.values()),
        "freshness": found.health.freshness(),
        "queue": None
        if queue is None
        else {
            "name": found.queue_name,
            "visible": queue.visible,
            "in_flight": queue.in_flight,
            "dead": queue.dead,
            "oldest_sent_at": queue.oldest_sent_at,
            "message_lag_s": age_s(queue.oldest_sent_at, found.now),
        },
        "poison": found.poison,
        "outbox": _outbox(found),
        "projection": _projection(found.projection, found.now),
        "disk": {**asdict(found.disk), "days_left": found.disk.days_left},
        "switches": found.switches,
    }


def not_fresh(found: Overview) -> dict[str, list[str]]:
    """Return the datasets that somebody should look at, by their state."""
    return {
        state.value: names
        for state in (Freshness.WE_ARE_STUCK, Freshness.FAILING, Freshness.NOAA_SILENT)
        if (names := [name for name, how in found.health.freshness().items() if how is state])
    }


def oldest_event(counts: dict[str, TargetCounts]) -> datetime | None:
    """Return when the oldest event was made that is not delivered."""
    return min((one.oldest_at for one in counts.values() if one.oldest_at), default=None)


def _projection(lag: ProjectionLag | None, now: datetime) -> dict[str, object] | None:
    if lag is None:
        return None
    return {**asdict(lag), "lag_s": age_s(lag.oldest_changed_at, now)}


def _outbox(found: Overview) -> dict[str, object]:
    counts = list(found.undelivered.values())
    return {
        "pending": sum(one.pending for one in counts),
        "in_flight": sum(one.in_flight for one in counts),
        "retrying": sum(one.retrying for one in counts),
        "exhausted": sum(one.exhausted for one in counts),
        "oldest_s": age_s(oldest_event(found.undelivered), found.now),
    }

"""The health of the pipeline, read from database and queue without writing."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.governance.switches import KillSwitch, SwitchedOff, SwitchScope
from tallgrass.intake.poison import PoisonState
from tallgrass.outbox.deliveries import TargetCounts
from tallgrass.queues.protocol import QueueStatus
from tallgrass.storage.catalog_reader import ProjectionLag
from tallgrass.storage.health_reader import DatasetStand, HealthReader, Taken, Window
from tallgrass.storage.ledger_reader import LedgerStats
from tallgrass.telemetry.freshness import DatasetTimes
from tallgrass.telemetry.gauges import (
    DatasetHealth,
    Health,
    ProjectionHealth,
    QueueHealth,
    TargetHealth,
    report_health,
)
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.slo import LATENCY, WINDOW_DAYS, SloFacts, SloState, slo_states

#: Newest units that a gauge is made of, of a dataset and of all: read every few seconds.
_GAUGE_SAMPLE = 500
_GAUGE_MOST = 10_000
#: Of datasets with this priority, latency is promised.
_PROMISED = "high"


def health_report(config: Config, recorder: Recorder) -> Callable[[], None]:
    """Return what reads the pipeline's health and reports it; each call opens its connections.

    It raises what the database or the queue do; whoever calls it goes on, and tries again.
    """
    catalogue = open_catalogue(config)

    def report() -> None:
        if recorder.enabled:
            with closing(open_current_stores(config, read_only=True)) as stores:
                report_health(recorder, read_health(config, stores, catalogue))

    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What health and overview both tell of, read once."""

    stats: LedgerStats
    #: Units that are due, by dataset, switched off or not.
    due: Mapping[str, int]
    off: SwitchedOff
    switches: list[KillSwitch]
    queue: QueueStatus | None
    poison: dict[PoisonState, int]
    undelivered: dict[str, TargetCounts]
    projection: ProjectionLag | None

    @property
    def parked(self) -> int:
        """How many due units wait for a switch."""
        return sum(number for dataset, number in self.due.items() if self.off.stops(dataset))


def read_readings(config: Config, stores: Stores) -> Readings:
    """Look at ledger, queue, outbox and switches."""
    return Readings(
        stats=stores.reader.stats(),
        due=stores.reader.due_by_dataset(),
        off=stores.switches.switched_off(SwitchScope.INGEST),
        switches=[switch for switch in stores.switches.switches() if switch.is_on],
        queue=read_queue_status(config),
        poison=stores.poison.counts(),
        undelivered=stores.deliveries.counts(),
        projection=stores.catalog.projection_lag(),
    )


def read_health(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    *,
    clock: Clock = system_clock,
    readings: Readings | None = None,
) -> Health:
    """Look at everything that may stand still; `readings` where they were just read."""
    read = read_readings(config, stores) if readings is None else readings
    reader = HealthReader(stores.database)
    stands = reader.datasets(config.rules.max_attempts_of)
    lost = reader.lost_workers()
    switches = Counter(one.scope.value for one in read.switches)
    now = clock()
    return Health(
        now=now,
        queue=_queue(config.text("queue.name"), read.queue, reader),
        datasets=_datasets(catalogue, read.stats, stands, read.off),
        due=read.stats.due,
        due_since=read.stats.oldest_due_at,
        parked=read.parked,
        live_workers=read.stats.live_workers,
        lapsed_workers=lost.lapsed,
        fenced_workers=lost.fenced,
        poison_open=read.poison[PoisonState.OPEN],
        switches={scope.value: switches[scope.value] for scope in SwitchScope},
        targets=_targets(read.undelivered),
        projection=_projection(read.projection),
        slos=read_slos(stores, catalogue, now=now, sample=_GAUGE_SAMPLE, most=_GAUGE_MOST),
    )


def read_slos(
    stores: Stores,
    catalogue: Catalogue,
    *,
    now: datetime,
    sample: int,
    window_days: float = WINDOW_DAYS,
    most: int | None = None,
) -> tuple[SloState, ...]:
    """Judge the promises by the units whose data time lies in the window.

    Durations are taken from `sample` units of each dataset, and from at most `most` in all, where
    that is given.
    """
    since = now - timedelta(days=window_days)
    window = HealthReader(stores.database).window(since, sample, most)
    promised = {each.id for each in catalogue.datasets if each.priority == _PROMISED}
    return slo_states(slo_facts(window, promised, now))


def slo_facts(window: Window, promised: set[str], now: datetime) -> SloFacts:
    """Return the facts of a window that the promises are judged by; no duration is below zero."""
    latencies_s = (
        _latency_s(one, now)
        for dataset, units in window.taken.items()
        if dataset in promised
        for one in units
    )
    return SloFacts(
        waits_s=[
            max(0.0, (one.claimed_at - one.event_time).total_seconds())
            for units in window.taken.values()
            for one in units
        ],
        latencies_s=[each for each in latencies_s if each is not None],
        units=window.units,
        failed=window.failed,
        replayed=window.replayed,
        mismatches=window.mismatches,
    )


def _latency_s(one: Taken, now: datetime) -> float | None:
    """Return how long a unit took into the catalog; None while it may still be in time.

    One that is not there when its time is over is too late, however it ends.
    """
    if one.done_at is not None:
        return max(0.0, (one.done_at - one.event_time).total_seconds())
    is_late = LATENCY.is_bad((now - one.event_time).total_seconds())
    return math.inf if is_late else None


def _queue(name: str, status: QueueStatus | None, reader: HealthReader) -> QueueHealth | None:
    if status is None:
        return None
    dead_since = status.oldest_dead_at
    if dead_since is None and status.dead != 0:
        dead_since = reader.dead_since()
    return QueueHealth(
        name=name,
        depth=status.visible,
        in_flight=status.in_flight,
        since=status.oldest_sent_at,
        dead=status.dead,
        dead_since=dead_since,
    )


def _datasets(
    catalogue: Catalogue, stats: LedgerStats, stands: Mapping[str, DatasetStand], off: SwitchedOff
) -> dict[str, DatasetHealth]:
    known = {each.id: each for each in catalogue.datasets}
    found = {}
    for name, stand in stands.items():
        # A ledger may hold a dataset whose file is gone: it is shown, and has no cadence.
        dataset = known.get(name)
        found[name] = DatasetHealth(
            provider="unknown" if dataset is None else dataset.provider,
            by_status=stats.by_dataset.get(name, {}),
            stale=stats.stale.get(name, 0),
            near_limit=stand.near_limit,
            times=DatasetTimes(
                cadence_s=None if dataset is None else dataset.cadence_s,
                switched_off=off.stops(name),
                heard_at=stand.heard_at,
                done_at=stand.done_at,
                failed_at=stand.failed_at,
                pending_since=stand.pending_since,
                in_progress_since=stand.in_progress_since,
            ),
            data_until=stand.data_until,
        )
    return found


def _targets(counts: Mapping[str, TargetCounts]) -> dict[str, TargetHealth]:
    return {
        name: TargetHealth(
            undelivered=one.undelivered, exhausted=one.exhausted, since=one.oldest_at
        )
        for name, one in counts.items()
    }


def _projection(lag: ProjectionLag | None) -> ProjectionHealth | None:
    if lag is None:
        return None
    return ProjectionHealth(waiting=lag.items, since=lag.oldest_changed_at)

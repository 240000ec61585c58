"""What the gauges say, from what was read of ledger, queue, outbox and copy. Pure.

Each reading holds all series of its gauge: one that is not there has ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tallgrass.telemetry import names
from tallgrass.telemetry.freshness import DatasetTimes, Freshness, Surroundings, judge
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.slo import SloState, Zone

#: Label values in the metric's order → where it stands.
Series = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The queue; parts that it does not tell are None."""

    name: str
    depth: int
    in_flight: int
    since: datetime | None
    dead: int | None
    #: Where the queue does not tell it: since the last attempt of the oldest unit that failed.
    dead_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHealth:
    """Where the events of a target stand."""

    undelivered: int
    exhausted: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionHealth:
    """How far the copy in pgstac is behind."""

    waiting: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetHealth:
    """Where the units of a dataset stand."""

    provider: str
    by_status: Mapping[str, int]
    stale: int
    near_limit: int
    times: DatasetTimes
    #: When the newest data of the catalog end.
    data_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The whole pipeline at one moment."""

    now: datetime
    #: None if the queue was never made.
    queue: QueueHealth | None
    datasets: Mapping[str, DatasetHealth]
    due: int
    due_since: datetime | None
    parked: int
    live_workers: int
    lapsed_workers: int
    fenced_workers: int
    poison_open: int
    #: Scope → switches that are on.
    switches: Mapping[str, int]
    targets: Mapping[str, TargetHealth]
    #: None where the catalog is not copied.
    projection: ProjectionHealth | None
    slos: Sequence[SloState]

    @property
    def surroundings(self) -> Surroundings:
        """What the freshness of a dataset is judged by, beside its own times."""
        queue = self.queue
        return Surroundings(
            now=self.now,
            live_workers=self.live_workers,
            queue_depth=0 if queue is None else queue.depth,
            queue_since=None if queue is None else queue.since,
        )

    def freshness(self) -> dict[str, Freshness]:
        """Return how each dataset is."""
        around = self.surroundings
        return {name: judge(each.times, around) for name, each in self.datasets.items()}


def report_health(recorder: Recorder, health: Health) -> None:
    """Report every gauge."""
    for name, series in gauge_readings(health).items():
        recorder.gauge(name, series)


def gauge_readings(health: Health) -> dict[str, Series]:
    """Return every gauge of the table with all its series."""
    return {
        **_of_queue(health),
        **_of_units(health),
        **_of_work(health),
        **_of_outlets(health),
        **_of_freshness(health),
        **_of_budgets(health.slos),
    }


def _of_queue(health: Health) -> dict[str, Series]:
    queue, now = health.queue, health.now
    if queue is None:
        queued = (names.QUEUE_DEPTH, names.QUEUE_IN_FLIGHT, names.QUEUE_OLDEST)
        return {name: {} for name in (*queued, names.DLQ_DEPTH, names.DLQ_OLDEST)}
    key = (queue.name,)
    return {
        names.QUEUE_DEPTH: {key: float(queue.depth)},
        names.QUEUE_IN_FLIGHT: {key: float(queue.in_flight)},
        names.QUEUE_OLDEST: _ages([(key, queue.since)], now),
        names.DLQ_DEPTH: {} if queue.dead is None else {key: float(queue.dead)},
        names.DLQ_OLDEST: _ages([(key, queue.dead_since)], now),
    }


def _of_units(health: Health) -> dict[str, Series]:
    each, now = health.datasets.items(), health.now
    waiting = [
        ((name,), None if one.times.switched_off else one.times.pending_since) for name, one in each
    ]
    return {
        names.UNITS: {
            (name, status): float(number)
            for name, one in each
            for status, number in one.by_status.items()
        },
        names.STALE_UNITS: {(name,): float(one.stale) for name, one in each},
        names.NEAR_LIMIT_UNITS: {(name,): float(one.near_limit) for name, one in each},
        names.PENDING_OLDEST: _ages(waiting, now),
        names.IN_PROGRESS_OLDEST: _ages(
            [((name,), one.times.in_progress_since) for name, one in each], now
        ),
    }


def _of_work(health: Health) -> dict[str, Series]:
    return {
        names.DUE_UNITS: {(): float(health.due)},
        names.DUE_OLDEST: _ages([((), health.due_since)], health.now),
        names.PARKED_UNITS: {(): float(health.parked)},
        names.LIVE_WORKERS: {(): float(health.live_workers)},
        names.LAPSED_WORKERS: {(): float(health.lapsed_workers)},
        names.FENCED_WORKERS: {(): float(health.fenced_workers)},
        names.POISON_OPEN: {(): float(health.poison_open)},
        names.SWITCHES_ON: {(scope,): float(number) for scope, number in health.switches.items()},
    }


def _of_outlets(health: Health) -> dict[str, Series]:
    targets, copy = health.targets.items(), health.projection
    copied: list[tuple[tuple[str, ...], datetime | None]] = (
        [] if copy is None else [((), copy.since)]
    )
    return {
        names.OUTBOX_UNDELIVERED: {(name,): float(one.undelivered) for name, one in targets},
        names.OUTBOX_EXHAUSTED: {(name,): float(one.exhausted) for name, one in targets},
        names.OUTBOX_OLDEST: _ages([((name,), one.since) for name, one in targets], health.now),
        names.PROJECTION_CHANGES: {} if copy is None else {(): float(copy.waiting)},
        names.PROJECTION_LAG: _ages(copied, health.now),
    }


def _of_freshness(health: Health) -> dict[str, Series]:
    each, now = health.datasets.items(), health.now
    return {
        names.FRESHNESS: _ages([((name,), one.times.done_at) for name, one in each], now),
        names.FRESHNESS_STATE: {
            (name, state.value): float(state is found)
            for name, found in health.freshness().items()
            for state in Freshness
        },
        names.WATERMARK_LAG: _ages(
            [((name, one.provider), one.data_until) for name, one in each], now
        ),
    }


def _of_budgets(slos: Sequence[SloState]) -> dict[str, Series]:
    return {
        names.BUDGET_REMAINING: {(one.slo.name,): float(one.remaining) for one in slos},
        names.BUDGET_ZONE: {
            (one.slo.name, zone.value): float(one.zone is zone) for one in slos for zone in Zone
        },
    }


def _ages(
    since: Sequence[tuple[tuple[str, ...], datetime | None]], now: datetime
) -> dict[tuple[str, ...], float]:
    """Return the seconds since then; clocks differ a little, so never below zero."""
    return dict(_aged(since, now))


def _aged(
    since: Sequence[tuple[tuple[str, ...], datetime | None]], now: datetime
) -> Iterator[tuple[tuple[str, ...], float]]:
    for labels, instant in since:
        if instant is not None:
            yield labels, max(0.0, (now - instant).total_seconds())

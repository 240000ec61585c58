"""Every gauge: where something stands now, read from the ledger and the queue.

A counter tells what happened while somebody counted. A backlog is found by what stands still, so
these are read from the tables themselves, and are right after a restart too.
"""

from typing import Final

from tallgrass.telemetry.declarations import Metric, MetricKind

QUEUE_DEPTH: Final = "nodd_sns.queue_depth"
QUEUE_IN_FLIGHT: Final = "nodd_sns.queue_in_flight"
QUEUE_OLDEST: Final = "nodd_sns.queue_oldest_seconds"
DLQ_DEPTH: Final = "nodd_sns.dlq_depth"
DLQ_OLDEST: Final = "nodd_sns.dlq_oldest_seconds"
POISON_OPEN: Final = "nodd_sns.poison_open"
UNITS: Final = "nodd_sns.wal_units"
PENDING_OLDEST: Final = "nodd_sns.pending_oldest_seconds"
IN_PROGRESS_OLDEST: Final = "nodd_sns.in_progress_oldest_seconds"
DUE_UNITS: Final = "nodd_sns.due_units"
DUE_OLDEST: Final = "nodd_sns.due_oldest_seconds"
PARKED_UNITS: Final = "nodd_sns.parked_units"
STALE_UNITS: Final = "nodd_sns.stale_units"
NEAR_LIMIT_UNITS: Final = "nodd_sns.near_limit_units"
LIVE_WORKERS: Final = "nodd_sns.live_workers"
LAPSED_WORKERS: Final = "nodd_sns.lapsed_workers"
FENCED_WORKERS: Final = "nodd_sns.fenced_workers"
SWITCHES_ON: Final = "nodd_sns.switches_on"
OUTBOX_UNDELIVERED: Final = "nodd_sns.outbox_undelivered"
OUTBOX_EXHAUSTED: Final = "nodd_sns.outbox_exhausted"
OUTBOX_OLDEST: Final = "nodd_sns.outbox_oldest_seconds"
PROJECTION_CHANGES: Final = "nodd_sns.projection_changes"
PROJECTION_LAG: Final = "nodd_sns.projection_lag_seconds"
FRESHNESS: Final = "nodd_sns.freshness_seconds"
FRESHNESS_STATE: Final = "nodd_sns.freshness_state"
WATERMARK_LAG: Final = "nodd_sns.watermark_lag_seconds"
BUDGET_REMAINING: Final = "nodd_sns.error_budget_remaining"
HEALTH_READABLE: Final = "nodd_sns.health_readable"
BUDGET_ZONE: Final = "nodd_sns.error_budget_zone"


def _gauge(name: str, labels: tuple[str, ...], meaning: str) -> Metric:
    return Metric(
        name=name,
        kind=MetricKind.GAUGE,
        labels=labels,
        has_env=True,
        unit="s" if name.endswith("_seconds") else "1",
        meaning=meaning,
    )


GAUGES: Final = (
    _gauge(
        HEALTH_READABLE,
        (),
        "1 if ledger and queue could be read, else 0, and then no other gauge is there",
    ),
    _gauge(QUEUE_DEPTH, ("queue",), "messages that wait in the queue"),
    _gauge(QUEUE_IN_FLIGHT, ("queue",), "messages that a worker has in hand"),
    _gauge(
        QUEUE_OLDEST,
        ("queue",),
        "age of the oldest message; absent where nothing waits or the queue does not tell",
    ),
    _gauge(DLQ_DEPTH, ("queue",), "dead letters; absent where the queue does not let us look"),
    _gauge(
        DLQ_OLDEST,
        ("queue",),
        "time since the oldest dead letter died; on SQS, which does not tell, since the last"
        " attempt of the unit that stands failed for longest with a message; absent where there is"
        " none",
    ),
    _gauge(POISON_OPEN, (), "messages in the poison store that wait for a person"),
    _gauge(UNITS, ("dataset", "status"), "units that stand in a status now"),
    _gauge(
        PENDING_OLDEST,
        ("dataset",),
        "how long the oldest pending unit has been so; absent where the dataset is switched off",
    ),
    _gauge(
        IN_PROGRESS_OLDEST, ("dataset",), "how long the unit that is longest in work has been so"
    ),
    _gauge(DUE_UNITS, (), "units whose time has come"),
    _gauge(DUE_OLDEST, (), "how long the first of them has been due"),
    _gauge(PARKED_UNITS, (), "due units whose dataset is switched off"),
    _gauge(STALE_UNITS, ("dataset",), "items that are older than their object: a re-run failed"),
    _gauge(
        NEAR_LIMIT_UNITS,
        ("dataset",),
        "unfinished units with at most two attempts left before quarantine",
    ),
    _gauge(LIVE_WORKERS, (), "workers whose lease runs"),
    _gauge(LAPSED_WORKERS, (), "workers whose lease has ended, and nobody has taken over"),
    _gauge(FENCED_WORKERS, (), "workers that were shut out within the last hour"),
    _gauge(SWITCHES_ON, ("scope",), "kill switches that are on"),
    _gauge(OUTBOX_UNDELIVERED, ("target",), "events that a target has not got"),
    _gauge(OUTBOX_EXHAUSTED, ("target",), "those of them that nobody tries again"),
    _gauge(OUTBOX_OLDEST, ("target",), "age of the oldest event that a target has not got"),
    _gauge(PROJECTION_CHANGES, (), "items that wait for the copy in pgstac"),
    _gauge(PROJECTION_LAG, (), "age of the oldest change that is not in the copy"),
    _gauge(FRESHNESS, ("dataset",), "time since the newest object in the catalog was announced"),
    _gauge(
        FRESHNESS_STATE,
        ("dataset", "state"),
        "1 for the state the dataset is in: `fresh`, `noaa_silent`, `we_are_stuck`, `failing`,"
        " `switched_off` or `unknown`; 0 for the others",
    ),
    _gauge(
        WATERMARK_LAG,
        ("dataset", "partition"),
        "time since the end of the newest data in the catalog; the partition is the provider",
    ),
    _gauge(
        BUDGET_REMAINING,
        ("slo",),
        "share of the error budget that is left; below 0 where more failed than was allowed",
    ),
    _gauge(
        BUDGET_ZONE,
        ("slo", "zone"),
        "1 for the zone the budget is in: `green`, `yellow`, `red` or `black`; 0 for the others",
    ),
)

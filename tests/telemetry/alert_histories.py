"""For each alert a simulated history that must fire it, and one, as near as may be, that must not.

Series are in promtool's notation: `0+10x60` begins with 0 and grows by 10 in each of 60 intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Series = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened, when it is looked at, and which label sets are alarmed about then."""

    series: Series
    at: str
    fires: tuple[Mapping[str, str], ...] = ()
    interval: str = "1m"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An alert at work, and at rest."""

    loud: History
    #: Further ways to fire it.
    also: tuple[History, ...] = ()
    quiet: tuple[History, ...] = field(default_factory=tuple)


Q = {"queue": "nodd", "env": "prod"}
D = {"dataset": "hrrr", "env": "prod"}
T = {"target": "hook", "env": "prod"}
E = {"env": "prod"}


def series(name: str, labels: Mapping[str, str], **more: str) -> str:
    """Write a series as PromQL does."""
    inside = ",".join(f'{key}="{value}"' for key, value in {**labels, **more}.items())
    return f"{name}{{{inside}}}"


def spread(name: str, labels: Mapping[str, str], **buckets: str) -> dict[str, str]:
    """Write the buckets of a histogram; `le_90` holds what took up to 90 s, `inf` everything."""
    found = {}
    for bound, values in buckets.items():
        le = "+Inf" if bound == "inf" else bound.removeprefix("le_")
        found[series(f"{name}_bucket", labels, le=le)] = values
    return found


def level(name: str, labels: Mapping[str, str], bad: float, good: float, minutes: int) -> Case:
    """Return a gauge that stands too high for long enough, one just below, one not long enough."""
    whole = series(name, labels)
    long = minutes + 2
    shown = {key: value for key, value in labels.items() if key != "state"}
    quiet = [History(series={whole: f"{good}x{long}"}, at=f"{long}m")]
    if minutes:
        short = {whole: f"{good}x2 {bad}x{minutes - 2}"}
        quiet.append(History(series=short, at=f"{minutes}m"))
    return Case(
        loud=History(series={whole: f"{bad}x{long}"}, at=f"{long}m", fires=(shown,)),
        quiet=tuple(quiet),
    )


def silence(name: str, minutes: int) -> Case:
    """Return a dataset that stays in a state for too long."""
    return level("nodd_sns_freshness_state", {**D, "state": name}, 1, 0, minutes)


CORE = (
    "nodd_sns_queue_depth",
    "nodd_sns_dlq_depth",
    "nodd_sns_live_workers",
    "nodd_sns_freshness_state",
    "nodd_sns_messages_received_total",
    "nodd_sns_queue_age_seconds_count",
    "nodd_sns_wal_records_total",
    "nodd_sns_ingest_latency_seconds_count",
)
AGE, LATENCY = "nodd_sns_queue_age_seconds", "nodd_sns_ingest_latency_seconds"
DEPTH, DLQ = series("nodd_sns_queue_depth", Q), series("nodd_sns_dlq_depth", Q)
DLQ_OLDEST = series("nodd_sns_dlq_oldest_seconds", Q)
RECEIVED = series("nodd_sns_messages_received_total", {"queue": "nodd"})
RECORDS = series("nodd_sns_wal_records_total", {"dataset": "hrrr", "status": "succeeded"})
MISMATCH = series("nodd_sns_replay_mismatch_total", {"dataset": "hrrr"})
REPLAYS = series("nodd_sns_replays_total", {**D, "reason": "incident"})
ERRORS = series("nodd_sns_validation_errors_total", {**D, "error_type": "size_zero"})
KWH, BYTES = series("nodd_sns_energy_kwh_total", E), series("nodd_sns_bytes_ingested_total", D)
LIVE, DUE = series("nodd_sns_live_workers", E), series("nodd_sns_due_units", E)
DUE_OLDEST = series("nodd_sns_due_oldest_seconds", E)
PARKED = series("nodd_sns_parked_units", E)
FAILING = series("nodd_sns_freshness_state", {**D, "state": "failing"})

SERVICE = {
    "NODD-Q-AGE-CRIT": Case(
        loud=History(
            # 11 of 100 messages are older than 90 s.
            series=spread(AGE, Q, le_90="0+89x20", le_300="0+100x20", inf="0+100x20"),
            at="20m",
            fires=(Q,),
        ),
        quiet=(
            History(
                series=spread(AGE, Q, le_90="0+91x20", le_300="0+100x20", inf="0+100x20"), at="20m"
            ),
        ),
    ),
    "NODD-Q-DEPTH-WARN": level("nodd_sns_queue_depth", Q, 5001, 5000, 15),
    "NODD-Q-DEPTH-CRIT": Case(
        # 1,250 more in each 5 minutes, far below 20,000.
        loud=History(series={DEPTH: "0+250x25"}, at="25m", fires=(Q,)),
        quiet=(
            History(series={DEPTH: "0+190x25"}, at="25m"),
            History(series={DEPTH: "20000x25"}, at="25m"),
            # It grew for 5 minutes, then no more.
            History(series={DEPTH: "0x10 0+900x5 4500x15"}, at="25m"),
        ),
    ),
    "NODD-DLQ-RATE-CRIT": Case(
        # 30 of 30,000: 0.1 %.
        loud=History(series={DLQ: "0+1x40", RECEIVED: "0+1000x40"}, at="40m", fires=(Q,)),
        quiet=(
            # 30 of 75,000: 0.04 %.
            History(series={DLQ: "0+1x40", RECEIVED: "0+2500x40"}, at="40m"),
            # Old ones, none new.
            History(series={DLQ: "5000x40", RECEIVED: "0+1000x40"}, at="40m"),
        ),
    ),
    "NODD-VAL-ERR-WARN": Case(
        loud=History(
            series={ERRORS: "0x1400 0+3x40"},
            at="1440m",
            fires=({"error_type": "size_zero", "env": "prod"},),
        ),
        # As often as all day; and a few only.
        quiet=(
            History(series={ERRORS: "0+20x1440"}, at="1440m"),
            History(series={ERRORS: "0x1400 0+1x40"}, at="1440m"),
        ),
    ),
    "NODD-REPLAY-MISMATCH-CRIT": Case(
        # The counter is born with its first mismatch.
        loud=History(series={MISMATCH: "_x9 1x2"}, at="10m", fires=({"dataset": "hrrr"},)),
        quiet=(History(series={MISMATCH: "1x30"}, at="30m"),),
    ),
    "NODD-REPLAY-VOLUME-WARN": Case(
        loud=History(
            series={REPLAYS: "0+300x340"},
            at="168h",
            interval="30m",
            fires=({"reason": "incident", "env": "prod"},),
        ),
        # 100 in each hour of the week.
        quiet=(History(series={REPLAYS: "0+50x340"}, at="168h", interval="30m"),),
    ),
    "NODD-LAT-P90-CRIT": Case(
        loud=History(
            series=spread(LATENCY, D, le_300="0+89x30", le_600="0+100x30", inf="0+100x30"),
            at="30m",
            fires=(D,),
        ),
        quiet=(
            History(
                series=spread(LATENCY, D, le_300="0+91x30", le_600="0+100x30", inf="0+100x30"),
                at="30m",
            ),
        ),
    ),
    "NODD-LAT-TREND-WARN": Case(
        # All within 10 s; for the last 70 minutes all between 10 s and 60 s.
        loud=History(
            series=spread(
                LATENCY, D, le_10="0+10x1370 13700x70", le_60="0+10x1440", inf="0+10x1440"
            ),
            at="1440m",
            fires=(D,),
        ),
        quiet=(
            History(
                series=spread(LATENCY, D, le_10="0+10x1440", le_60="0+10x1440", inf="0+10x1440"),
                at="1440m",
            ),
        ),
    ),
    "NODD-TEL-SILENCE-CRIT": Case(
        loud=History(series={RECORDS: "0+5x10 50x12"}, at="22m", fires=({},)),
        quiet=(History(series={RECORDS: "0+5x10 50x8 51x4"}, at="22m"),),
    ),
    "NODD-TEL-METRIC-MISS-WARN": Case(
        loud=History(
            series={**dict.fromkeys(CORE[1:], "1x40"), CORE[0]: "1x5"},
            at="40m",
            fires=({"family": CORE[0]},),
        ),
        quiet=(History(series={**dict.fromkeys(CORE[1:], "1x40"), CORE[0]: "1x15"}, at="40m"),),
    ),
    "NODD-ENERGY-PER-UNIT-WARN": Case(
        # A kWh and a GB in each hour; then 3 kWh a GB for 60 hours.
        loud=History(
            series={KWH: "0+1x660 660+3x60", BYTES: "0+1000000000x720"},
            at="720h",
            interval="1h",
            fires=(E,),
        ),
        quiet=(
            # As much more energy as data.
            History(
                series={KWH: "0+1x660 660+3x60", BYTES: "0+1e9x660 660e9+3e9x60"},
                at="720h",
                interval="1h",
            ),
            # Not for a day yet.
            History(series={KWH: "0+1x695 695+3x25", BYTES: "0+1e9x720"}, at="720h", interval="1h"),
        ),
    ),
}

BACKLOGS = {
    "NODD-STUCK-CRIT": silence("we_are_stuck", 5),
    "NODD-FAILING-CRIT": Case(
        loud=History(series={FAILING: "0x3 1x3"}, at="6m", fires=(D,)),
        quiet=(
            # For half a minute; and long ago.
            History(series={FAILING: "0x12 1"}, at="6m30s", interval="30s"),
            History(series={FAILING: "1x3 0x3"}, at="6m"),
        ),
    ),
    "NODD-SOURCE-SILENT-WARN": silence("noaa_silent", 15),
    "NODD-HEALTH-UNREADABLE-CRIT": level("nodd_sns_health_readable", E, 0, 1, 5),
    "NODD-Q-STALL-CRIT": Case(
        loud=History(series={DEPTH: "3x40", RECEIVED: "7x40"}, at="40m", fires=(Q,)),
        quiet=(
            History(series={DEPTH: "3x40", RECEIVED: "0+1x40"}, at="40m"),
            History(series={DEPTH: "0x40", RECEIVED: "7x40"}, at="40m"),
        ),
    ),
    "NODD-NO-WORKERS-CRIT": Case(
        loud=History(series={LIVE: "0x10", DUE: "1x10"}, at="10m", fires=(E,)),
        quiet=(
            History(series={LIVE: "0x10", DUE: "0x10", DEPTH: "0x10"}, at="10m"),
            History(series={LIVE: "1x10", DUE: "1x10", DEPTH: "9x10"}, at="10m"),
        ),
    ),
    "NODD-PENDING-OLD-CRIT": level("nodd_sns_pending_oldest_seconds", D, 3601, 3600, 10),
    "NODD-IN-PROGRESS-OLD-CRIT": level("nodd_sns_in_progress_oldest_seconds", D, 3601, 3600, 10),
    "NODD-DUE-OLD-WARN": Case(
        loud=History(series={DUE_OLDEST: "1801x12", PARKED: "0x12"}, at="12m", fires=(E,)),
        quiet=(
            History(series={DUE_OLDEST: "1801x12", PARKED: "1x12"}, at="12m"),
            History(series={DUE_OLDEST: "1800x12", PARKED: "0x12"}, at="12m"),
        ),
    ),
    "NODD-PARKED-WARN": level("nodd_sns_parked_units", E, 1, 0, 1440),
    "NODD-LEASE-LAPSED-WARN": level("nodd_sns_lapsed_workers", E, 1, 0, 5),
    "NODD-FENCED-WARN": level("nodd_sns_fenced_workers", E, 3, 2, 0),
    "NODD-NEAR-LIMIT-WARN": level("nodd_sns_near_limit_units", D, 11, 10, 10),
    "NODD-STALE-WARN": level("nodd_sns_stale_units", D, 1, 0, 60),
    "NODD-OUTBOX-LAG-CRIT": level("nodd_sns_outbox_oldest_seconds", T, 901, 900, 10),
    "NODD-OUTBOX-EXHAUSTED-WARN": level("nodd_sns_outbox_exhausted", T, 1, 0, 5),
    "NODD-PROJECTION-LAG-WARN": level("nodd_sns_projection_lag_seconds", E, 901, 900, 10),
    "NODD-DLQ-OLD-WARN": Case(
        loud=History(series={DLQ: "1x2", DLQ_OLDEST: "86401x2"}, at="2m", fires=(Q,)),
        also=(
            # Letters of which nobody knows the age, for a day and half an hour.
            History(series={DLQ: "0x2 3x50"}, at="1560m", interval="30m", fires=(Q,)),
        ),
        quiet=(
            History(series={DLQ: "1x2", DLQ_OLDEST: "86400x2"}, at="2m"),
            # They come and go, and none is old.
            History(series={DLQ: "3x60", DLQ_OLDEST: "60x60"}, at="1800m", interval="30m"),
            # All were gone for an hour; not yet a day; just begun to look.
            History(series={DLQ: "3x30 0x2 3x30"}, at="1800m", interval="30m"),
            History(series={DLQ: "0x20 3x40"}, at="1800m", interval="30m"),
            History(series={DLQ: "3x2"}, at="60m", interval="30m"),
        ),
    ),
    "NODD-POISON-WARN": level("nodd_sns_poison_open", E, 1, 0, 60),
    "NODD-BUDGET-CRIT": level(
        "nodd_sns_error_budget_zone", {"slo": "latency", "zone": "red", "env": "prod"}, 1, 0, 15
    ),
}

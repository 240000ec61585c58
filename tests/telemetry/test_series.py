"""Series add up what is reported, bounded, and tell it as it stands."""

from __future__ import annotations

import threading

import pytest

from tallgrass.telemetry.names import METRICS, MetricKind
from tallgrass.telemetry.series import BOUNDS, OTHER, Family, Series

RECORDS = "nodd_sns.wal_records_total"
LATENCY = "nodd_sns.ingest_latency_seconds"
ERRORS = "nodd_sns.validation_errors_total"
DEPTH = "nodd_sns.queue_depth"


def one(series: Series) -> Family:
    """Return the only family."""
    (family,) = series.families()
    return family


def test_counts_add_up_by_labels_and_env_comes_last() -> None:
    """Each combination is a series; `env` is the process's, where the metric has it."""
    series = Series("prod")
    series.count(RECORDS, 2, {"status": "failed", "dataset": "hrrr"})
    series.count(RECORDS, 3, {"dataset": "hrrr", "status": "failed"})
    assert one(series).numbers == {("hrrr", "failed"): 5}
    series.count(ERRORS, 1, {"dataset": "hrrr", "error_type": "io_error"})
    assert series.families()[1].numbers == {("hrrr", "io_error", "prod"): 1}


def test_values_fall_into_buckets_and_a_bound_belongs_below() -> None:
    """300 s is within the service level of 300 s; what lies above all bounds is not lost."""
    series = Series("dev")
    series.observe(LATENCY, [300.0, 300.5], {"dataset": "hrrr"})
    series.observe(LATENCY, [1e9], {"dataset": "hrrr"})
    buckets = one(series).buckets["hrrr", "dev"]
    by_end = dict(zip((*buckets.bounds, "above"), buckets.counts, strict=True))
    assert {end: n for end, n in by_end.items() if n} == {300: 1, 600: 1, "above": 1}
    assert (buckets.total, buckets.low, buckets.high) == (1_000_000_600.5, 300.0, 1e9)


def test_nothing_observed_makes_no_series() -> None:
    """A batch without values does not make a series of zeros."""
    series = Series("dev")
    series.observe(LATENCY, [], {"dataset": "hrrr"})
    assert series.families() == []


def test_a_gauge_is_replaced_as_a_whole() -> None:
    """A series that is not read any more ends; counters stay when gauges are forgotten."""
    series = Series("dev")
    series.gauge(DEPTH, {("a",): 1.0, ("b",): 2.0})
    series.gauge(DEPTH, {("b",): 3.0})
    assert one(series).numbers == {("b", "dev"): 3.0}
    series.count(RECORDS, 1, {"dataset": "hrrr", "status": "failed"})
    series.forget_gauges()
    assert one(series).metric.name == RECORDS


def test_series_beyond_the_limit_are_added_up_as_others() -> None:
    """Whatever labels come, memory is bounded, nothing is lost, and known series go on."""
    series = Series("dev", series_max=2)
    for number in range(5):
        labels = {"dataset": f"d{number}", "error_type": "io_error"}
        series.count(ERRORS, 1, labels)
        series.observe(LATENCY, [1.0], {"dataset": f"d{number}"})
    series.count(ERRORS, 10, {"dataset": "d0", "error_type": "io_error"})
    errors, latency = series.families()
    assert errors.numbers == {
        ("d0", "io_error", "dev"): 11, ("d1", "io_error", "dev"): 1, (OTHER, OTHER, "dev"): 3,
    }  # fmt: skip
    assert sum(latency.buckets[OTHER, "dev"].counts) == 3


def test_every_histogram_has_bounds_that_rise() -> None:
    """A histogram of a unit without bounds would fail at its first value."""
    for metric in METRICS.values():
        if metric.kind is MetricKind.HISTOGRAM:
            assert metric.unit in BOUNDS
    for bounds in BOUNDS.values():
        assert list(bounds) == sorted(set(bounds))
    assert {90, 300} <= set(BOUNDS["s"])


def test_what_was_read_does_not_change_afterwards() -> None:
    """An exporter works on a copy while others report."""
    series = Series("dev")
    series.observe(LATENCY, [1.0], {"dataset": "hrrr"})
    before = one(series)
    series.observe(LATENCY, [1.0], {"dataset": "hrrr"})
    assert sum(before.buckets["hrrr", "dev"].counts) == 1


def test_threads_lose_no_count() -> None:
    """Workers, dispatchers and exporters report at the same time."""
    series = Series("dev")

    def report() -> None:
        for _ in range(2_000):
            series.count(RECORDS, 1, {"dataset": "hrrr", "status": "failed"})

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one(series).numbers == {("hrrr", "failed"): 8_000}


def test_an_unknown_metric_is_a_mistake() -> None:
    """Nothing is exported that the table does not declare."""
    with pytest.raises(KeyError):
        Series("dev").count("nodd_sns.unheard_of_total", 1, {})

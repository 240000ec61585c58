"""Recorders take what the table of names knows, once a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.telemetry.recorder import (
    NOBODY,
    NoopRecorder,
    Recorder,
    count_each,
    observe_each,
)
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = "nodd_sns.wal_records_total"
ATTEMPTS = "nodd_sns.wal_attempts_histogram"
LATENCY = "nodd_sns.ingest_latency_seconds"
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_counts_add_up_by_label() -> None:
    """Each combination of labels is a series of its own."""
    recorder = MemoryRecorder()
    recorder.count(RECORDS, 3, dataset="goes-glm", status="succeeded")
    recorder.count(RECORDS, 2, dataset="goes-glm", status="succeeded")
    recorder.count(RECORDS, 1, status="failed", dataset="hrrr")
    assert recorder.by_labels(RECORDS) == {("goes-glm", "succeeded"): 5, ("hrrr", "failed"): 1}
    assert recorder.total(RECORDS) == 6
    assert recorder.total(RECORDS, dataset="goes-glm") == 5
    assert recorder.total(RECORDS, status="quarantined") == 0


def test_observed_values_are_kept_by_label() -> None:
    """A batch's values reach their histogram in one report; `env` is the recorder's."""
    recorder = MemoryRecorder(env="stage")
    recorder.observe(LATENCY, [1.5, 2.5], dataset="hrrr")
    recorder.observe(LATENCY, [9.0], dataset="goes-glm")
    assert recorder.observed(LATENCY) == [1.5, 2.5, 9.0]
    assert recorder.observed(LATENCY, dataset="hrrr", env="stage") == [1.5, 2.5]
    assert recorder.observed(LATENCY, env="prod") == []
    assert recorder.reports == 2


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("nodd_sns.unheard_of_total", {"dataset": "hrrr"}),
        (RECORDS, {"dataset": "hrrr"}),
        (RECORDS, {"dataset": "hrrr", "status": "failed", "wal_id": "x"}),
        (RECORDS, {"dataset": "hrrr", "stage": "failed"}),
        (ATTEMPTS, {"dataset": "hrrr"}),
        ("nodd_sns.validation_errors_total", {"dataset": "a", "error_type": "b", "env": "c"}),
    ],
    ids=["unknown", "missing label", "further label", "other label", "no counter", "env by hand"],
)
def test_a_count_outside_the_table_is_refused(name: str, labels: dict[str, str]) -> None:
    """A name that is not declared, or labels that are not the metric's, fail the test they meet."""
    recorder = MemoryRecorder()
    with pytest.raises(InvalidInput):
        recorder.count(name, 1, **labels)
    assert recorder.reports == 0


@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_counter_never_falls(value: float) -> None:
    """Only growth can be counted."""
    with pytest.raises(InvalidInput):
        MemoryRecorder().count(RECORDS, value, dataset="hrrr", status="failed")


def test_an_observation_of_a_counter_is_refused() -> None:
    """A counter is no histogram."""
    with pytest.raises(InvalidInput):
        MemoryRecorder().observe(RECORDS, [1.0], dataset="hrrr", status="failed")


def test_spans_and_events_are_kept_and_checked() -> None:
    """What the table declares is kept as reported; anything else is refused."""
    recorder = MemoryRecorder()
    later = NOON + timedelta(seconds=2)
    recorder.span("commit", NOON, later, {"nodd.units": 500})
    recorder.event("receipts_stale", queue="nodd-primary", count=3)
    (span,) = recorder.spans
    assert (span.name, span.started_at, span.ended_at) == ("commit", NOON, later)
    assert span.attributes == {"nodd.units": 500}
    assert recorder.events == [("receipts_stale", {"queue": "nodd-primary", "count": 3})]
    for name, start, attributes in (
        ("commute", NOON, {"nodd.units": 1}),
        ("commit", NOON, {"units": 1}),
        ("commit", later + timedelta(seconds=1), {"nodd.units": 1}),
    ):
        with pytest.raises(InvalidInput):
            recorder.span(name, start, later, attributes)
    for name, fields in (("receipts_old", {}), ("receipts_stale", {"queue": "q"})):
        with pytest.raises(InvalidInput):
            recorder.event(name, **fields)


LABELS = st.lists(
    st.tuples(st.sampled_from(["goes-glm", "hrrr"]), st.sampled_from(["failed", "succeeded"])),
    max_size=50,
)


@given(labels=LABELS)
def test_a_batch_reports_each_combination_once(labels: list[tuple[str, str]]) -> None:
    """However many units a batch has, a counter is called once for each combination of labels."""
    recorder = MemoryRecorder()
    count_each(recorder, RECORDS, iter(labels))
    assert recorder.reports == len(set(labels))
    expected = {label: labels.count(label) for label in labels}
    assert recorder.by_labels(RECORDS) == expected


def test_a_batch_observes_each_combination_once() -> None:
    """Values of one combination of labels are reported together, in their order."""
    recorder = MemoryRecorder()
    values = [(("hrrr",), 1.0), (("goes-glm",), 2.0), (("hrrr",), 3.0)]
    observe_each(recorder, ATTEMPTS, iter(values))
    assert recorder.reports == 2
    assert recorder.observed(ATTEMPTS, dataset="hrrr") == [1.0, 3.0]


def test_label_values_must_fit_the_metric() -> None:
    """A value too few or too many is a mistake, not another series."""
    with pytest.raises(ValueError, match="argument"):
        count_each(MemoryRecorder(), RECORDS, [("hrrr",)])


def test_where_nobody_listens_nothing_is_gathered() -> None:
    """The default does no work for a unit: the batch is not even looked at."""
    looked_at: list[str] = []

    def batch() -> Iterator[tuple[str, ...]]:
        looked_at.append("unit")
        yield ("hrrr", "failed")

    count_each(NOBODY, RECORDS, batch())
    observe_each(NOBODY, ATTEMPTS, ((labels[:1], 1.0) for labels in batch()))
    assert looked_at == []
    assert NoopRecorder.enabled is False


def test_both_recorders_answer_to_the_protocol() -> None:
    """Whatever the pipeline reports, either recorder takes it."""
    for recorder in (NOBODY, MemoryRecorder()):
        listening: Recorder = recorder
        listening.count(RECORDS, 1, dataset="hrrr", status="failed")
        listening.observe(ATTEMPTS, [1], dataset="hrrr")
        listening.span("commit", NOON, NOON, {"nodd.units": 1})
        listening.event("worker_fenced", worker_id="w", ingest_run_id="r")

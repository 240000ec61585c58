"""Metrics and spans reach a collector by OTLP; one that is down or slow delays nobody."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.config import Config, load_config
from tallgrass.errors import ConfigError
from tallgrass.telemetry.log_recorder import LogRecorder
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.telemetry.trace_context import SpanContext, SpanPlace
from tests.cli.command import environment
from tests.cli.pipeline import make_feed, shares
from tests.cli.test_ingest import LOG_LINE, by_status
from tests.telemetry.collector import Collector, attributes, number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.telemetry.series import Collect, Family, Series
    from tests.support.backends import Backend

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
RECORDS = "nodd_sns.wal_records_total"
LATENCY = "nodd_sns.ingest_latency_seconds"
DEPTH = "nodd_sns.queue_depth"
DROPPED = "nodd_sns.telemetry_dropped_total"
UNSENT = "nodd_sns.telemetry_failed_sends_total"
ALL = {"OTEL_TRACES_SAMPLER": "always_on"}
NO_TRACES = {"OTEL_TRACES_EXPORTER": "none"}
SOON_S = 60.0


def config(**settings: str | float) -> Config:
    """Return a configuration with telemetry settings."""
    flags = {f"telemetry.{key}": value for key, value in settings.items()}
    return load_config(environment={}, flags={"env": "stage", **flags})


def opened(
    settings: Config,
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    lines: list[str] | None = None,
) -> Any:
    """Open a recorder with variables, which the exporters read themselves too."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    write = None if lines is None else lines.append
    return open_recorder(settings, write, environment=variables)


def report_span(recorder: Recorder, number: int = 1, **more: object) -> None:
    """Report a span of two and a half seconds."""
    context = SpanContext(f"{number:032x}", f"{number:016x}")
    end = NOON + timedelta(seconds=2.5)
    recorder.span("commit", NOON, end, {"nodd.units": 3, **more}, SpanPlace(context))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    ends_at = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.01)


def test_metrics_arrive_with_exact_names_labels_and_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums since the start, the label env, spread of times; units stay out where names tell."""
    with Collector() as collector:
        with opened(config(), collector.variables(), monkeypatch) as recorder:
            recorder.count(RECORDS, 3, dataset="hrrr", status="failed")
            recorder.count(RECORDS, 2, dataset="hrrr", status="failed")
            recorder.observe(LATENCY, [1.0, 299.0, 301.0], dataset="hrrr")
            recorder.gauge(DEPTH, {("nodd-primary",): 7.0})
        records, latency, depth = (collector.last(name) for name in (RECORDS, LATENCY, DEPTH))
        (count,) = records.sum.data_points
        assert (number(count), attributes(count)) == (
            5,
            {"dataset": "hrrr", "status": "failed"},
        )
        assert (records.sum.is_monotonic, records.sum.aggregation_temporality) == (True, 2)
        (spread,) = latency.histogram.data_points
        assert attributes(spread) == {"dataset": "hrrr", "env": "stage"}
        assert (spread.count, spread.sum, spread.min, spread.max) == (3, 601.0, 1.0, 301.0)
        ends = [*spread.explicit_bounds, float("inf")]
        filled = {end: n for end, n in zip(ends, spread.bucket_counts, strict=True) if n}
        assert filled == {1.0: 1, 300.0: 1, 600.0: 1}
        (level,) = depth.gauge.data_points
        assert (level.as_double, attributes(level)) == (
            7.0,
            {"queue": "nodd-primary", "env": "stage"},
        )
        assert {metric.unit for metric in collector.metrics[-1]} == {""}
        resource = collector.resources[-1]
        assert (resource["service.name"], resource["deployment.environment.name"]) == (
            "tallgrass",
            "stage",
        )


def test_metrics_are_sent_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL says how often; the service's name is the standard variable's."""
    variables = {"OTEL_METRIC_EXPORT_INTERVAL": "20", "OTEL_SERVICE_NAME": "nodd"}
    with (
        Collector() as collector,
        opened(config(), collector.variables(**variables), monkeypatch) as recorder,
    ):
        recorder.count(RECORDS, 1, dataset="hrrr", status="failed")
        wait_for(lambda: len(collector.metrics) >= 3)
        assert collector.resources[0]["service.name"] == "nodd"
    assert collector.spans == []


def test_spans_arrive_as_they_were_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids, parent, links, times, attributes, kind and status."""
    other, parent = SpanContext("a" * 32, "b" * 16), SpanContext("c" * 32, "d" * 16)
    place = SpanPlace(SpanContext("c" * 32, "e" * 16), parent, (other,))
    given = {
        "nodd.units": 3, "nodd.queue": None, "nodd.issues": ("a", "b"), "error.type": "io_error",
        "messaging.operation.type": "process",
    }  # fmt: skip
    with Collector() as collector:
        with opened(config(), collector.variables(**ALL), monkeypatch) as recorder:
            recorder.span("commit", NOON, NOON + timedelta(microseconds=1500), given, place)
            recorder.span("commit", NOON, NOON, {"nodd.units": 1})
        span, alone = collector.spans
    assert (span.trace_id.hex(), span.span_id.hex()) == ("c" * 32, "e" * 16)
    assert span.parent_span_id.hex() == "d" * 16
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [
        ("a" * 32, "b" * 16)
    ]
    # 2026-06-01T12:00:00Z by `date -u -d … +%s`.
    assert span.start_time_unix_nano == 1_780_315_200 * 10**9
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_500_000
    found = attributes(span)
    issues = [value.string_value for value in found.pop("nodd.issues").values]
    assert issues == ["a", "b"]
    assert found == {
        "nodd.units": 3,
        "error.type": "io_error",
        "messaging.operation.type": "process",
    }
    # Of the protocol: kind CONSUMER is 5, INTERNAL 1; status ERROR is 2, UNSET 0.
    assert (span.kind, span.status.code) == (5, 2)
    assert (alone.kind, alone.status.code, alone.parent_span_id) == (1, 0, b"")


def test_threads_take_short_turns_while_spans_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker does not wait for the thread that encodes spans; without spans all is as usual."""
    usual = sys.getswitchinterval()
    with Collector() as collector:
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with opened(config(), {**where, **NO_TRACES}, monkeypatch):
            assert sys.getswitchinterval() == usual
        monkeypatch.delenv("OTEL_TRACES_EXPORTER")
        with opened(config(), where, monkeypatch):
            assert sys.getswitchinterval() == pytest.approx(0.0005) != usual
    assert sys.getswitchinterval() == usual


def test_only_sampled_traces_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ratio of one half, ids of the lower half go, those of the upper do not."""
    low, high = 1, 1 << 63
    with Collector() as collector:
        with opened(config(traces_ratio=0.5), collector.variables(), monkeypatch) as recorder:
            assert recorder.tracing
            assert recorder.samples(f"{low:032x}")
            assert not recorder.samples(f"{high:032x}")
            for each in (low, high):
                report_span(recorder, each)
        assert [int(span.trace_id.hex(), 16) for span in collector.spans] == [low]
    with (
        Collector() as collector,
        opened(config(traces_ratio=0.0), collector.variables(), monkeypatch) as recorder,
    ):
        assert not recorder.tracing


def test_an_absent_collector_is_told_once_and_drops_are_counted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spans that nobody takes are counted by reason; the library itself writes nothing."""
    with Collector() as gone:
        pass
    lines: list[str] = []
    variables = gone.variables(
        **ALL,
        OTEL_METRIC_EXPORT_INTERVAL="10",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_METRICS_EXPORTER="none",
    )
    with Collector() as scraped:
        variables["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = f"{scraped.url}/v1/metrics"
        variables.pop("OTEL_METRICS_EXPORTER")
        with opened(config(waiting_spans=4), variables, monkeypatch, lines) as recorder:
            for each in range(1, 51):
                report_span(recorder, each)
            wait_for(lambda: bool(lines))
        points = scraped.last(DROPPED).sum.data_points
        dropped = {attributes(point)["reason"]: number(point) for point in points}
    assert sum(dropped.values()) == 50
    assert dropped["queue_full"] > 0
    assert dropped["undelivered"] > 0
    assert [line.split(" ", 2)[1:] for line in lines] == [
        ["warning", "telemetry_undelivered signal=traces\n"]
    ]
    assert capfd.readouterr() == ("", "")


def test_a_refusal_is_told_again_only_after_it_had_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line an outage: down, back, down again are two lines."""
    lines: list[str] = []
    variables = {"OTEL_METRIC_EXPORT_INTERVAL": "10", **NO_TRACES}
    with (
        Collector(status=400) as collector,
        opened(config(), collector.variables(**variables), monkeypatch, lines) as recorder,
    ):
        recorder.count(RECORDS, 1, dataset="hrrr", status="failed")
        wait_for(lambda: collector.requests >= 3)
        collector.status = 200
        wait_for(lambda: len(collector.metrics) >= 2)
        (unsent,) = collector.last(UNSENT).sum.data_points
        assert (number(unsent)) >= 3
        assert attributes(unsent) == {"signal": "metrics"}
        assert len(lines) == 1
        collector.status = 400
        wait_for(lambda: len(lines) == 2)


def test_metrics_that_cannot_be_read_are_sent_when_they_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever reading them raises is counted and told like a failed send, and ends nothing."""
    lines, faults = list[str](), [RuntimeError("nobody expected it"), ZeroDivisionError()]

    def collecting(series: Series) -> Collect:
        def collect() -> list[Family]:
            if faults:
                raise faults.pop()
            return series.families()

        return collect

    with Collector() as collector:
        variables = collector.variables(OTEL_METRIC_EXPORT_INTERVAL="10", **NO_TRACES)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with open_recorder(
            config(), lines.append, environment=variables, collecting=collecting
        ) as recorder:
            recorder.count(RECORDS, 1, dataset="hrrr", status="failed")
            wait_for(lambda: len(collector.metrics) >= 1)
        (unsent,) = collector.last(UNSENT).sum.data_points
        assert (number(unsent), attributes(unsent)) == (2, {"signal": "metrics"})
    assert [line.split(" ", 2)[1:] for line in lines] == [
        ["warning", "telemetry_undelivered signal=metrics\n"]
    ]


def test_spans_that_cannot_be_written_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of their request go with them; later ones are sent."""

    class Unwritable:
        def __str__(self) -> str:
            raise RuntimeError("nobody expected it")

    lines: list[str] = []
    with Collector() as collector:
        # Of two that may wait, each is sent at once.
        settings, variables = config(waiting_spans=2), collector.variables(**ALL)
        with opened(settings, variables, monkeypatch, lines) as recorder:
            report_span(recorder, 1, thing=Unwritable())
            wait_for(lambda: bool(lines))
            report_span(recorder, 2)
            wait_for(lambda: bool(collector.spans))
        assert [int(span.trace_id.hex(), 16) for span in collector.spans] == [2]
        (dropped,) = collector.last(DROPPED).sum.data_points
    assert (number(dropped), attributes(dropped)) == (
        1,
        {"signal": "traces", "reason": "undelivered"},
    )


def test_a_hanging_collector_delays_neither_reports_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reports return while a request hangs, and closing gives up: the collector never answered."""
    with Collector(hangs=True) as collector:
        settings = config(waiting_spans=10)
        with opened(settings, collector.variables(**ALL), monkeypatch) as recorder:
            for each in range(1, 7):
                report_span(recorder, each)
            wait_for(lambda: collector.requests == 1)
            for each in range(7, 1_001):
                report_span(recorder, each)
            recorder.count(RECORDS, 1, dataset="hrrr", status="failed")
        assert (collector.spans, collector.metrics) == ([], [])


def test_ingest_is_as_ever_whatever_the_collector_does(backend: Backend, tmp_path: Path) -> None:
    """All units succeed, the log has its lines and no others, and the process ends by itself."""
    feed = make_feed(tmp_path, 20, *shares())
    # A process each is slow: one database meets a collector that hangs, the other one that refuses.
    with Collector(hangs=backend.name == "postgres", status=503) as collector:
        variables = collector.variables(**ALL, OTEL_METRIC_EXPORT_INTERVAL="50")
        done = feed.ingest(backend, "--drain", "--batch", "5", **variables)
        assert collector.metrics == []
    assert done.code == 0, done.err
    assert by_status(backend) == {"succeeded": 20}
    lines = done.err.splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    said = [line for line in lines if " telemetry_undelivered " in line]
    assert len(said) == len({line.rpartition("=")[2] for line in said})


def test_ingest_tells_a_collector_what_it_did(backend: Backend, tmp_path: Path) -> None:
    """Counts of the ledger's outcomes arrive with the values of the tables, and spans with them."""
    feed = make_feed(tmp_path, 12, *shares())
    with Collector() as collector:
        done = feed.ingest(backend, "--drain", **collector.variables(**ALL))
        assert done.code == 0, done.err
        points = collector.last("nodd_sns.stac_writes_total").sum.data_points
    counted = {
        (attributes(point)["dataset"], attributes(point)["outcome"]): number(point)
        for point in points
    }
    rows = backend.sql("SELECT dataset, count(*) FROM wal_records GROUP BY dataset")
    assert counted == {(dataset, "created"): units for dataset, units in rows}
    assert "nodd_sns.ingest" in {span.name for span in collector.spans}


def test_off_means_the_log_alone_and_no_library() -> None:
    """Without a port and variables nothing of OpenTelemetry or Prometheus is loaded."""
    with open_recorder(config(), None, environment={}) as recorder:
        assert recorder is NOBODY
    lines: list[str] = []
    with open_recorder(config(), lines.append, environment={}) as recorder:
        assert isinstance(recorder, LogRecorder)
    code = (
        "import sys\n"
        "from tallgrass.bootstrap.telemetry import open_recorder\n"
        "from tallgrass.config import load_config\n"
        "with open_recorder(load_config(environment={}), print, environment={}): pass\n"
        "print([n for n in sys.modules if n.startswith(('opentelemetry', 'prometheus'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment()
    )
    assert done.stdout == "[]\n"


def test_a_port_and_everything_off_contradict_each_other() -> None:
    """A port that would show nothing is refused."""
    variables = {"OTEL_SDK_DISABLED": "true"}
    with (
        pytest.raises(ConfigError, match="OTEL_SDK_DISABLED"),
        open_recorder(config(), None, metrics_port=0, environment=variables),
    ):
        pass


@pytest.mark.parametrize(
    ("variables", "library"),
    [({"OTEL_TRACES_EXPORTER": "otlp"}, "opentelemetry"), ({}, "prometheus_client")],
)
def test_a_missing_library_is_told_with_its_extra(
    variables: dict[str, str], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code's remedy names what to install."""
    for name in [n for n in sys.modules if n.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("otel_metrics", "otel_spans", "prometheus_endpoint"):
        monkeypatch.delitem(sys.modules, f"tallgrass.telemetry.{name}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    port = None if variables else 0
    with (
        pytest.raises(ConfigError) as refused,
        open_recorder(config(), None, metrics_port=port, environment=variables),
    ):
        pass
    assert refused.value.code == "telemetry_missing"

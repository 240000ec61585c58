"""Prometheus is answered with every metric by its name, and a scraper can disturb nobody."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tallgrass.bootstrap.health_metrics import HealthSeries
from tallgrass.bootstrap.listening import listen
from tallgrass.errors import ConfigError, DatabaseUnreachable
from tallgrass.telemetry.names import METRICS, Metric, MetricKind
from tallgrass.telemetry.prometheus_endpoint import PrometheusEndpoint
from tallgrass.telemetry.series import Series
from tests.cli.pipeline import make_feed, shares
from tests.support.backends import prepare
from tests.telemetry.prometheus_server import Prometheus

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = "nodd_sns.wal_records_total"
DEPTH = "nodd_sns.queue_depth"
SOON_S = 60.0


@contextlib.contextmanager
def answering(series: Series) -> Iterator[str]:
    """Answer scrapes meanwhile; yields where."""
    endpoint = PrometheusEndpoint(series.families, listen("127.0.0.1", 0))
    endpoint.start()
    try:
        yield endpoint.url
    finally:
        endpoint.close()


def get(url: str, **headers: str) -> str:
    """Fetch a page."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=SOON_S) as answer:  # noqa: S310
        text: str = answer.read().decode()
    return text


def address(process: subprocess.Popen[str]) -> str:
    """Wait for the line that tells where a process answers."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r" metrics_served port=(\d+)$", line):
            return f"http://127.0.0.1:{found[1]}/metrics"
    raise AssertionError(process.communicate())


def fill(series: Series, metric: Metric) -> None:
    """Report one value of a metric; each label has its own name as its value."""
    labels = {label: label for label in metric.labels}
    if metric.kind is MetricKind.COUNTER:
        series.count(metric.name, 2, labels)
    elif metric.kind is MetricKind.GAUGE:
        series.gauge(metric.name, {metric.labels: 2})
    else:
        series.observe(metric.name, [2], labels)


def test_every_metric_of_the_table_is_exported_by_its_name() -> None:
    """Dots become underscores, a counter ends with `_total`, no unit is appended; all labels."""
    series = Series("prod")
    for metric in METRICS.values():
        fill(series, metric)
    with answering(series) as url:
        families = list(text_string_to_metric_families(get(url)))
    seen = {
        sample.name: (family.type, sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum"))
    }
    expected = {}
    for metric in METRICS.values():
        name = metric.name.replace(".", "_")
        if metric.kind is MetricKind.COUNTER and not name.endswith("_total"):
            name += "_total"
        name, value = (f"{name}_count", 1) if metric.kind == "histogram" else (name, 2)
        labels = {label: label for label in metric.labels}
        if metric.has_env:
            labels["env"] = "prod"
        expected[name] = (metric.kind.value, labels, value)
    assert seen == expected


def test_a_histogram_counts_what_is_below_each_bound() -> None:
    """Buckets add up from the lowest, as Prometheus wants them."""
    series = Series("dev")
    series.observe("nodd_sns.batch_seconds", [0.02, 0.05, 200.0], {"source": "queue"})
    with answering(series) as url:
        lines = get(url).splitlines()
    start = 'nodd_sns_batch_seconds_bucket{le="'
    below = dict(
        line.removeprefix(start).replace('",source="queue"}', "").split(" ")
        for line in lines
        if line.startswith(start)
    )
    assert (below["0.01"], below["0.05"], below["120.0"], below["300.0"], below["+Inf"]) == (
        "0.0", "2.0", "2.0", "3.0", "3.0",
    )  # fmt: skip
    assert 'nodd_sns_batch_seconds_sum{source="queue"} 200.07' in lines


def test_label_values_cannot_forge_lines() -> None:
    """Quotes, backslashes and line ends of a value stay inside it."""
    series = Series("dev")
    forged = 'x"} 1\nnodd_sns_forged_total{a="\\'
    series.count(RECORDS, 1, {"dataset": forged, "status": "failed"})
    with answering(series) as url:
        (family,) = text_string_to_metric_families(get(url))
    assert [sample.labels["dataset"] for sample in family.samples] == [forged]


def test_openmetrics_is_spoken_where_it_is_asked_for() -> None:
    """A scraper that prefers it gets it, with its end."""
    series = Series("dev")
    series.count(RECORDS, 1, {"dataset": "hrrr", "status": "failed"})
    with answering(series) as url:
        assert get(url, Accept="application/openmetrics-text; version=1.0.0").endswith("# EOF\n")
        assert not get(url).endswith("# EOF\n")


def test_other_paths_are_not_there() -> None:
    """Only /metrics is."""
    with answering(Series("dev")) as url:
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{url}/other")
        refused.value.close()
        assert refused.value.code == 404


def test_idle_scrapers_are_few_and_hold_up_nobody() -> None:
    """Connections that say nothing keep no scrape from its answer, until there are too many."""
    series = Series("dev")
    series.count(RECORDS, 1, {"dataset": "hrrr", "status": "failed"})
    with answering(series) as url, contextlib.ExitStack() as idle:
        place = (url.split("/")[2].split(":")[0], int(url.split("/")[2].split(":")[1]))
        held = [idle.enter_context(socket.create_connection(place, SOON_S)) for _ in range(7)]
        assert RECORDS.replace(".", "_") in get(url)
        held += [idle.enter_context(socket.create_connection(place, SOON_S)) for _ in range(2)]
        # Eight are served; the one too many is hung up at once.
        held[-1].settimeout(SOON_S)
        assert held[-1].recv(1) == b""
        series.count(RECORDS, 1, {"dataset": "hrrr", "status": "failed"})
        held[0].close()
        ends_at = time.monotonic() + SOON_S
        while True:
            with contextlib.suppress(OSError):
                assert "failed" in get(url)
                break
            assert time.monotonic() < ends_at
            time.sleep(0.02)


def test_an_address_that_is_taken_is_told() -> None:
    """Before anything is said to be served."""
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            listen("127.0.0.1", port)
    assert refused.value.code == "cannot_listen"
    with pytest.raises(ConfigError):
        listen("127.0.0.1", 65_536)


def test_health_is_read_now_and_then_and_gone_when_it_cannot_be_read() -> None:
    """Within the time the old reading is shown; an unreadable gauge is absent, never old."""
    series, depths, now = Series("dev"), [1.0, 2.0], [100.0]

    def report() -> None:
        if not depths:
            raise DatabaseUnreachable("no server")
        series.gauge(DEPTH, {("q",): depths.pop(0)})

    health = HealthSeries(series, report, every_s=5.0, monotonic=lambda: now[0])

    def shown() -> dict[str, float]:
        found = {f.metric.name: f.numbers for f in health.families()}
        return {name: next(iter(numbers.values())) for name, numbers in found.items()}

    assert shown() == {DEPTH: 1.0, "nodd_sns.health_readable": 1.0}
    now[0] = 104.9
    assert shown()[DEPTH] == 1.0
    now[0] = 105.0
    assert shown()[DEPTH] == 2.0
    now[0] = 110.0
    assert shown() == {"nodd_sns.health_readable": 0.0}
    depths.append(3.0)
    now[0] = 115.0
    assert shown() == {DEPTH: 3.0, "nodd_sns.health_readable": 1.0}


def test_reading_takes_a_twentieth_of_the_time_at_most() -> None:
    """A ledger that takes 2 s to count is read every 40 s, however often it is scraped."""
    now = [100.0]
    read_at = []

    def report() -> None:
        read_at.append(now[0])
        now[0] += 2.0

    health = HealthSeries(Series("test"), report, every_s=5.0, monotonic=lambda: now[0])
    for second in (100, 105, 139, 140, 179, 180):
        now[0] = max(now[0], second)
        health.families()
    assert read_at == [100, 140, 180]


def test_a_real_prometheus_scrapes_a_worker(tmp_path: Path) -> None:
    """What it has stored equals the tables: counts, and a quantile of a histogram."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    feed = make_feed(tmp_path / "feed", 12, *shares(zero_bytes="0.25"))
    worker = feed.start(backend, "--metrics-port", "0", TALLGRASS_ENV="stage")
    try:
        with Prometheus(tmp_path, {"worker": address(worker)}) as prometheus:
            prometheus.until("sum by (job) (up)", {("worker",): 1.0})
            prometheus.until('sum(nodd_sns_stac_writes_total{outcome="created"})', {(): 9.0})
            rows = backend.sql(
                "SELECT dataset, count(*) FROM wal_records WHERE status = 'succeeded'"
                " GROUP BY dataset"
            )
            by_dataset = 'sum by (dataset) (nodd_sns_stac_writes_total{outcome="created"})'
            assert prometheus.query(by_dataset) == {(name,): float(n) for name, n in rows}
            errors = "sum by (env, error_type) (nodd_sns_validation_errors_total)"
            assert set(prometheus.query(errors)) == {("stage", "size_zero")}
            quantile = "histogram_quantile(0.9, sum by (le) (nodd_sns_batch_seconds_bucket))"
            (seconds,) = prometheus.query(quantile).values()
            assert seconds > 0
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SOON_S)
    assert worker.returncode == 0

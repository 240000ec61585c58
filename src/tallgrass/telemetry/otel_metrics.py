"""Metrics on their way to a collector: sums since the start, sent every so often.

What is sent are sums, so a send that fails loses nothing: the next one says it all.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tallgrass.telemetry.names import MetricKind
from tallgrass.telemetry.pushing import Pushing, Sent
from tallgrass.telemetry.series import Collect, Family, Labels

_SCOPE = InstrumentationScope("tallgrass")
_CUMULATIVE = AggregationTemporality.CUMULATIVE
#: Units and the words by which names carry them; a backend would append a unit a second time.
_IN_NAME = {"1": "", "s": "_seconds", "ms": "_ms", "By": "bytes_", "W.h": "_wh", "g": "_gco2e"}


class MetricSending:
    """Sends metrics in the background."""

    def __init__(
        self,
        collect: Collect,
        exporter: MetricExporter,
        resource: Resource,
        *,
        now_ns: Callable[[], int],
        every_s: float,
        sent: Sent,
    ) -> None:
        self._collect = collect
        self._exporter = exporter
        self._resource = resource
        self._now_ns = now_ns
        self._since_ns = now_ns()
        self._sent = sent
        failed = partial(sent, ok=False)
        self._pushing = Pushing("tallgrass-metrics", self._push, every_s, failed=failed)

    def start(self) -> None:
        """Begin to send."""
        self._pushing.start()

    def close(self, timeout_s: float) -> None:
        """Send once more, and wait for that no longer than so."""
        self._pushing.close(timeout_s)
        self._exporter.shutdown()

    def _push(self) -> None:
        families = self._collect()
        if not families:
            return
        data = metrics_data(families, self._resource, self._since_ns, self._now_ns())
        self._sent(ok=self._exporter.export(data) is MetricExportResult.SUCCESS)


def metrics_data(
    families: Sequence[Family], resource: Resource, since_ns: int, now_ns: int
) -> MetricsData:
    """Return the series as the SDK's exporters take them."""
    metrics = [_metric(family, since_ns, now_ns) for family in families]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(family: Family, since_ns: int, now_ns: int) -> Metric:
    about = family.metric
    data: Sum | Gauge | Histogram
    if about.kind is MetricKind.HISTOGRAM:
        data = Histogram(_spreads(family, since_ns, now_ns), _CUMULATIVE)
    else:
        points = [
            NumberDataPoint(_attributes(family, key), since_ns, now_ns, value)
            for key, value in family.numbers.items()
        ]
        data = (
            Sum(points, _CUMULATIVE, is_monotonic=True)
            if about.kind is MetricKind.COUNTER
            else Gauge(points)
        )
    unit = "" if _IN_NAME.get(about.unit, about.unit) in about.name else about.unit
    return Metric(name=about.name, description=about.meaning, unit=unit, data=data)


def _spreads(family: Family, since_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    return [
        HistogramDataPoint(
            attributes=_attributes(family, labels),
            start_time_unix_nano=since_ns,
            time_unix_nano=now_ns,
            count=sum(buckets.counts),
            sum=buckets.total,
            bucket_counts=buckets.counts,
            explicit_bounds=buckets.bounds,
            min=buckets.low,
            max=buckets.high,
        )
        for labels, buckets in family.buckets.items()
    ]


def _attributes(family: Family, labels: Labels) -> Mapping[str, str]:
    return dict(zip(family.metric.all_labels, labels, strict=True))

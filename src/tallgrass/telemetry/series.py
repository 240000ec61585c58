"""Metrics as they add up in this process, ready to be scraped or sent.

A histogram of the OpenTelemetry SDK takes one value a call, 7 µs each; a batch has a thousand.
Here a value costs a bisection, and both exporters read the same sums.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tallgrass.telemetry.names import METRICS, Metric, MetricKind

#: Series of one metric; what comes beyond is added up under `OTHER`.
SERIES_MAX = 2_000
OTHER = "other"

_COUNTS = (1, 2, 3, 5, 8, 16, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
_SMALL = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1_000.0)
#: Upper ends of a histogram's buckets by unit. 90 s and 300 s are service levels.
BOUNDS: Mapping[str, tuple[float, ...]] = {
    "1": _COUNTS,
    "s": (
        0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 90, 120, 300, 600, 1_800, 3_600,
        21_600, 86_400,
    ),
    "ms": (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000, 600_000),
    "W.h": _SMALL,
    "g": _SMALL,
}  # fmt: skip

#: Values of a series' labels, in the order of `Metric.all_labels`.
Labels = tuple[str, ...]


@dataclass(slots=True)
class Buckets:
    """How the values of a series are spread."""

    bounds: tuple[float, ...]
    #: One more than bounds: the last is for what lies above all.
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, values: Sequence[float]) -> None:
        """Count values; a bound belongs to the bucket below it."""
        for value in values:
            self.counts[bisect_left(self.bounds, value)] += 1
        self.total += sum(values)
        self.low = min(self.low, *values)
        self.high = max(self.high, *values)

    def copy(self) -> "Buckets":
        """Return what stands now."""
        return Buckets(self.bounds, list(self.counts), self.total, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All series of a metric at one moment."""

    metric: Metric
    numbers: Mapping[Labels, float] = field(default_factory=dict)
    buckets: Mapping[Labels, Buckets] = field(default_factory=dict)


#: What an exporter calls when it wants to know.
Collect = Callable[[], Sequence[Family]]


class Series:
    """Adds up what is reported; any thread may report and any may read."""

    def __init__(self, env: str, *, series_max: int = SERIES_MAX) -> None:
        self._env = env
        self._series_max = series_max
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._buckets: dict[str, dict[Labels, Buckets]] = {}
        self._lock = threading.Lock()

    def count(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add to a counter."""
        metric = METRICS[name]
        with self._lock:
            series = self._numbers.setdefault(name, {})
            key = self._key(metric, labels, series)
            series[key] = series.get(key, 0) + value

    def observe(self, name: str, values: Sequence[float], labels: Mapping[str, str]) -> None:
        """Add values to a histogram."""
        if not values:
            return
        metric = METRICS[name]
        with self._lock:
            series = self._buckets.setdefault(name, {})
            key = self._key(metric, labels, series)
            if key not in series:
                bounds = BOUNDS[metric.unit]
                series[key] = Buckets(bounds, [0] * (len(bounds) + 1))
            series[key].add(values)

    def gauge(self, name: str, readings: Mapping[Labels, float]) -> None:
        """Set all series of a gauge; others of it end."""
        metric = METRICS[name]
        series: dict[Labels, float] = {}
        for values, number in readings.items():
            labels = dict(zip(metric.labels, values, strict=True))
            series[self._key(metric, labels, series)] = number
        with self._lock:
            self._numbers[name] = series

    def forget_gauges(self) -> None:
        """End all series of all gauges: where they stand is not known."""
        with self._lock:
            for name in [n for n in self._numbers if METRICS[n].kind is MetricKind.GAUGE]:
                del self._numbers[name]

    def families(self) -> list[Family]:
        """Return what stands now, in the table's order; metrics without a series are left out."""
        with self._lock:
            numbers = {name: dict(series) for name, series in self._numbers.items()}
            buckets = {
                name: {key: each.copy() for key, each in series.items()}
                for name, series in self._buckets.items()
            }
        return [
            Family(metric=metric, buckets=buckets[metric.name])
            if metric.kind is MetricKind.HISTOGRAM
            else Family(metric=metric, numbers=numbers[metric.name])
            for metric in METRICS.values()
            if numbers.get(metric.name) or buckets.get(metric.name)
        ]

    def _key(
        self, metric: Metric, labels: Mapping[str, str], series: Mapping[Labels, object]
    ) -> Labels:
        """Return the series' labels; a series too many is one of the others."""
        own = tuple(labels[label] for label in metric.labels)
        env = (self._env,) if metric.has_env else ()
        key = (*own, *env)
        if key in series or len(series) < self._series_max:
            return key
        return (*(OTHER for _ in own), *env)

"""A recorder that keeps what it is told, for whoever looks at it afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallgrass.errors import InvalidInput
from tallgrass.telemetry.names import EVENTS, METRICS, SPANS, MetricKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tallgrass.telemetry.trace_context import SpanPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    """A span as it was reported."""

    name: str
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, object]
    place: SpanPlace | None = None


@dataclass(slots=True, kw_only=True)
class MemoryRecorder:
    """Keeps all that is reported, and refuses what the table of names does not know."""

    env: str = "test"
    enabled: bool = True
    tracing: bool = True
    #: Traces whose spans are kept; None for all.
    sampled: frozenset[str] | None = None
    _counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)
    _observed: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = field(
        default_factory=dict
    )
    #: Where each gauge stands, by its label values in the table's order, `env` last.
    gauges: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    spans: list[RecordedSpan] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    #: How often `count`, `observe` or `gauge` was called.
    reports: int = 0

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add to a counter."""
        key = self._series(name, MetricKind.COUNTER, labels)
        if not value >= 0:
            raise InvalidInput(f"{name}: a counter cannot grow by {value}")
        self._counts[key] += value  # type: ignore[assignment]  # Counter also adds floats
        self.reports += 1

    def observe(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Add the values of a batch to a histogram."""
        key = self._series(name, MetricKind.HISTOGRAM, labels)
        self._observed.setdefault(key, []).extend(values)
        self.reports += 1

    def gauge(self, name: str, readings: Mapping[tuple[str, ...], float]) -> None:
        """Keep where a gauge stands."""
        metric = METRICS.get(name)
        if metric is None or metric.kind is not MetricKind.GAUGE:
            raise InvalidInput(f"{name} is no gauge")
        kept: dict[tuple[str, ...], float] = {}
        for values, number in readings.items():
            labels = dict(zip(metric.labels, values, strict=True))
            _, series = self._series(name, MetricKind.GAUGE, labels)
            kept[tuple(value for _, value in series)] = number
        self.gauges[name] = kept
        self.reports += 1

    def samples(self, trace_id: str) -> bool:
        """Keep all, or those of the traces that were named."""
        return self.sampled is None or trace_id in self.sampled

    def span(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace | None = None,
    ) -> None:
        """Note a stretch of time that has ended."""
        declared = SPANS.get(name)
        _require(name, "span", None if declared is None else declared.attributes, attributes)
        if ended_at < started_at:
            raise InvalidInput(f"span {name} ends before it starts")
        self.spans.append(
            RecordedSpan(
                name=name,
                started_at=started_at,
                ended_at=ended_at,
                attributes=dict(attributes),
                place=place,
            )
        )

    def event(self, name: str, **fields: object) -> None:
        """Write a line of the log."""
        declared = EVENTS.get(name)
        _require(name, "log event", None if declared is None else declared.fields, fields)
        self.events.append((name, fields))

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a counter over all series that have these labels."""
        wanted = labels.items()
        return sum(
            value
            for (counted, series), value in self._counts.items()
            if counted == name and wanted <= dict(series).items()
        )

    def by_labels(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter's values by its label values, in the table's order, `env` last."""
        return {
            tuple(value for _, value in series): number
            for (counted, series), number in self._counts.items()
            if counted == name
        }

    def observed(self, name: str, **labels: str) -> list[float]:
        """Return the values of a histogram over all series that have these labels."""
        wanted = labels.items()
        return [
            value
            for (seen, series), values in self._observed.items()
            if seen == name and wanted <= dict(series).items()
            for value in values
        ]

    def _series(
        self, name: str, kind: MetricKind, labels: Mapping[str, str]
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        metric = METRICS.get(name)
        _require(name, kind.value, None if metric is None else metric.labels, labels)
        if metric is None or metric.kind is not kind:
            raise InvalidInput(f"{name} is no {kind.value}")
        added = {"env": self.env} if metric.has_env else {}
        values = {**labels, **added}
        return name, tuple((label, values[label]) for label in metric.all_labels)


def _require(
    name: str, kind: str, declared: tuple[str, ...] | None, given: Mapping[str, object]
) -> None:
    """Refuse a name that is not in the table, and labels, attributes or fields that are not its."""
    if declared is None:
        raise InvalidInput(f"{name!r} is not a {kind} of the table of names")
    if set(given) != set(declared):
        raise InvalidInput(
            f"{kind} {name} has {', '.join(declared) or 'nothing'}, "
            f"not {', '.join(sorted(given)) or 'nothing'}"
        )

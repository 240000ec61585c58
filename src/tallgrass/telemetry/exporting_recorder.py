"""The recorder of a process whose metrics and spans leave it."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.sampling import Sampler
from tallgrass.telemetry.series import Series
from tallgrass.telemetry.trace_context import SpanContext, SpanPlace, named_context


class Spans(Protocol):
    """Takes spans that have ended; never waits."""

    def __call__(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace,
    ) -> None:
        """Take one."""


class ExportingRecorder:
    """Adds metrics up, hands on the spans of sampled traces, and writes the log as another does."""

    enabled = True

    def __init__(
        self,
        series: Series,
        log: Recorder,
        sampler: Sampler,
        spans: Spans | None = None,
        call: SpanContext | None = None,
    ) -> None:
        self._series = series
        self._log = log
        self._sampler = sampler
        self._spans = spans
        #: The span of the command's call, in which everything is reported.
        self._call = call

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add to a counter."""
        self._series.count(name, value, labels)

    def observe(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Add the values of a batch to a histogram."""
        self._series.observe(name, values, labels)

    def gauge(self, name: str, readings: Mapping[tuple[str, ...], float]) -> None:
        """Say where a gauge stands."""
        self._series.gauge(name, readings)

    @property
    def tracing(self) -> bool:
        """Whether spans of any trace go anywhere."""
        return self._spans is not None and self._sampler.keeps_any

    def samples(self, trace_id: str) -> bool:
        """Tell whether the spans of a trace go anywhere."""
        return self._spans is not None and self._sampler.keeps(trace_id)

    def span(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace | None = None,
    ) -> None:
        """Hand a span on if its trace is sampled."""
        if self._spans is None:
            return
        place = self._placed(place)
        if self._sampler.keeps(place.context.trace_id):
            self._spans(name, started_at, ended_at, attributes, place)

    def _placed(self, place: SpanPlace | None) -> SpanPlace:
        """Put a span without a place below the call; link a root that nothing led to with it."""
        call = self._call
        if place is None:
            name = uuid.uuid4().hex
            if call is None:
                return SpanPlace(named_context("span", name))
            return SpanPlace(call.below(name), call)
        if call is None or place.parent is not None or place.links or place.context == call:
            return place
        return place._replace(links=(call,))

    def event(self, name: str, **fields: object) -> None:
        """Write a line of the log."""
        self._log.event(name, **fields)

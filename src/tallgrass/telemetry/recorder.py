"""Where the pipeline reports to: called after the commit it describes, once a batch.

A counter costs about 10 µs in an exporter, a tenth of a unit's budget: so counts are added up over
a batch and reported once for each combination of labels, and nothing is added up for nobody.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from tallgrass.telemetry.names import METRICS
from tallgrass.telemetry.trace_context import SpanPlace


class Recorder(Protocol):
    """Takes metrics, spans and log events by the names in ``names.py``."""

    @property
    def enabled(self) -> bool:
        """Whether anybody listens; where not, nothing need be gathered."""

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add to a counter."""

    def observe(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Add the values of a batch to a histogram."""

    def gauge(self, name: str, readings: Mapping[tuple[str, ...], float]) -> None:
        """Say where a gauge stands: all its series, by label values in the metric's order.

        A series that is not among them has ended.
        """

    @property
    def tracing(self) -> bool:
        """Whether spans of any trace are kept; where not, no id of one need be made."""

    def samples(self, trace_id: str) -> bool:
        """Tell whether spans of a trace are kept; where not, none need be made."""

    def span(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace | None = None,
    ) -> None:
        """Note a stretch of time that has ended; without a place it stands below the call.

        The call is that of the command; where there is none, the span is a trace of its own.
        An attribute that is None is not there; `error.type` says that it ended badly.
        """

    def event(self, name: str, **fields: object) -> None:
        """Write a line of the log."""


class NoopRecorder:
    """Nobody listens: the default."""

    enabled = False
    tracing = False

    def count(self, name: str, value: float, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Do nothing."""

    def gauge(self, name: str, readings: Mapping[tuple[str, ...], float]) -> None:
        """Do nothing."""

    def samples(self, trace_id: str) -> bool:  # noqa: ARG002 - the protocol's
        """Keep nothing."""
        return False

    def span(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace | None = None,
    ) -> None:
        """Do nothing."""

    def event(self, name: str, **fields: object) -> None:
        """Do nothing."""


NOBODY = NoopRecorder()


def count_each(recorder: Recorder, name: str, labels: Iterable[tuple[str, ...]]) -> None:
    """Count one for each tuple of label values, given in the metric's order.

    They are added up first. Where nobody listens, `labels` is not even iterated.
    """
    if not recorder.enabled:
        return
    names = METRICS[name].labels
    for values, number in Counter(labels).items():
        recorder.count(name, number, **dict(zip(names, values, strict=True)))


def observe_each(
    recorder: Recorder, name: str, values: Iterable[tuple[tuple[str, ...], float]]
) -> None:
    """Observe values, each with its label values in the metric's order; one report a combination.

    Where nobody listens, `values` is not even iterated.
    """
    if not recorder.enabled:
        return
    gathered: dict[tuple[str, ...], list[float]] = {}
    for labels, value in values:
        gathered.setdefault(labels, []).append(value)
    names = METRICS[name].labels
    for labels, observed in gathered.items():
        recorder.observe(name, observed, **dict(zip(names, labels, strict=True)))

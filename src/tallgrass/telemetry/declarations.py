"""What is declared of a metric, a span and a log event, and how a table of them is made."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar


class MetricKind(StrEnum):
    """How the values of a metric add up."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number over time."""

    name: str
    kind: MetricKind
    #: What a call gives. `env` is not among them: the recorder adds it where `has_env` says so.
    labels: tuple[str, ...]
    has_env: bool = False
    #: As UCUM writes it: `1` for plain counts, `s` for seconds, `By` for bytes.
    unit: str
    meaning: str

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels as they are exported."""
        return (*self.labels, "env") if self.has_env else self.labels

    @property
    def prometheus_name(self) -> str:
        """The name as Prometheus is given it; the series of a histogram add their own ends."""
        name = self.name.replace(".", "_")
        counts = self.kind is MetricKind.COUNTER and not name.endswith("_total")
        return f"{name}_total" if counts else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time."""

    name: str
    parent: str | None
    attributes: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """Something worth a line of the log."""

    name: str
    #: `info`, `warning` or `error`.
    level: str
    fields: tuple[str, ...]
    meaning: str


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


def table(entries: Iterable[_Entry]) -> dict[str, _Entry]:
    """Return the entries by name; a name that is declared twice is a mistake."""
    by_name: dict[str, _Entry] = {}
    for entry in entries:
        if entry.name in by_name:
            raise ValueError(f"{entry.name} is declared twice")
        by_name[entry.name] = entry
    return by_name

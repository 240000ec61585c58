"""The telemetry files that releases carry, as documents (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

import orjson

from tallgrass.clock import format_instant
from tallgrass.telemetry.energy_lines import EnergyTotals, carbon_document, energy_document
from tallgrass.telemetry.names import METRICS

#: The files, and the schema of what each holds: of the whole document, or of each line.
NODD: Final = "nodd-sns-telemetry.json"
FOCUS: Final = "focus-telemetry.json"
RELIABILITY: Final = "reliability-telemetry.json"
SCHEMAS: Final = {
    NODD: "nodd-sns-sqs-v1",
    FOCUS: "pipelines-idempotency-outbox-v1",
    RELIABILITY: "reliability-execution-engine-v11",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A series of a counter; label values in the metric's order, without `env`."""

    name: str
    labels: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """A series of a histogram of whole numbers: each value, and how often it was."""

    name: str
    labels: tuple[str, ...]
    values: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an export is of."""

    release: str
    env: str
    at: datetime


def schema(name: str) -> dict[str, Any]:
    """Return a schema that is shipped, by its name."""
    folder = files("tallgrass.telemetry").joinpath("schemas")
    read: dict[str, Any] = orjson.loads(folder.joinpath(f"{name}.json").read_bytes())
    return read


def nodd_document(
    about: About,
    counted: Sequence[Counted],
    numbered: Sequence[Numbered],
    energy: EnergyTotals | None,
) -> dict[str, Any]:
    """Return `nodd-sns-telemetry.json`; energy is null where it is not measured."""
    counters = [
        {**_series(about, each.name, each.labels), "value": each.number} for each in counted
    ]
    histograms = [
        {
            **_series(about, each.name, each.labels),
            "count": sum(each.values.values()),
            "sum": sum(value * number for value, number in each.values.items()),
            "values": {str(value): number for value, number in sorted(each.values.items())},
        }
        for each in numbered
    ]
    return {
        "schema": SCHEMAS[NODD],
        "release": about.release,
        "env": about.env,
        "generated_at": format_instant(about.at),
        "metrics": [*counters, *histograms],
        "energy": None if energy is None else energy_document(energy),
        "carbon": None if energy is None else carbon_document(energy),
    }


def _series(about: About, name: str, labels: tuple[str, ...]) -> dict[str, Any]:
    metric = METRICS[name]
    values = dict(zip(metric.labels, labels, strict=True))
    return {
        "name": name,
        "type": metric.kind.value,
        "unit": metric.unit,
        "labels": {**values, "env": about.env} if metric.has_env else values,
    }

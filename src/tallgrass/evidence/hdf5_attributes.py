"""What the attributes of an HDF5 file mean: from when to when, and where."""

from collections.abc import Mapping
from typing import Any

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.evidence.header import NOT_THE_FORMAT, Verdict

_DIGITS = 4
#: Key of the evidence → attribute.
_TIMES = {"start": "time_coverage_start", "end": "time_coverage_end"}
_LATITUDE_MAX, _LONGITUDE_MAX = 90.0, 180.0


def with_attributes(header: Mapping[str, object], answer: Mapping[str, Any]) -> Verdict:
    """Return the header with what the file's attributes say, and what is wrong with it."""
    if "error" in answer:
        return {**header, "complete": False}, (NOT_THE_FORMAT,)
    told = {**header, **_times(answer["attributes"])}
    rest = {
        name: text for name, text in answer["attributes"].items() if name not in _TIMES.values()
    }
    if rest:
        told["attributes"] = rest
    box = _box(answer.get("bbox"))
    if box is not None:
        told["bbox"] = box
    return told, ()


def _times(attributes: Mapping[str, str]) -> dict[str, object]:
    """Return the times that can be read; some makers write theirs in other forms."""
    times: dict[str, object] = {}
    for key, name in _TIMES.items():
        text = attributes.get(name)
        if text is not None:
            try:
                times[key] = format_instant(parse_instant(text.removesuffix("Z") + "Z"))
            except InvalidInput:
                return {}
    return times


def _box(values: Any) -> list[float] | None:
    """Return the box, if it is one: fill values stand in files without navigation."""
    if values is None:
        return None
    west, south, east, north = (round(float(value), _DIGITS) + 0.0 for value in values)
    on_earth = max(abs(west), abs(east)) <= _LONGITUDE_MAX and south >= -_LATITUDE_MAX
    return [west, south, east, north] if on_earth and south <= north <= _LATITUDE_MAX else None

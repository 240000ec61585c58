"""What the attributes of an HDF5 file mean: from when to when, where, and what."""

import re
from collections.abc import Mapping
from typing import Any

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.evidence.cf_grids import cf_grid
from tallgrass.evidence.header import NOT_THE_FORMAT, Seen, Verdict
from tallgrass.evidence.swath import box_around, ring_through

_DIGITS = 4
#: Digits of a radian: 36 mm on the ground from a geostationary orbit.
_ANGLE_DIGITS = 9
_ANGLE_MAX = 0.5
#: No satellite is so far away.
_METRES_MAX = 1e9
#: Key of the evidence → attribute.
_TIMES = {"start": "time_coverage_start", "end": "time_coverage_end"}
_LATITUDE_MAX, _LONGITUDE_MAX = 90.0, 180.0
_SIDE_MIN = 2

#: Parts of the names of attributes and variables that tell a place.
_PLACE_NAMES = (b"geospatial", b"field_of_view", b"_Bounding_", b"_projection")

_RESOLUTION = re.compile(r"(\d+(?:\.\d+)?) ?(km|m)\b.*", re.IGNORECASE)
_METRES = {"km": 1000.0, "m": 1.0}
_SLOTS = {"GOES-East": "East", "GOES-West": "West", "GOES-Test": "Test"}
#: How the makers of swaths number the direction of flight; 2 is both in one file.
_ORBIT_STATES = {0: "ascending", 1: "descending", 2: "crossing"}
_DAY_NIGHT = {"day": "day", "night": "night", "both": "both", "mixed": "both"}
#: Property → fact, and the least and greatest value that is none of the fill values.
_GOES_VALUES = {
    "goes:event_count": ("event_count", 0, 1e9),
    "goes:group_count": ("group_count", 0, 1e9),
    "goes:flash_count": ("flash_count", 0, 1e9),
    "goes:lightning_wavelength": ("lightning_wavelength", 0, 1e9),
    "goes:group_time_threshold": ("group_time_threshold", 0, 1e9),
    "goes:flash_time_threshold": ("flash_time_threshold", 0, 1e9),
    "goes:yaw_flip_flag": ("yaw_flip_flag", 0, 2),
    "goes:nominal_satellite_subpoint_lat": ("nominal_satellite_subpoint_lat", -90, 90),
    "goes:nominal_satellite_subpoint_lon": ("nominal_satellite_subpoint_lon", -180, 180),
    "goes:nominal_satellite_height": ("nominal_satellite_height", 0, 1e9),
    "goes:percent_navigated_L1b_events": ("percent_navigated_L1b_events", 0, 1),
    "goes:percent_uncorrectable_L0_errors": ("percent_uncorrectable_L0_errors", 0, 1),
}


def may_tell_a_place(seen: Seen) -> bool:
    """Tell whether a file may say where it lies: unless all of it was seen, and no such name."""
    return seen.size > len(seen.head) or any(name in seen.head for name in _PLACE_NAMES)


def with_attributes(header: Mapping[str, object], answer: Mapping[str, Any]) -> Verdict:
    """Return the header with what the file's attributes say, and what is wrong with it."""
    if "error" in answer:
        return {**header, "complete": False}, (NOT_THE_FORMAT,)
    attributes, facts = answer["attributes"], answer.get("facts", {})
    told = {**header, **_model_times(attributes), **_times(attributes)}
    rest = {name: text for name, text in attributes.items() if name not in _TIMES.values()}
    found = {
        "attributes": rest or None,
        "bbox": _box(answer.get("bbox")) or _boxes(answer.get("boxes")),
        "footprint": ring_through(answer["ring"]) if "ring" in answer else None,
        "grid": _grid(answer.get("grid")),
        "properties": _properties(attributes, facts) or None,
    }
    told |= {name: value for name, value in found.items() if value is not None}
    unusable = _unusable(answer, found)
    if unusable is not None:
        told["unusable"] = unusable
    grid = cf_grid(answer["mapping"]) if "mapping" in answer else None
    if grid is not None:
        told |= {"grid": grid.told, "bbox": grid.bbox, "footprint": grid.footprint}
    return told, ()


def _unusable(answer: Mapping[str, Any], found: Mapping[str, object]) -> str | None:
    """Return what should tell where the file lies, and does not: its grid or its swath.

    A box alone may be written in many ways, such as with longitudes up to 360; it is left out.
    """
    if "grid" in answer and found["grid"] is None:
        return "grid"
    if found["bbox"] is not None or found["footprint"] is not None or found["grid"] is not None:
        return None
    return "swath" if "ring" in answer or "boxes" in answer else None


# --- when and where -------------------------------------------------------------------------------


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


def _model_times(attributes: Mapping[str, str]) -> dict[str, object]:
    """Return the times of a hydrological model: for when a file is, and of which run.

    An analysis calls the begin of its own short run so, hours before the cycle it belongs to.
    """
    valid = _model_time(attributes.get("model_output_valid_time"))
    if valid is None:
        return {}
    times: dict[str, object] = {"start": valid, "end": valid}
    run = _model_time(attributes.get("model_initialization_time"))
    if run is not None and "analysis" not in attributes.get("model_configuration", "analysis"):
        times["reference_time"] = run
    return times


def _model_time(text: str | None) -> str | None:
    """Return a time such as 2026-06-01_12:00:00 as evidence has it."""
    try:
        return None if text is None else format_instant(parse_instant(text.replace("_", "T") + "Z"))
    except InvalidInput:
        return None


def _box(values: Any) -> list[float] | None:
    """Return the box, if it is one: fill values stand in files without navigation."""
    if values is None or None in values:
        return None
    west, south, east, north = (round(float(value), _DIGITS) + 0.0 for value in values)
    on_earth = max(abs(west), abs(east)) <= _LONGITUDE_MAX and south >= -_LATITUDE_MAX
    return [west, south, east, north] if on_earth and south <= north <= _LATITUDE_MAX else None


def _boxes(values: Any) -> list[float] | None:
    """Return the box around those of several granules, if every one is one."""
    boxes = [_box(each) for each in values or ()]
    sound = [box for box in boxes if box is not None]
    return box_around(sound) if sound and len(sound) == len(boxes) else None


def _grid(told: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Return a geostationary grid, if its numbers are those of one."""
    if told is None:
        return None
    x, y, shape = told["x"], told["y"], told["shape"]
    sizes = [told[name] for name in ("height", "semi_major", "semi_minor")]
    numbers = [*x, *y, told["longitude"], *sizes]
    if (
        None in numbers
        or not 0 < min(sizes) <= max(sizes) <= _METRES_MAX
        or abs(told["longitude"]) > _LONGITUDE_MAX
    ):
        return None
    axes = max(map(abs, (*x, *y))) < _ANGLE_MAX and x[0] != x[1] and y[0] != y[1]
    if not axes or min(shape) < _SIDE_MIN or told["sweep"] not in {"x", "y"}:
        return None
    angles = {name: [round(v, _ANGLE_DIGITS) + 0.0 for v in told[name]] for name in ("x", "y")}
    return {**told, **angles}


# --- what -----------------------------------------------------------------------------------------


def _properties(attributes: Mapping[str, str], facts: Mapping[str, Any]) -> dict[str, object]:
    """Return the STAC properties that only the file knows."""
    found: dict[str, object] = {
        "processing:facility": facts.get("production_site"),
        "gsd": _gsd(facts),
        "goes:orbital_slot": _SLOTS.get(attributes.get("orbital_slot", "")),
        "sat:absolute_orbit": _orbit(attributes, facts),
        "sat:orbit_state": _ORBIT_STATES.get(_either(facts, *_ORBIT_FACTS)),
        "jpss:day_night": _DAY_NIGHT.get(_day_night(attributes, facts)),
    }
    for name, (fact, least, most) in _GOES_VALUES.items():
        value = facts.get(fact)
        if isinstance(value, int | float) and least <= value <= most:
            found[name] = value
    return {name: value for name, value in found.items() if value is not None}


_ORBIT_FACTS = ("Ascending/Descending_Indicator", "ascend_descend_data_flag")


def _either(facts: Mapping[str, Any], *names: str) -> Any:
    return next((facts[name] for name in names if name in facts), None)


def _gsd(facts: Mapping[str, Any]) -> float | None:
    """Return the metres of `2km at nadir` or `750M`."""
    match = _RESOLUTION.fullmatch(str(_either(facts, "spatial_resolution", "resolution") or ""))
    if match is None:
        return None
    metres = float(match[1]) * _METRES[match[2].lower()]
    return int(metres) if metres.is_integer() else metres


def _orbit(attributes: Mapping[str, str], facts: Mapping[str, Any]) -> int | None:
    told = str(facts.get("N_Beginning_Orbit_Number", attributes.get("start_orbit_number", "")))
    return int(told) or None if told.isdecimal() else None


def _day_night(attributes: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    told = facts.get("N_Day_Night_Flag", attributes.get("day_night_data_flag", ""))
    return str(told).lower()

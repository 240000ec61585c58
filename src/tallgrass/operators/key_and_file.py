"""Whether key and file speak of the same data: for when, of which satellite, radar and product.

A file under another's key is sound in itself, and its item would be wrong. Each contradiction is a
sentence for the issue that it becomes; what one of the two does not tell is not compared.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.datasets.definition import FileFormat
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.datasets.key_times import UNKNOWN_START

#: Both write the same span, each to its own digits.
_SPAN_APART_MAX = timedelta(seconds=2)
#: A radar's key may be stamped with the first radial or with the header; a mosaic has its own.
_STAMP_APART_MAX = timedelta(minutes=2)
#: A chunk's key holds the start of its volume, which takes ten minutes at most, or twelve.
_VOLUME_MAX = timedelta(minutes=20)
#: A file that is written every quarter of an hour is named by the hour in which it ends.
_STEP_MAX = timedelta(hours=1)
#: Keys that name a day or more, and those that name the issue of a forecast.
_DAYS_APART_MAX = timedelta(days=1)
#: Where the two agree so far, the one with more digits is believed.
_SECOND = timedelta(seconds=1)
_RADARS = frozenset(
    {
        FileFormat.NEXRAD_LEVEL2,
        FileFormat.NEXRAD_LEVEL2_RADIALS,
        FileFormat.NEXRAD_CHUNK,
        FileFormat.NEXRAD_LEVEL3,
    }
)
#: What GRIB2 alone tells of its messages.
_OF_MESSAGES = "reference_time_significance"
#: A place of the dataset's table is recognised by its sides, in degrees.
_SIDE_APART_MAX = 0.5
_GOES_NAME = re.compile(r"[A-Z]{2}_(?P<instrument>[A-Z]+)-(?P<product>[A-Za-z0-9-]+)_.+")

Header = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTimes:
    """From when to when the file is by its own header; `run`: of a forecast, where it tells."""

    start: datetime
    end: datetime
    run: datetime | None


def finer(of_key: datetime | None, of_file: datetime) -> datetime:
    """Return the file's time, but the key's where that has more digits of the same second."""
    if of_key is None or of_file.microsecond or abs(of_key - of_file) >= _SECOND:
        return of_file
    return of_key


def times_apart(match: KeyMatch, told: ToldTimes, header: Header) -> str | None:
    """Return how the times of key and file contradict each other, if they do."""
    if match.start == UNKNOWN_START or _agree(match, told, header):
        return None
    key, file = (_span_text(*each) for each in (_span_of_key(match), (told.start, told.end)))
    return f"the key says {key}, the file {file}"


def _span_of_key(match: KeyMatch) -> tuple[datetime, datetime | None]:
    if match.accumulation is not None:
        return match.start - match.accumulation, match.start
    return match.start, match.end


def _span_text(start: datetime, end: datetime | None) -> str:
    if end is None or end == start:
        return format_instant(start)
    return f"{format_instant(start)} to {format_instant(end)}"


def _agree(match: KeyMatch, told: ToldTimes, header: Header) -> bool:
    if match.reference is not None:
        return _agree_on_step(match, told, header)
    start, end = _span_of_key(match)
    if match.accumulation is not None:
        return abs(match.start - told.end) <= _STAMP_APART_MAX
    if end is not None and _SECOND <= end - start < _DAYS_APART_MAX - _SECOND:
        return max(abs(start - told.start), abs(end - told.end)) <= _SPAN_APART_MAX
    if match.dataset.format in _RADARS:
        chunk = match.dataset.format is FileFormat.NEXRAD_CHUNK
        early = _VOLUME_MAX if chunk else _STAMP_APART_MAX
        return told.start - early <= start <= told.start + _STAMP_APART_MAX
    apart = _STAMP_APART_MAX if end == start and _OF_MESSAGES in header else _DAYS_APART_MAX
    # A key may name the issue of a forecast alone, days before what it is for.
    first = min(told.run or told.start, told.start)
    return first - apart <= start <= told.end + apart


def _agree_on_step(match: KeyMatch, told: ToldTimes, header: Header) -> bool:
    """Tell whether the file is for the time that the key of a model's output names."""
    if match.end is None or (told.start < told.end and _OF_MESSAGES not in header):
        near = told.start - _DAYS_APART_MAX <= match.start <= told.end + _DAYS_APART_MAX
        return near or told.start - _DAYS_APART_MAX <= (match.reference or match.start) <= told.end
    if told.end == match.start:
        return True
    # Of steps shorter than the hour that the key counts in, the last ones may be missing.
    between_hours = told.end.minute or told.end.second
    inside = match.start - _STEP_MAX < told.end < match.start
    return bool(inside and between_hours and _OF_MESSAGES in header)


# --- what it is -----------------------------------------------------------------------------------


def contradictions(match: KeyMatch, header: Header) -> Iterator[str]:
    """Yield what the file says of itself and the key otherwise."""
    for what, of_key, of_file in _pairs(match, header):
        if of_key is not None and of_file is not None and of_key != of_file:
            yield f"the key names the {what} {of_key}, the file {of_file}"
    product = _goes_product(match, header)
    if product is not None:
        yield product
    place = _place_of_another(match, header)
    if place is not None:
        yield (
            f"the key names {match.groups[match.dataset.item.place_group or '']}, "
            f"the file lies where {place} does"
        )
    if _is_silent(match, header):
        yield "the file does not say for when it is, as this model's output does"


def _pairs(match: KeyMatch, header: Header) -> Iterator[tuple[str, object, object]]:
    """Yield what both may tell: its name, the key's word, the file's."""
    groups, attributes = match.groups, header.get("attributes")
    yield "site", groups.get(match.dataset.item.place_group or ""), header.get("site")
    if isinstance(attributes, dict):
        satellite, told = groups.get("satellite"), str(attributes.get("platform_ID", ""))
        if satellite is not None and satellite.isdecimal() and told:
            yield "satellite", f"G{satellite}", told
    if match.dataset.format is FileFormat.NEXRAD_LEVEL3:
        yield "product", groups.get("product"), header.get("product")
    if match.dataset.format is FileFormat.NEXRAD_CHUNK:
        yield "part", groups.get("part"), header.get("part")
        volume = groups.get("volume")
        yield "volume", None if volume is None else int(volume), header.get("volume_number")


def _goes_product(match: KeyMatch, header: Header) -> str | None:
    """Return how a satellite's file is of another instrument or product than its key."""
    attributes = header.get("attributes")
    if not isinstance(attributes, dict) or "satellite" not in match.groups:
        return None
    told = _GOES_NAME.fullmatch(str(attributes.get("dataset_name", "")))
    instruments = match.dataset.item.properties.get("instruments")
    if told is None or not isinstance(instruments, list):
        return None
    level, product = match.groups.get("level"), match.groups.get("product")
    begin = "" if not (level and product) else f"{level}-{product}{match.groups.get('scene') or ''}"
    if told["instrument"].lower() in instruments and told["product"].startswith(begin):
        return None
    named = "-".join(filter(None, ["/".join(map(str, instruments)).upper(), begin]))
    return f"the key names the product {named}, the file is {told[0]}"


def _place_of_another(match: KeyMatch, header: Header) -> str | None:
    """Return the other place of the dataset's table that the file's box is, if it is one.

    Some folders also hold files of a neighbour, so that a box that overlaps the key's place passes.
    """
    rules, box = match.dataset.item, header.get("bbox")
    named = match.groups.get(rules.place_group or "")
    if not isinstance(box, list) or named is None or _overlap(rules.places.get(named), box):
        return None
    return next((name for name, place in rules.places.items() if _is_box(place, box)), None)


def _overlap(place: tuple[float, ...] | None, box: list[float]) -> bool:
    if place is None or len(place) != len(box):
        return False
    (west, south, east, north), (left, lower, right, upper) = place, box
    # One that crosses the antimeridian is left to the latitudes.
    apart = west <= east and left <= right and (right < west or east < left)
    return not apart and lower <= north and south <= upper


def _is_box(place: tuple[float, ...] | None, box: list[float]) -> bool:
    if place is None or len(place) != len(box):
        return False
    return all(abs(a - b) <= _SIDE_APART_MAX for a, b in zip(place, box, strict=True))


def _is_silent(match: KeyMatch, header: Header) -> bool:
    """Tell whether attributes were read, and no time among them, where a model writes it."""
    read = "bbox" in header or "attributes" in header
    model = match.dataset.format is FileFormat.HDF5 and match.reference is not None
    return model and read and "start" not in header

"""Where a JSON document speaks of places, and the same document with coarser ones.

Longitude comes first in arrays, as in GeoJSON. In texts either may come first, so a pair is taken
both ways. What tells a place in a form that cannot be made coarser is left out of a coarse
document.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tallgrass.canonical_json import canonical_text

#: Longitude and latitude in degrees.
Position = tuple[float, float]
Document = Mapping[str, Any]

_PAIR = 2
_BOX = 4
_BOX_WITH_HEIGHTS = 6
_LATITUDE_MAX = 90.0
#: Many files count longitudes from 0 to 360.
_LONGITUDE_MAX = 360.0
_ROUND = 360.0

_LATITUDE = re.compile(r"(?:^|[_:. -])(?:lat|latitude)s?(?=$|[_:. -])", re.IGNORECASE)
_LONGITUDE = re.compile(r"(?:^|[_:. -])(?:lon|lng|long|longitude)s?(?=$|[_:. -])", re.IGNORECASE)
#: Arrays of two numbers, or of such arrays, that are places, in whichever order; also {x, y}.
_POINTS = frozenset(
    {
        "point", "points", "position", "positions", "location", "locations", "loc", "centroid",
        "center", "centre", "coord", "coords", "lonlat", "lnglat", "latlon", "latlng", "latlong",
        "lon_lat", "lat_lon", "track", "path", "trajectory", "waypoints", "vertices", "footprint",
    }
)  # fmt: skip
#: As many libraries of maps name the two.
_X, _Y = "x", "y"
_BOXES = frozenset({"bbox", "bounds", "extent", "bounding_box"})
#: What holds places below it, whatever stands between.
_HOLDS_PLACES = _POINTS | _BOXES | {"coordinates", "geometry"}
#: Cells, projected places and the like: no decimal of theirs can be rounded off.
_WITHHELD = frozenset(
    {
        "geohash", "h3", "h3_cell", "s2", "s2_cell", "quadkey", "plus_code", "olc", "mgrs", "usng",
        "what3words", "maidenhead", "wkb", "ewkb", "grid:code", "easting", "northing",
        "proj:bbox", "proj:geometry", "proj:centroid", "proj:transform",
    }
)  # fmt: skip

#: Fields of the projection extension place every pixel.
PROJECTION = "proj:"
#: Stands for a value that tells a place and cannot be made coarser; it is JSON.
WITHHELD = '"withheld"'

_NUMBER = r"[-+]?\d{1,3}\.\d+"
#: Two numbers with decimals, close together: 38.97,-95.23 and lat=38.97&lon=-95.23 and POINT(…).
#: Looked for from every number on, as the first of three may be something else.
_TEXT_PAIR = re.compile(
    rf"(?<![\d.])(?=(?P<first>{_NUMBER})(?:[^\d+\-.]{{0,16}}|[^\d.]{{0,15}}(?=[-+]))"
    rf"(?P<second>{_NUMBER})(?!\.?\d))"
)
#: N38.97W095.23, 38.97N_95.23W.
_TEXT_COMPASS = re.compile(
    r"(?<![\d.])(?:[NSns]\s?(?P<a>\d{1,2}\.\d+)|(?P<b>\d{1,2}\.\d+)\s?°?[NSns])[^\d.]{0,3}?"
    r"(?:[EWew]\s?(?P<c>\d{1,3}\.\d+)|(?P<d>\d{1,3}\.\d+)\s?°?[EWew])(?!\.?\d)"
)
#: Not a part of a version such as 10.3.1.
_DECIMAL = re.compile(r"(?<![\d.])\d{1,3}\.\d+(?!\.?\d)")


@dataclass(frozen=True, slots=True)
class Extent:
    """Places that belong together, and the box around them."""

    positions: tuple[Position, ...]

    @property
    def arc(self) -> tuple[float, float]:
        """The longitude at its west and how many degrees it reaches east, the shorter way round."""
        found = sorted({longitude % _ROUND for longitude, _ in self.positions})
        ends = [*found[1:], found[0] + _ROUND]
        gap, west = max((east - west, east) for west, east in zip(found, ends, strict=True))
        return west, _ROUND - gap

    @property
    def south(self) -> float:
        """Its least latitude."""
        return min(latitude for _, latitude in self.positions)

    @property
    def north(self) -> float:
        """Its greatest latitude."""
        return max(latitude for _, latitude in self.positions)


@dataclass(frozen=True, slots=True)
class Grid:
    """Latitudes and longitudes of which each goes with each: too many places to write out."""

    latitudes: tuple[float, ...]
    longitudes: tuple[float, ...]


def extents_in(value: Any) -> Iterator[Extent | Grid]:
    """Yield every place that a document speaks of."""
    if isinstance(value, str):
        yield from (Extent((each,)) for each in _positions_in_text(value))
    elif isinstance(value, Mapping):
        yield from _places_of_fields(value)
        for key, each in value.items():
            positions = _positions_under(key, each)
            if key.lower() in _POINTS:
                # Each by itself: it tells a place however far the others are.
                yield from (Extent((position,)) for position in positions)
                yield from extents_in(each)
            elif positions:
                yield Extent(positions)
            else:
                yield from extents_in(each)
            yield from extents_in(key)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for each in value:
            yield from extents_in(each)


def snapped(value: Any, decimals: int, key: str = "") -> Any:
    """Return a document whose places have only so many decimals of a degree."""
    if isinstance(value, str):
        return _coarse_text(value, decimals, is_degrees=_is_axis(key))
    if isinstance(value, Mapping):
        axes = (_X, _Y) if key.lower() in _POINTS and _x_and_y(value) else ()
        return {
            _coarse_text(name, decimals): _coarse(each, decimals)
            if name in axes
            else snapped(each, decimals, name)
            for name, each in value.items()
            if name.lower() not in _WITHHELD
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        if _positions_under(key, value):
            return _coarse_array(value, decimals, key)
        return [snapped(each, decimals, key) for each in value]
    if isinstance(value, float) and _is_axis(key):
        return _coarse(value, decimals)
    return value


def snapped_field(pointer: str, value: str, decimals: int) -> str:
    """Return one field of a document, at a JSON Pointer and written as JSON, with coarser places.

    A number of a box or of a geometry says by its way alone what it is. A value that was cut off is
    no JSON any more: all its decimals are taken for places.
    """
    names = pointer.lower().split("/")
    if any(name in _WITHHELD or name.startswith(PROJECTION) for name in names):
        return WITHHELD
    if any(name in _HOLDS_PLACES for name in names):
        return _coarse_text(value, decimals, is_degrees=True)
    try:
        parsed = json.loads(value)
    except ValueError:
        return _coarse_text(value, decimals, is_degrees=True)
    # The number of a place in a list names nothing: the list's own name does.
    named = next((name for name in reversed(names) if not name.isdecimal()), "")
    return canonical_text(snapped(parsed, decimals, named))


def _positions_under(key: str, value: Any) -> tuple[Position, ...]:
    """Return the places of an array, if its name and form say that it holds some."""
    name = key.lower()
    if name in _POINTS:
        found = _x_and_y(value) if isinstance(value, Mapping) else _points_in(value)
        return tuple(both for position in found for both in _both_ways(*position))
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return ()
    if name == "coordinates":
        return tuple(_positions_in_array(value))
    if name in _BOXES:
        return tuple(_corners(value))
    return ()


def _x_and_y(value: Mapping[str, Any]) -> tuple[Position, ...]:
    """Return the place of {x, y}, if it can be one: no easting and northing can."""
    x: Any = value.get(_X)
    y: Any = value.get(_Y)
    if not (_is_number(x) and _is_number(y)):
        return ()
    place = (float(x), float(y))
    return (place,) if any(_both_ways(*place)) else ()


def _points_in(value: Any) -> Iterator[Position]:
    """Yield the points of an array of numbers, or of arrays and objects of them."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return
    if position := _as_position(value):
        yield from position
        return
    for each in value:
        yield from _x_and_y(each) if isinstance(each, Mapping) else _points_in(each)


def _positions_in_array(value: Sequence[Any]) -> Iterator[Position]:
    if position := _as_position(value):
        yield from position
        return
    for each in value:
        if isinstance(each, Sequence) and not isinstance(each, str | bytes):
            yield from _positions_in_array(each)


def _as_position(value: Sequence[Any]) -> tuple[Position, ...]:
    """Return an array of two numbers, or more, as one place."""
    if len(value) < _PAIR or not all(_is_number(each) for each in value):
        return ()
    return ((float(value[0]), float(value[1])),)


def _corners(value: Sequence[Any]) -> Iterator[Position]:
    """Yield the corners of a box, or of each of several."""
    if value and all(isinstance(each, Sequence) and not isinstance(each, str) for each in value):
        for each in value:
            yield from _corners(each)
    elif len(value) in {_BOX, _BOX_WITH_HEIGHTS} and all(_is_number(each) for each in value):
        half = len(value) // 2
        for longitude, latitude in product((value[0], value[half]), (value[1], value[half + 1])):
            yield float(longitude), float(latitude)


def _places_of_fields(fields: Mapping[str, Any]) -> Iterator[Extent | Grid]:
    """Yield every latitude with every longitude of an object; long lists side by side.

    Two of each may be the ends of ranges, and lists of different lengths the axes of a grid.
    """
    for latitudes, longitudes in product(_columns(fields, _LATITUDE), _columns(fields, _LONGITUDE)):
        if len(latitudes) == len(longitudes) > _PAIR:
            for latitude, longitude in zip(latitudes, longitudes, strict=True):
                if latitude is not None and longitude is not None:
                    yield Extent(((longitude, latitude),))
        else:
            yield Grid(_known(latitudes), _known(longitudes))


def _columns(fields: Mapping[str, Any], axis: re.Pattern[str]) -> list[list[float | None]]:
    return [list(_column(value)) for name, value in fields.items() if axis.search(name)]


def _column(value: Any) -> Iterator[float | None]:
    """Yield a number, or those of a list in their order; None keeps the place of what is none."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from _column(each)
    else:
        yield float(value) if _is_number(value) else None


def _known(column: list[float | None]) -> tuple[float, ...]:
    return tuple(each for each in column if each is not None)


def _positions_in_text(text: str) -> Iterator[Position]:
    if "." not in text:
        return
    for match in _TEXT_PAIR.finditer(text):
        yield from _both_ways(float(match["first"]), float(match["second"]))
    for match in _TEXT_COMPASS.finditer(text):
        written = match[0].upper()
        latitude = float(match["a"] or match["b"]) * (-1 if "S" in written else 1)
        longitude = float(match["c"] or match["d"]) * (-1 if "W" in written else 1)
        yield longitude, latitude


def _both_ways(first: float, second: float) -> Iterator[Position]:
    """Yield two numbers as longitude and latitude, either way that is possible."""
    for longitude, latitude in ((first, second), (second, first)):
        if abs(latitude) <= _LATITUDE_MAX and abs(longitude) <= _LONGITUDE_MAX:
            yield longitude, latitude


def _coarse_text(text: str, decimals: int, *, is_degrees: bool = False) -> str:
    """Round every number of a text that tells a place."""
    if is_degrees or any(_positions_in_text(text)):
        return _DECIMAL.sub(lambda number: _coarse_number(number[0], decimals), text)
    return text


def _coarse_number(digits: str, decimals: int) -> str:
    """Round a number that is written out; the zeros before it stay."""
    before, after = digits.split(".")
    if len(after) <= decimals:
        return digits
    return f"{float(digits):0{len(before) + decimals + bool(decimals)}.{decimals}f}"


def _coarse_array(value: Sequence[Any], decimals: int, key: str) -> list[Any]:
    """Round the degrees of a place, a box, or of arrays of them; heights stay."""
    if any(not _is_number(each) for each in value):
        return [_coarse_part(each, decimals, key) for each in value]
    is_box = key.lower() in _BOXES
    degrees = {(True, _BOX): (0, 1, 2, 3), (True, _BOX_WITH_HEIGHTS): (0, 1, 3, 4)}
    places = degrees.get((is_box, len(value)), (0, 1))
    return [
        _coarse(each, decimals) if place in places else each for place, each in enumerate(value)
    ]


def _coarse_part(value: Any, decimals: int, key: str) -> Any:
    """Round an array within an array of places, or whatever stands in the place of one."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _coarse_array(value, decimals, key)
    return snapped(value, decimals, key)


def _coarse(degrees: Any, decimals: int) -> Any:
    if isinstance(degrees, str):
        return _coarse_text(degrees, decimals, is_degrees=True)
    # Without the sign of a zero, which tells a side; a whole number stays one.
    return round(degrees, decimals) + 0.0 if isinstance(degrees, float) else degrees


def _is_axis(key: str) -> bool:
    return bool(_LATITUDE.search(key) or _LONGITUDE.search(key))


def _is_number(value: object) -> bool:
    """Tell whether a value is a number, also one that is written as text."""
    if isinstance(value, str):
        return bool(re.fullmatch(_NUMBER, value.strip()))
    return isinstance(value, int | float) and not isinstance(value, bool)

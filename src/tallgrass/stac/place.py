"""A place to look for: a box or a geometry, first by boxes, then exactly.

Boxes are compared in the database, geometries here with shapely, on the plane of degrees as
RFC 7946 means them. 180 and -180 degrees are the same meridian.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, Any

from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.stac.geometry import Box, box_of

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

_EDGE = 180.0
#: No longitude lies between these two.
_NONE = (1000.0, -1000.0)
_ALL = (-1e9, 1e9)
_BOX_SIDES = 4
_BOX_SIDES_WITH_HEIGHT = 6
_POINTS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What boxes are compared with: latitudes, and one or two ranges of longitude."""

    south: float = _ALL[0]
    north: float = _ALL[1]
    west: float = _ALL[0]
    east: float = _ALL[1]
    west2: float = _NONE[0]
    east2: float = _NONE[1]


#: Finds every item, also one without a place.
ANYWHERE = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an item must lie, at least in part."""

    bounds: Bounds
    _shape: "BaseGeometry" = field(repr=False)

    def holds(self, geometry: Mapping[str, Any] | None) -> bool:
        """Tell whether a GeoJSON geometry shares at least a point with the place."""
        if geometry is None:
            return False
        from shapely import GEOSException  # noqa: PLC0415 - extras: web, stac
        from shapely.geometry import shape  # noqa: PLC0415

        try:
            return bool(shape(geometry).intersects(self._shape))
        except (GEOSException, ValueError):  # an item whose geometry is broken: its box has matched
            return True


def place_of_box(values: object) -> Place:
    """Return the place that a `bbox` of four or six numbers names; heights do not count."""
    _require_shapely()
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidInput(f"bbox: not a list of numbers: {values!r}")
    numbers = list(values)
    if len(numbers) == _BOX_SIDES_WITH_HEIGHT:
        low, high = numbers[2], numbers[5]
        if not (_is_number(low) and _is_number(high) and low <= high):
            raise InvalidInput(f"bbox: its lower height lies above its upper: {numbers}")
        numbers = [*numbers[:2], *numbers[3:5]]
    if len(numbers) != _BOX_SIDES:
        raise InvalidInput(f"bbox: needs four or six numbers, has {len(values)}")
    try:
        return _place_of_box(box_of(tuple(numbers)))
    except InvalidInput as exc:
        raise InvalidInput(f"bbox: {exc}") from exc


def _require_shapely() -> None:
    if find_spec("shapely") is None:
        raise ConfigError("a place to look for: shapely is not installed", code="stac_missing")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


@lru_cache(maxsize=256)
def _place_of_box(box: Box) -> Place:
    from shapely import union_all  # noqa: PLC0415
    from shapely.geometry import box as rectangle  # noqa: PLC0415

    west, south, east, north = box
    first, second = _longitudes(west, east)
    parts = [rectangle(first[0], south, first[1], north)]
    if second != _NONE:
        parts.append(rectangle(second[0], south, second[1], north))
    # A rectangle without an area is an invalid polygon; its hull is the line or point it means.
    shapes = [part if part.area else part.convex_hull for part in parts]
    return Place(
        bounds=_bounds(first, second, south, north),
        _shape=shapes[0] if len(shapes) == 1 else union_all(shapes),
    )


def _longitudes(west: float, east: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of longitude: two where the antimeridian is crossed or touched."""
    if west > east:
        return (west, _EDGE), (-_EDGE, east)
    if east == _EDGE and west > -_EDGE:
        return (west, east), (-_EDGE, -_EDGE)
    if west == -_EDGE and east < _EDGE:
        return (west, east), (_EDGE, _EDGE)
    return (west, east), _NONE


def _bounds(
    first: tuple[float, float], second: tuple[float, float], south: float, north: float
) -> Bounds:
    return Bounds(
        south=south, north=north, west=first[0], east=first[1], west2=second[0], east2=second[1]
    )


def place_of_geometry(geometry: Mapping[str, Any]) -> Place:
    """Return the place that a GeoJSON geometry names."""
    _require_shapely()
    from shapely import GEOSException, get_num_coordinates  # noqa: PLC0415
    from shapely.geometry import shape  # noqa: PLC0415

    try:
        found = shape(geometry)
        usable = not found.is_empty and all(map(isfinite, found.bounds)) and found.is_valid
        points = get_num_coordinates(found)
    except (GEOSException, AttributeError, KeyError, IndexError, TypeError, ValueError) as exc:
        raise InvalidInput("intersects: not a GeoJSON geometry") from exc
    if not usable:
        raise InvalidInput("intersects: the geometry is empty, crosses itself or is not finite")
    if points > _POINTS_MAX:
        raise InvalidInput(f"intersects: at most {_POINTS_MAX:,} points, not {points:,}")
    west, south, east, north = found.bounds
    try:
        box_of((west, south, east, north))
    except InvalidInput as exc:
        raise InvalidInput(f"intersects: {exc}") from exc
    return Place(bounds=_bounds((west, east), _NONE, south, north), _shape=found)

"""Boxes and the GeoJSON geometry (RFC 7946) that they stand for.

A box is west, south, east, north in degrees, rounded to six digits (0.1 m). Where west is greater
than east it crosses the antimeridian: its geometry is then two polygons that meet there.
"""

from functools import lru_cache
from math import isfinite

from tallgrass.errors import InvalidInput

Box = tuple[float, float, float, float]

#: Where data lie of which nothing tells it.
WORLD: Box = (-180.0, -90.0, 180.0, 90.0)

#: Stands in for the box of an item without a place: outside the world, so no search by place finds
#: it. Only columns hold it; the item itself has no box.
NOWHERE: Box = (999.0, 999.0, 999.0, 999.0)

DIGITS = 6
_SIDES = 4
_LONGITUDE_MAX = 180.0
_LATITUDE_MAX = 90.0


def box_of(values: object) -> Box:
    """Return the box that four numbers make; anything that is no place on Earth is refused."""
    if not isinstance(values, list | tuple) or len(values) != _SIDES:
        raise InvalidInput(f"not west, south, east, north: {values!r}")
    return _checked_box(tuple(values))


# Boxes are few: a satellite's view, a model's domain, a radar's range.
@lru_cache(maxsize=4096)
def _checked_box(values: tuple[object, ...]) -> Box:
    numbers = [_degree(value) for value in values]
    west, south, east, north = numbers
    if max(abs(west), abs(east)) > _LONGITUDE_MAX or max(abs(south), abs(north)) > _LATITUDE_MAX:
        raise InvalidInput(f"beyond 180 or 90 degrees: {list(values)}")
    if south > north:
        raise InvalidInput(f"its south lies north of its north: {list(values)}")
    return west, south, east, north


@lru_cache(maxsize=4096)
def geometry_of(box: Box) -> dict[str, object]:
    """Return the geometry of a box. It is shared: do not change it."""
    west, south, east, north = box
    if west == east and south == north:
        return {"type": "Point", "coordinates": [west, south]}
    if west == east or south == north:
        return {"type": "LineString", "coordinates": [[west, south], [east, north]]}
    if west < east:
        return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}
    halves = [(west, _LONGITUDE_MAX), (-_LONGITUDE_MAX, east)]
    rings = [_ring(left, south, right, north) for left, right in halves if left < right]
    if len(rings) == 1:  # It only touches the antimeridian.
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def _degree(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidInput(f"not a number of degrees: {value!r}")
    return round(float(value), DIGITS) + 0.0  # never -0.0, whose bytes would differ


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    """Return the closed exterior ring, counter-clockwise."""
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]

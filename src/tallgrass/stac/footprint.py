"""Rings of points on the Earth as GeoJSON geometry (RFC 7946) with its box.

A ring is a list of [longitude, latitude], open or closed, in either direction. Between two points
it takes the shorter way round in longitude, straight on the plane of degrees. What it encloses is
the part that is not the rest of the world: around a pole, the side towards the nearer pole.

- The exterior runs counter-clockwise, with six digits.
- Across the antimeridian the geometry is cut there, so that the parts meet exactly at ±180; the
  west of the box is greater than its east.
- Around a pole the geometry runs along ±180 to the pole.
- A ring that is none (it crosses or touches itself, has no area, or goes half way round between two
  points) is refused: a wrong geometry never comes out.

Written by hand, since shapely does not know the antimeridian, and packages that do take ten times
as long.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import cast

from tallgrass.errors import InvalidInput
from tallgrass.stac.geometry import DIGITS, Box
from tallgrass.stac.ring import (
    Point,
    Ring,
    area_of,
    crosses_itself,
    crosses_itself_round,
    cut_at,
    moved,
    without_repetition,
)

#: As many points as a footprint may have; evidence keeps no more.
POINTS_MAX = 64

_POINTS_MIN = 3
_NUMBERS = frozenset({int, float})
_HALF, _FULL = 180.0, 360.0
_POLE = 90.0
#: Square degrees; less is a line.
_AREA_MIN = 1e-6
_FOOTPRINTS_MAX = 4096
_CROSSES = "a footprint: it crosses or touches itself"


@dataclass(frozen=True, slots=True)
class Footprint:
    """A geometry and its box. They are shared: do not change them."""

    geometry: dict[str, object]
    box: Box


def footprint_of(points: object) -> Footprint:
    """Return the footprint that a ring makes; what makes none is refused with the reason."""
    if not isinstance(points, list | tuple):
        raise InvalidInput("a footprint: not a list of points")
    if not _POINTS_MIN <= len(points) <= POINTS_MAX:
        raise InvalidInput(f"a footprint: {_POINTS_MIN} to {POINTS_MAX} points, not {len(points)}")
    try:
        ring = tuple(map(tuple, points))
        return _footprint_of(cast("tuple[Point, ...]", ring))
    except TypeError as exc:
        raise InvalidInput("a footprint: its points are not pairs of numbers") from exc


# Footprints repeat: a model's domain is always the same, and a hundred products share one granule.
@lru_cache(maxsize=_FOOTPRINTS_MAX)
def _footprint_of(points: tuple[Point, ...]) -> Footprint:
    ring = without_repetition([_checked(point) for point in points])
    if len(ring) < _POINTS_MIN:
        raise InvalidInput("a footprint: fewer than three different points")
    path, turns = _unwrapped(_through_poles(ring))
    if turns == 0:
        return _plain(path[:-1])
    return _around_pole(path if turns > 0 else path[::-1])


def _checked(point: tuple[object, ...]) -> Point:
    try:
        x, y = point
    except ValueError:
        raise InvalidInput(f"a footprint: not longitude and latitude: {point!r}") from None
    if type(x) not in _NUMBERS or type(y) not in _NUMBERS:
        raise InvalidInput(f"a footprint: not numbers of degrees: {point!r}")
    x, y = cast("Point", point)
    # Asked for what must hold, so that no NaN slips through.
    if not (-_HALF <= x <= _HALF and -_POLE <= y <= _POLE):
        raise InvalidInput(f"a footprint: beyond 180 or 90 degrees: {point!r}")
    return round(x, DIGITS) + 0.0, round(y, DIGITS) + 0.0


def _through_poles(ring: Ring) -> Ring:
    """Let a ring reach a pole along the meridians of its neighbours: a pole has no longitude."""
    if all(abs(y) < _POLE for _, y in ring):
        return ring
    found: Ring = []
    for number, (x, y) in enumerate(ring):
        if abs(y) < _POLE:
            found.append((x, y))
            continue
        for neighbour in (ring[number - 1], ring[(number + 1) % len(ring)]):
            found.append((x if abs(neighbour[1]) == _POLE else neighbour[0], y))
    return without_repetition(found)


def _unwrapped(ring: Ring) -> tuple[Ring, int]:
    """Return the closed path with steady longitudes, and how often it goes east round the Earth."""
    path = [*ring, ring[0]]
    if all(-_HALF < a[0] - b[0] < _HALF for a, b in pairwise(path)):
        return path, 0
    path = [ring[0]]
    for x, y in (*ring[1:], ring[0]):
        at = path[-1][0]
        step = round((x - at + _HALF) % _FULL - _HALF, DIGITS)
        if abs(step) == _HALF:
            raise InvalidInput("a footprint: it goes half way round the Earth between two points")
        path.append((round(at + step, DIGITS) + 0.0, y))
    turns = round((path[-1][0] - path[0][0]) / _FULL)
    if abs(turns) > 1:
        raise InvalidInput("a footprint: it goes round the Earth more than once")
    return path, turns


def _plain(ring: Ring) -> Footprint:
    """Return the footprint of a ring that goes round no pole."""
    longitudes, latitudes = zip(*ring, strict=True)
    west, east = min(longitudes), max(longitudes)
    if east - west > _FULL:
        raise InvalidInput("a footprint: it overlaps itself round the Earth")
    if crosses_itself(ring):
        raise InvalidInput(_CROSSES)
    area = area_of(ring)
    if abs(area) < _AREA_MIN:
        raise InvalidInput("a footprint: it has no area")
    # The westernmost point shall lie on the map; the rest may lie beyond its eastern edge.
    shift = (west + _HALF) // _FULL * -_FULL
    if area < 0:
        ring = ring[::-1]
    if shift:
        ring = moved(ring, shift)
        (west, _), (east, _) = moved([(west, 0.0), (east, 0.0)], shift)
    parts = _on_the_map(ring) if east > _HALF else [ring]
    if east - west >= _FULL:
        west, east = -_HALF, _HALF
    elif east > _HALF:
        east = round(east - _FULL, DIGITS) + 0.0
    return Footprint(_geometry(parts), (west, min(latitudes), east, max(latitudes)))


def _around_pole(path: Ring) -> Footprint:
    """Return the footprint of a path that goes round once, eastward."""
    # The mean latitude of the path, a few hundred times: the pole on that side is the nearer.
    mean = sum((x2 - x1) * (y1 + y2) for (x1, y1), (x2, y2) in pairwise(path))
    if abs(mean) < _AREA_MIN:
        raise InvalidInput("a footprint: it goes round the Earth, as near to one pole as the other")
    pole = _POLE if mean > 0 else -_POLE
    if any(y == pole for _, y in path):
        raise InvalidInput("a footprint: it goes round a pole and through it")
    if crosses_itself_round(path[:-1], _FULL):
        raise InvalidInput(_CROSSES)
    path = _from_antimeridian(path, pole)
    ring = [*path, (_HALF, pole), (-_HALF, pole)]
    south, north = min(y for _, y in ring), max(y for _, y in ring)
    parts = _on_the_map(ring if pole > 0 else ring[::-1])
    return Footprint(_geometry(parts), (-_HALF, south, _HALF, north))


def _from_antimeridian(path: Ring, pole: float) -> Ring:
    """Return the path from -180 to 180, cut where it meets the antimeridian nearest to the pole.

    Between there and the pole the antimeridian lies inside.
    """
    meetings = []
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(path)):
        west = min(x1, x2)
        edge = _HALF - (_HALF - west) // _FULL * _FULL
        if x1 != x2 and edge <= max(x1, x2):
            y = round(y1 + (y2 - y1) * (edge - x1) / (x2 - x1), DIGITS) + 0.0
            meetings.append((abs(pole - y), number, edge, y))
    # A path that goes round meets every meridian.
    _, number, edge, y = min(meetings)
    turned = [*path[number + 1 : -1], *moved(path[: number + 1], _FULL)]
    whole = [(-_HALF, y), *moved(turned, -_HALF - edge), (_HALF, y)]
    return [*(point for point, after in pairwise(whole) if point != after), whole[-1]]


def _on_the_map(ring: Ring) -> list[Ring]:
    """Cut a ring that reaches beyond ±180 there, and bring each part back to the map."""
    inside, beyond = cut_at(ring, _HALF)
    parts = [moved(part, -_FULL) for part in beyond]
    for part in inside:
        beyond, kept = cut_at(part, -_HALF)
        parts = [*kept, *parts, *(moved(each, _FULL) for each in beyond)]
    if len(parts) > 1 and any(crosses_itself(part) for part in parts):
        # Rounding a crossing moves it by less than 0.1 m.
        raise InvalidInput("a footprint: it nearly touches itself at the antimeridian")
    return parts


def _geometry(rings: list[Ring]) -> dict[str, object]:
    closed = [[[x, y] for x, y in (*ring, ring[0])] for ring in rings]
    if len(closed) == 1:
        return {"type": "Polygon", "coordinates": closed}
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in closed]}

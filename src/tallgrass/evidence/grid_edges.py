"""The edge of a grid on a map plane as a ring on the Earth, with the box around it."""

from dataclasses import dataclass
from itertools import pairwise
from math import hypot

from tallgrass.evidence.map_planes import Plane, Point, wrapped

Box = tuple[float, float, float, float]

#: Points of each side that are looked at; between two the edge strays by less than the rounding.
_STEPS = 64
#: As many as a footprint may have.
_POINTS_MAX = 64
#: How far, in degrees, a footprint may stray from the edge between its points: one of 5,000 km
#: needs some 30 points for that.
_STRAY_MAX = 0.05
_DIGITS = 4
_HALF_CIRCLE = 180.0
_POLE = 90.0


@dataclass(frozen=True, slots=True)
class Edges:
    """Where a grid lies: the box of its outermost points and an open ring around them."""

    bbox: list[float]
    #: Longitude and latitude; counter-clockwise as seen on the plane.
    footprint: list[list[float]]


def edges_of(plane: Plane, x: Point, y: Point) -> Edges:
    """Return the edges of the rectangle between two x and two y of the plane.

    West is greater than east where it crosses the antimeridian. Around a pole the box goes around.
    """
    (west, east), (south, north) = sorted(x), sorted(y)
    corners = [(west, south), (east, south), (east, north), (west, north)]
    ring: list[Point] = []
    for start, end in pairwise([*corners, corners[0]]):
        for step in range(_STEPS):
            part = step / _STEPS
            at = (start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))
            latitude, longitude = plane.from_plane(*at)
            # No jumps: each longitude counts from that of the point before.
            before = ring[-1][0] if ring else 0.0
            ring.append((before + wrapped(longitude - before), latitude))
    inside = [
        pole
        for pole in plane.poles
        if _is_between(plane.to_plane(pole, 0.0), corners[0], corners[2])
    ]
    return Edges(_box_of(ring, inside), _footprint_of(ring))


def _is_between(point: Point, low: Point, high: Point) -> bool:
    return low[0] < point[0] < high[0] and low[1] < point[1] < high[1]


def _box_of(ring: list[Point], poles: list[float]) -> list[float]:
    longitudes, latitudes = [at for at, _ in ring], [at for _, at in ring]
    west, east = wrapped(min(longitudes)), wrapped(max(longitudes))
    if poles:
        west, east, latitudes = -_HALF_CIRCLE, _HALF_CIRCLE, [*latitudes, *poles]
    return rounded((west, min(latitudes), east, max(latitudes)))


def rounded(box: Box) -> list[float]:
    """Return a box as evidence has it; one beyond the poles is none."""
    if not -_POLE <= box[1] <= box[3] <= _POLE:
        raise ValueError("no latitudes")
    return [round(value, _DIGITS) + 0.0 for value in box]


def _footprint_of(ring: list[Point]) -> list[list[float]]:
    """Return the ring with fewer points: its corners, its extremes, and what bends between them."""
    extremes = {
        choose(range(len(ring)), key=lambda at: ring[at][axis])
        for axis in (0, 1)
        for choose in (min, max)
    }
    kept = sorted(extremes | set(range(0, len(ring), _STEPS)))
    # Around a pole the ring ends a full circle away from where it began.
    first = ring[0]
    closed = [*ring, (ring[-1][0] + wrapped(first[0] - ring[-1][0]), first[1])]
    stray = _STRAY_MAX
    while True:
        points = [
            point
            for start, end in pairwise([*kept, len(ring)])
            for point in _simplified(closed[start : end + 1], stray)[:-1]
        ]
        if len(points) <= _POINTS_MAX:
            break
        stray *= 2
    return [[round(wrapped(at), _DIGITS) + 0.0, round(up, _DIGITS) + 0.0] for at, up in points]


def _simplified(line: list[Point], stray: float) -> list[Point]:
    """Return the line by as few of its points as keep within `stray` of it (Douglas-Peucker)."""
    if len(line) <= 2:  # noqa: PLR2004 - two points are a line
        return line
    farthest = max(range(1, len(line) - 1), key=lambda at: _distance(line[at], line[0], line[-1]))
    if _distance(line[farthest], line[0], line[-1]) <= stray:
        return [line[0], line[-1]]
    return [
        *_simplified(line[: farthest + 1], stray)[:-1],
        *_simplified(line[farthest:], stray),
    ]


def _distance(point: Point, start: Point, end: Point) -> float:
    """Return how far a point lies from the line through two others."""
    across, up = end[0] - start[0], end[1] - start[1]
    length = hypot(across, up)
    if not length:
        return hypot(point[0] - start[0], point[1] - start[1])
    return abs(across * (point[1] - start[1]) - up * (point[0] - start[0])) / length

"""Where a swath lies: the ring through its corners, and the box around several granules.

Scan lines and the edges of a swath are great circles, nearly; on the plane of degrees they bend,
the more the nearer the pole. The ring therefore gets points between far corners.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import acos, atan2, cos, degrees, hypot, radians, sin

Vector = tuple[float, float, float]

_POINTS_MAX = 64
_POINTS_MIN = 3
_DIGITS = 4
#: An edge of this many degrees gets no points in between: there it strays by 0.1 degrees at most at
#: 60 degrees of latitude.
_STEP_DEG, _STEP_GROWTH = 4.0, 1.25
_LATITUDE_MAX, _LONGITUDE_MAX = 90.0, 180.0
_FULL = 360.0


def ring_through(corners: Sequence[Sequence[float | None]]) -> list[list[float]] | None:
    """Return the ring with points between its corners; None where fill values are among them."""
    if not _POINTS_MIN <= len(corners) <= _POINTS_MAX:
        return None
    vectors = []
    for lon, lat in corners:
        if lon is None or lat is None or abs(lon) > _LONGITUDE_MAX or abs(lat) > _LATITUDE_MAX:
            return None
        vectors.append(_vector(lon, lat))
    edges = list(pairwise([*vectors, vectors[0]]))
    step = _STEP_DEG
    while True:
        ring = [point for a, b in edges for point in _between(a, b, step)]
        if len(ring) <= _POINTS_MAX:
            return ring
        step *= _STEP_GROWTH


def _vector(lon: float, lat: float) -> Vector:
    x, y = radians(lon), radians(lat)
    return cos(y) * cos(x), cos(y) * sin(x), sin(y)


def _between(a: Vector, b: Vector, step_deg: float) -> list[list[float]]:
    """Return the first corner of an edge and the points after it, without the second corner."""
    apart = acos(max(-1.0, min(1.0, sum(p * q for p, q in zip(a, b, strict=True)))))
    count = int(degrees(apart) / step_deg) + 1
    if count == 1:
        return [_point(a)]
    points = []
    for number in range(count):
        left, right = sin((1 - number / count) * apart), sin(number / count * apart)
        points.append(_point(tuple(left * p + right * q for p, q in zip(a, b, strict=True))))
    return points


def _point(vector: Sequence[float]) -> list[float]:
    x, y, z = vector
    lon, lat = degrees(atan2(y, x)), degrees(atan2(z, hypot(x, y)))
    return [round(lon, _DIGITS) + 0.0, round(lat, _DIGITS) + 0.0]


def box_around(boxes: Sequence[Sequence[float]]) -> list[float]:
    """Return the smallest box around boxes: the widest gap in longitude stays outside."""
    south, north = min(box[1] for box in boxes), max(box[3] for box in boxes)
    # From where to where each lies, eastward; all that overlap become one.
    spans = sorted((west, west + (east - west) % _FULL) for west, _, east, _ in boxes)
    joined = [list(spans[0])]
    for west, east in spans[1:]:
        if west <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], east)
        else:
            joined.append([west, east])
    # Past the last one, the first comes round again.
    ends = [*joined, [joined[0][0] + _FULL, 0.0]]
    gaps = [(after[0] - before[1], after[0]) for before, after in pairwise(ends)]
    gap, west = max(gaps)
    if gap <= 0:
        return [-_LONGITUDE_MAX, south, _LONGITUDE_MAX, north]
    east = west + _FULL - gap
    return [_wrapped(west), south, _wrapped(east), north]


def _wrapped(degree: float) -> float:
    found = (degree + _LONGITUDE_MAX) % _FULL - _LONGITUDE_MAX
    return round(found, _DIGITS) + 0.0

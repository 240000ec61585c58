"""Where the grid of a GRIB2 message lies: west, south, east, north of its points.

Layout: WMO Manual on Codes, FM 92, templates 3.0, 3.10, 3.20 and 3.30. All are computed on a
sphere, as the models that use them are: an ellipsoid would move the edges by hundredths of a degree
at most.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct, error

Point = tuple[float, float]
Box = tuple[float, float, float, float]

_TEMPLATE = Struct(">H")
_TEMPLATE_AT = 12
_NX_NY = Struct(">II")
_NX_NY_AT = 30
_MICRO = 1e-6
_MILLI = 1e-3
_SIGN = 1 << 31
#: Points of each side that are looked at; between two the edge strays by less than the rounding.
_STEPS = 64
_DIGITS = 4
_FULL_CIRCLE = 360.0
_HALF_CIRCLE = 180.0
_POLE = 90.0
#: x runs from east to west; y runs from south to north.
_X_BACKWARD, _Y_UPWARD = 0x80, 0x40
_SOUTH_POLE_ON_PLANE = 0x80
_RADII = {0: 6_367_470.0, 6: 6_371_229.0, 8: 6_371_200.0}
_OWN_RADIUS = 1
_UNKNOWN = 0xFFFFFFFF
#: A feed has few grids, and a box takes 0.3 ms.
_BOXES_MAX = 256
_RADIUS_M = 6_371_229.0
_EARTH = Struct(">BBI")
_EARTH_AT = 14


def bbox_of(section: bytes) -> list[float] | None:
    """Return the box around the points of the grid of a section 3, or None where it is unknown.

    West is greater than east where the grid crosses the antimeridian.
    """
    box = _bbox_of(section)
    return None if box is None else list(box)


@lru_cache(_BOXES_MAX)
def _bbox_of(section: bytes) -> Box | None:
    if len(section) < _NX_NY_AT + _NX_NY.size:
        return None
    (template,) = _TEMPLATE.unpack_from(section, _TEMPLATE_AT)
    read = _GRIDS.get(template)
    if read is None:
        return None
    nx, ny = _NX_NY.unpack_from(section, _NX_NY_AT)
    if not 1 < nx < _SIGN or not 1 < ny < _SIGN:
        return None
    try:
        return read(section, nx, ny)
    except (error, ValueError, ZeroDivisionError, OverflowError):
        return None


def _latitude_longitude(section: bytes, nx: int, ny: int) -> Box:
    del ny
    angle, parts, la1, lo1, _, la2, lo2, dx, _, scanning = _unpack(section, 38, "IIiiBiiIIB")
    own = angle not in {0, _UNKNOWN} and parts not in {0, _UNKNOWN}
    unit = angle / parts if own else _MICRO
    first, last = lo1 * unit, lo2 * unit
    if scanning & _X_BACKWARD:
        first, last = last, first
    south, north = sorted((la1 * unit, la2 * unit))
    if dx != _UNKNOWN and (nx + 0.5) * dx * unit >= _FULL_CIRCLE:
        # The last point is one step short of the first: together they go around.
        return _box(-_HALF_CIRCLE, south, _HALF_CIRCLE, north)
    return _box(_wrapped(first), south, _wrapped(last), north)


def _mercator(section: bytes, nx: int, ny: int) -> Box:
    del nx, ny
    la1, lo1, _, _, la2, lo2 = _unpack(section, 38, "iiBiii")
    south, north = sorted((la1 * _MICRO, la2 * _MICRO))
    return _box(_wrapped(lo1 * _MICRO), south, _wrapped(lo2 * _MICRO), north)


def _polar_stereographic(section: bytes, nx: int, ny: int) -> Box:
    la1, lo1, _, lad, lov, dx, dy, centre, scanning = _unpack(section, 38, "iiBiiIIBB")
    sign = -1.0 if centre & _SOUTH_POLE_ON_PLANE else 1.0
    scale = _radius(section) * (1 + math.sin(math.radians(abs(lad * _MICRO))))

    def distance(latitude: float) -> float:
        return sign * scale * math.tan(math.radians(_POLE - sign * latitude) / 2)

    def latitude(rho: float) -> float:
        return sign * (_POLE - 2 * math.degrees(math.atan(rho / scale)))

    cone = _Cone(distance, latitude, sign, lov * _MICRO, sign)
    origin = (la1 * _MICRO, lo1 * _MICRO)
    return cone.box(origin, (nx, ny), (dx * _MILLI, dy * _MILLI), scanning)


def _lambert(section: bytes, nx: int, ny: int) -> Box:
    la1, lo1, _, _, lov, dx, dy, _, scanning, latin1, latin2 = _unpack(section, 38, "iiBiiIIBBii")
    one, two = (math.radians(each * _MICRO) for each in (latin1, latin2))
    if math.isclose(one, two, abs_tol=1e-9):
        n = math.sin(one)
    else:
        n = math.log(math.cos(one) / math.cos(two)) / math.log(_half(two) / _half(one))
    scale = _radius(section) * math.cos(one) * _half(one) ** n / n

    def distance(latitude: float) -> float:
        return float(scale / _half(math.radians(latitude)) ** n)

    def latitude(rho: float) -> float:
        return math.degrees(2 * math.atan(abs(scale / rho) ** (1 / n)) - math.pi / 2)

    cone = _Cone(distance, latitude, n, lov * _MICRO, math.copysign(1.0, n))
    origin = (la1 * _MICRO, lo1 * _MICRO)
    return cone.box(origin, (nx, ny), (dx * _MILLI, dy * _MILLI), scanning)


_GRIDS: dict[int, Callable[[bytes, int, int], Box]] = {
    0: _latitude_longitude,
    10: _mercator,
    20: _polar_stereographic,
    30: _lambert,
}


class _Cone:
    """A projection on a cone or plane: meridians are straight lines from its tip."""

    def __init__(
        self,
        distance: Callable[[float], float],
        latitude: Callable[[float], float],
        n: float,
        meridian: float,
        side: float,
    ) -> None:
        self._distance = distance
        self._latitude = latitude
        self._n = n
        self._meridian = meridian
        self._side = side

    def box(
        self, origin: Point, counts: tuple[int, int], steps: tuple[float, float], scanning: int
    ) -> Box:
        """Return the box around a grid that begins at `origin`."""
        x0, y0 = self._to_plane(*origin)
        width = (counts[0] - 1) * steps[0] * (-1 if scanning & _X_BACKWARD else 1)
        height = (counts[1] - 1) * steps[1] * (1 if scanning & _Y_UPWARD else -1)
        points = [self._from_plane(x0 + a * width, y0 + b * height) for a, b in _edge()]
        latitudes = [latitude for latitude, _ in points]
        # Longitudes count from the central meridian, so that an edge has no jump in them.
        west, east = (bound(offset for _, offset in points) for bound in (min, max))
        if _is_inside(x0, y0, width, height):
            latitudes.append(self._side * _POLE)
            return _box(-_HALF_CIRCLE, min(latitudes), _HALF_CIRCLE, max(latitudes))
        return _box(
            _wrapped(self._meridian + west),
            min(latitudes),
            _wrapped(self._meridian + east),
            max(latitudes),
        )

    def _to_plane(self, latitude: float, longitude: float) -> Point:
        rho = self._distance(latitude)
        theta = math.radians(self._n * _wrapped(longitude - self._meridian))
        return rho * math.sin(theta), -rho * math.cos(theta)

    def _from_plane(self, x: float, y: float) -> Point:
        theta = math.atan2(self._side * x, -self._side * y)
        rho = math.hypot(x, y)
        return self._latitude(rho), math.degrees(theta) / self._n


def _edge() -> Iterator[Point]:
    """Yield points around a square of side 1."""
    for step in range(_STEPS + 1):
        part = step / _STEPS
        yield from ((part, 0.0), (part, 1.0), (0.0, part), (1.0, part))


def _is_inside(x0: float, y0: float, width: float, height: float) -> bool:
    """Tell whether the tip of the cone lies in the rectangle."""
    return x0 * (x0 + width) < 0 and y0 * (y0 + height) < 0


def _half(latitude: float) -> float:
    return math.tan(math.pi / 4 + latitude / 2)


def _radius(section: bytes) -> float:
    shape, scale, value = _EARTH.unpack_from(section, _EARTH_AT)
    if shape == _OWN_RADIUS and value:
        return float(value / 10.0**scale)
    return _RADII.get(shape, _RADIUS_M)


def _unpack(section: bytes, position: int, codes: str) -> list[int]:
    """Return numbers; `i` is one of four bytes that is written as sign and magnitude."""
    numbers = Struct(f">{codes.replace('i', 'I')}").unpack_from(section, position)
    return [
        _SIGN - number if code == "i" and number >= _SIGN else number
        for code, number in zip(codes, numbers, strict=True)
    ]


def _wrapped(longitude: float) -> float:
    """Return a longitude from -180 on, below 180."""
    return (longitude + _HALF_CIRCLE) % _FULL_CIRCLE - _HALF_CIRCLE


def _box(west: float, south: float, east: float, north: float) -> Box:
    if not -_POLE <= south <= north <= _POLE:
        raise ValueError("no latitudes")
    west, south, east, north = (round(value, _DIGITS) + 0.0 for value in (west, south, east, north))
    return west, south, east, north

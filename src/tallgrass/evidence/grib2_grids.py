"""The grid of a GRIB2 message: its kind and parameters, and where its points lie.

Layout: WMO Manual on Codes, FM 92, templates 3.0, 3.1, 3.10, 3.20, 3.30 and 3.40, and NCEP's own
3.32769. What is told is brought into one form, as raster libraries show a grid: x from west to
east, y from north to south, a grid around the world cut at the antimeridian.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct, error

from tallgrass.evidence.grid_edges import Edges, edges_of, rounded
from tallgrass.evidence.map_planes import (
    Lambert,
    Mercator,
    Plane,
    Point,
    PolarStereographic,
    RotatedGlobe,
    wrapped,
)

_TEMPLATE = Struct(">H")
_TEMPLATE_AT = 12
_NX_NY = Struct(">II")
_NX_NY_AT = 30
_PLACE_AT = 38
_MICRO = 1e-6
_MILLI = 1e-3
_SIGN = 1 << 31
_FULL_CIRCLE = 360.0
_HALF_CIRCLE = 180.0
_POLE = 90.0
#: x runs from east to west; y runs from south to north.
_X_BACKWARD, _Y_UPWARD = 0x80, 0x40
_SOUTH_POLE_ON_PLANE = 0x80
_UNKNOWN = 0xFFFFFFFF
#: A feed has few grids, and one takes 0.5 ms.
_GRIDS_MAX = 256
#: Digits of a degree and of a metre.
_DEGREE_DIGITS, _METRE_DIGITS = 9, 4

#: Semi-major axis and inverse flattening, by shape of the Earth; zero for a sphere.
_EARTHS = {
    0: (6_367_470.0, 0.0),
    2: (6_378_160.0, 297.0),
    4: (6_378_137.0, 298.257222101),
    5: (6_378_137.0, 298.257223563),
    6: (6_371_229.0, 0.0),
    8: (6_371_200.0, 0.0),
    9: (6_377_563.396, 299.3249646),
}
_RADIUS_M = 6_371_229.0
_OWN_RADIUS = 1
#: Axes of its own → metres of a unit.
_OWN_AXES = {3: 1_000.0, 7: 1.0}
_EARTH = Struct(">BBIBIBI")
_EARTH_AT = 14

Earth = tuple[float, float]
#: What evidence keeps of a grid, beside its template and numbers of points.
Told = dict[str, object]


@dataclass(frozen=True, slots=True)
class Grid:
    """What a section 3 says. It is shared: do not change it."""

    told: Told
    bbox: list[float]
    #: None where the box is the outline.
    footprint: list[list[float]] | None = None


@lru_cache(_GRIDS_MAX)
def grid_of(section: bytes) -> Grid | None:
    """Return the grid of a section 3, or None where its kind is unknown or its numbers are none.

    The box is that of the points: west is greater than east across the antimeridian.
    """
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
        grid = read(section, nx, ny)
    except (error, ValueError, ZeroDivisionError, OverflowError):
        return None
    return Grid({"nx": nx, "ny": ny, **grid.told}, grid.bbox, grid.footprint)


# --- grids of degrees -----------------------------------------------------------------------------


def _degrees(section: bytes) -> tuple[Point, Point, float | None]:
    """Return longitudes from west to east, latitudes from north to south, and the step along x."""
    angle, parts, la1, lo1, _, la2, lo2, dx, _, scanning = _unpack(section, "IIiiBiiIIB")
    own = angle not in {0, _UNKNOWN} and parts not in {0, _UNKNOWN}
    unit = angle / parts if own else _MICRO
    west, east = lo1 * unit, lo2 * unit
    if scanning & _X_BACKWARD:
        west, east = east, west
    south, north = sorted((la1 * unit, la2 * unit))
    step = None if dx == _UNKNOWN else dx * unit
    return (west, east), (north, south), step


def _latitude_longitude(section: bytes, nx: int, ny: int, kind: str = "latlon") -> Grid:
    del ny
    (west, east), (north, south), step = _degrees(section)
    earth = _earth(section)
    if step is not None and (nx + 0.5) * step >= _FULL_CIRCLE:
        # The last point is one step short of the first: together they go around. As raster
        # libraries do, the columns are counted from the one at the antimeridian.
        step = _FULL_CIRCLE / nx
        first = (west + _HALF_CIRCLE + step / 2) % step - _HALF_CIRCLE - step / 2
        box = rounded((-_HALF_CIRCLE, south, _HALF_CIRCLE, north))
        told = _told(kind, (first, first + _FULL_CIRCLE - step), (north, south), earth=earth)
        return Grid(told, box)
    width = (east - west) % _FULL_CIRCLE
    west = wrapped(west)
    box = rounded((west, south, wrapped(west + width), north))
    return Grid(_told(kind, (west, west + width), (north, south), earth=earth), box)


def _gaussian(section: bytes, nx: int, ny: int) -> Grid:
    # Its rows are not evenly apart.
    return _latitude_longitude(section, nx, ny, "gaussian")


def _rotated(section: bytes, nx: int, ny: int) -> Grid:
    del nx, ny
    x, y, _ = _degrees(section)
    latitude, longitude, angle = _unpack(section, "iif", at=72)
    if angle:
        raise ValueError("its axis is turned")
    x = (wrapped(x[0]), wrapped(x[0]) + (x[1] - x[0]) % _FULL_CIRCLE)
    pole = (latitude * _MICRO, wrapped(longitude * _MICRO))
    return _on_globe(section, pole, x, y)


def _rotated_of_ncep(section: bytes, nx: int, ny: int) -> Grid:
    """Read NCEP's template: centre, first and last point are those of the Earth."""
    del nx, ny
    _, _, la1, lo1, _, centre, meridian, _, _, _, la2, lo2 = _unpack(section, "IIiiBiiIIBii")
    pole = (centre * _MICRO - _POLE, wrapped(meridian * _MICRO))
    globe = RotatedGlobe(pole)
    (x1, y1), (x2, y2) = (
        globe.to_plane(latitude * _MICRO, longitude * _MICRO)
        for latitude, longitude in ((la1, lo1), (la2, lo2))
    )
    return _on_globe(section, pole, (min(x1, x2), max(x1, x2)), (max(y1, y2), min(y1, y2)))


def _on_globe(section: bytes, pole: Point, x: Point, y: Point) -> Grid:
    edges = edges_of(RotatedGlobe(pole), x, y)
    told = _told(
        "rotated_latlon",
        x,
        y,
        earth=_earth(section),
        south_pole=[round(each, _DEGREE_DIGITS) for each in pole],
    )
    return _with_edges(told, edges)


# --- grids of metres ------------------------------------------------------------------------------


def _mercator(section: bytes, nx: int, ny: int) -> Grid:
    la1, lo1, _, lad, la2, lo2, scanning, _, dx, dy = _unpack(section, "iiBiiiBIII")
    south, north = sorted((la1 * _MICRO, la2 * _MICRO))
    west, east = wrapped(lo1 * _MICRO), wrapped(lo2 * _MICRO)
    earth = _earth(section)
    # Counted from the antimeridian where the grid crosses it, so that x does not jump.
    plane = Mercator(_radius(earth), lad * _MICRO, _HALF_CIRCLE if west > east else 0.0)
    x, y = _lengths(plane, (la1, lo1), (nx, ny), (dx, dy), scanning)
    told = _told("mercator", x, y, earth=earth, parallel=_degree(lad), meridian=plane.meridian)
    return Grid(told, rounded((west, south, east, north)))


def _polar_stereographic(section: bytes, nx: int, ny: int) -> Grid:
    la1, lo1, _, lad, lov, dx, dy, centre, scanning = _unpack(section, "iiBiiIIBB")
    side = -1.0 if centre & _SOUTH_POLE_ON_PLANE else 1.0
    earth = _earth(section)
    # Some makers leave out the sign of the latitude in the south.
    parallel = side * abs(_degree(lad))
    plane = PolarStereographic(_radius(earth), parallel, wrapped(_degree(lov)), side)
    x, y = _lengths(plane, (la1, lo1), (nx, ny), (dx, dy), scanning)
    told = _told(
        "polar_stereographic", x, y, earth=earth, parallel=parallel, meridian=plane.meridian
    )
    return _with_edges(told, edges_of(plane, x, y))


def _lambert(section: bytes, nx: int, ny: int) -> Grid:
    la1, lo1, _, lad, lov, dx, dy, _, scanning, latin1, latin2 = _unpack(section, "iiBiiIIBBii")
    earth = _earth(section)
    parallels = _degree(latin1), _degree(latin2)
    origin = parallels[0] if abs(lad) > _POLE / _MICRO else _degree(lad)
    plane = Lambert(_radius(earth), parallels, origin, wrapped(_degree(lov)))
    x, y = _lengths(plane, (la1, lo1), (nx, ny), (dx, dy), scanning)
    told = _told(
        "lambert",
        x,
        y,
        earth=earth,
        parallels=list(parallels),
        origin=[origin, plane.meridian],
    )
    return _with_edges(told, edges_of(plane, x, y))


_GRIDS: dict[int, Callable[[bytes, int, int], Grid]] = {
    0: _latitude_longitude,
    1: _rotated,
    10: _mercator,
    20: _polar_stereographic,
    30: _lambert,
    40: _gaussian,
    32769: _rotated_of_ncep,
}


def _lengths(
    plane: Plane, first: Point, counts: tuple[int, int], steps: Point, scanning: int
) -> tuple[Point, Point]:
    """Return x from west to east and y from north to south of a grid by its first point."""
    x, y = plane.to_plane(first[0] * _MICRO, first[1] * _MICRO)
    width = (counts[0] - 1) * steps[0] * _MILLI
    height = (counts[1] - 1) * steps[1] * _MILLI
    west = x - width if scanning & _X_BACKWARD else x
    north = y + height if scanning & _Y_UPWARD else y
    return (west, west + width), (north, north - height)


def _with_edges(told: Told, edges: Edges) -> Grid:
    return Grid(told, edges.bbox, edges.footprint)


def _told(kind: str, x: Point, y: Point, *, earth: Earth | None, **parameters: object) -> Told:
    in_metres = kind in {"lambert", "mercator", "polar_stereographic"}
    if earth is None or (in_metres and earth[1]):
        # Metres that were computed on a sphere mean nothing on an ellipsoid.
        return {"kind": kind, **parameters}
    digits = _METRE_DIGITS if in_metres else _DEGREE_DIGITS
    return {
        "kind": kind,
        "x": [round(value, digits) + 0.0 for value in x],
        "y": [round(value, digits) + 0.0 for value in y],
        **parameters,
        "earth": list(earth),
    }


# --- numbers --------------------------------------------------------------------------------------


def _earth(section: bytes) -> Earth | None:
    """Return the shape of the Earth, or None where it is not said."""
    shape, scale, radius, major_scale, major, minor_scale, minor = _EARTH.unpack_from(
        section, _EARTH_AT
    )
    if shape == _OWN_RADIUS and radius:
        return float(radius / 10.0**scale), 0.0
    if shape in _OWN_AXES and major and minor:
        unit = _OWN_AXES[shape]
        a, b = major / 10.0**major_scale * unit, minor / 10.0**minor_scale * unit
        return a, 0.0 if math.isclose(a, b) else a / (a - b)
    return _EARTHS.get(shape)


def _radius(earth: Earth | None) -> float:
    """Return the radius to compute with; on an ellipsoid that of the sphere that is nearest."""
    return earth[0] if earth is not None and not earth[1] else _RADIUS_M


def _unpack(section: bytes, codes: str, at: int = _PLACE_AT) -> list[int]:
    """Return numbers; `i` is one of four bytes that is written as sign and magnitude."""
    numbers = Struct(f">{codes.replace('i', 'I')}").unpack_from(section, at)
    return [
        _SIGN - number if code == "i" and number >= _SIGN else number
        for code, number in zip(codes, numbers, strict=True)
    ]


def _degree(micro: int) -> float:
    return round(micro * _MICRO, _DEGREE_DIGITS)

"""What a geostationary imager sees: the outline of its image on the Earth.

An image is a rectangle of scan angles. Where it reaches beyond the limb, as a full disk does on all
sides and the contiguous states at a corner, the outline follows the limb.

Angles and ellipsoid: CGMS 03, section 4.4.3; GOES-R Product Users' Guide 3, section 5.1.2.8.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import atan, atan2, cos, degrees, hypot, sin, sqrt
from typing import Any, NamedTuple

from tallgrass.stac.footprint import POINTS_MAX, Footprint, footprint_of
from tallgrass.stac.ring import Point

#: The kind of such a grid, in evidence.
GEOSTATIONARY = "geostationary"

#: Points of each side that are looked at.
_STEPS = 60
#: Halvings that find the limb: an angle of 0.2 rad to 1e-14.
_HALVINGS = 44
#: Degrees that the outline may stray between two points, and how it grows where they are too many.
_STRAY, _GROWTH = 0.02, 1.5
_VIEWS_MAX = 1024
_DIGITS = 4
_HALF, _FULL = 180.0, 360.0


class _View(NamedTuple):
    #: From the centre of the Earth, in metres.
    distance: float
    semi_major: float
    #: Square of the ratio of the axes.
    squash: float
    sweep_x: bool


# Sectors stay where they are for hours, and all bands share them; a full disk takes 20 ms.
_views: dict[tuple[object, ...], Footprint | None] = {}


def view_of(grid: Mapping[str, Any]) -> Footprint | None:
    """Return the footprint of an image; None if no Earth is in it."""
    names = ("longitude", "height", "semi_major", "semi_minor", "sweep")
    known_by = (*(grid[name] for name in names), *grid["shape"], *grid["x"], *grid["y"])
    if known_by not in _views:
        if len(_views) > _VIEWS_MAX:
            _views.clear()
        outline = outline_of(grid)
        _views[known_by] = None if outline is None else footprint_of(outline)
    return _views[known_by]


def outline_of(grid: Mapping[str, Any]) -> list[Point] | None:
    """Return the ring of longitudes and latitudes around an image; None if no Earth is in it."""
    major, minor = float(grid["semi_major"]), float(grid["semi_minor"])
    view = _View(
        distance=float(grid["height"]) + major,
        semi_major=major,
        squash=(major / minor) ** 2,
        sweep_x=grid["sweep"] == "x",
    )
    rows, columns = grid["shape"]
    (left, right), (top, bottom) = grid["x"], grid["y"]
    xs, ys = _to_edges(left, right, columns), _to_edges(top, bottom, rows)
    inner = _on_earth(view, xs, ys)
    if inner is None:
        return None
    origin = float(grid["longitude"])
    return [
        (round((origin + x + _HALF) % _FULL - _HALF, _DIGITS), round(y, _DIGITS))
        for x, y in _thinned(_edge(view, inner, _rectangle(xs, ys)))
    ]


def _to_edges(first: float, last: float, count: int) -> tuple[float, float]:
    """Return where pixels begin and end whose first and last centres are given, in order."""
    half = (last - first) / (count - 1) / 2
    return (first - half, last + half) if half > 0 else (last + half, first - half)


def _rectangle(xs: tuple[float, float], ys: tuple[float, float]) -> list[Point]:
    (west, east), (south, north) = xs, ys
    parts = [number / _STEPS for number in range(_STEPS)]
    wide, high = east - west, north - south
    return [
        *((west + part * wide, south) for part in parts),
        *((east, south + part * high) for part in parts),
        *((east - part * wide, north) for part in parts),
        *((west, north - part * high) for part in parts),
    ]


def _on_earth(view: _View, xs: tuple[float, float], ys: tuple[float, float]) -> Point | None:
    """Return angles inside the rectangle that meet the Earth."""
    middle = (xs[0] + xs[1]) / 2, (ys[0] + ys[1]) / 2
    if _place(view, *middle) is not None:
        return middle
    nearest = min(max(xs[0], 0.0), xs[1]), min(max(ys[0], 0.0), ys[1])
    if _place(view, *nearest) is None:
        return None
    limb = _limb(view, nearest, middle)
    return (nearest[0] + limb[0]) / 2, (nearest[1] + limb[1]) / 2


def _edge(view: _View, inner: Point, rectangle: list[Point]) -> list[Point]:
    """Return longitudes, counted from the satellite's, and latitudes along the rectangle.

    Where there is space, it is what lies on the limb on the way there. Just where a side meets the
    limb there is a corner, and near the limb a pixel is wide: that place is looked for.
    """
    places = [_place(view, *point) for point in rectangle]
    edge = []
    for number, (point, place) in enumerate(zip(rectangle, places, strict=True)):
        before, place_before = rectangle[number - 1], places[number - 1]
        if place is None and place_before is not None:
            edge.append(_place(view, *_limb(view, before, point)))
        elif place is not None and place_before is None:
            edge.append(_place(view, *_limb(view, point, before)))
        edge.append(place or _place(view, *_limb(view, inner, point)))
    return [place for place in edge if place is not None]


def _limb(view: _View, inner: Point, outer: Point) -> Point:
    """Return the last angles on the Earth between angles on it and angles off it."""
    (x1, y1), (x2, y2) = inner, outer
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _place(view, x1 + middle * (x2 - x1), y1 + middle * (y2 - y1)) is None:
            high = middle
        else:
            low = middle
    return x1 + low * (x2 - x1), y1 + low * (y2 - y1)


def _place(view: _View, x: float, y: float) -> Point | None:
    """Return what lies at scan angles; None where it is space."""
    # Towards the Earth, east and north.
    if view.sweep_x:
        ahead, east, north = cos(x) * cos(y), sin(x), cos(x) * sin(y)
    else:
        ahead, east, north = cos(x) * cos(y), sin(x) * cos(y), sin(y)
    a = ahead * ahead + east * east + view.squash * north * north
    half_b = view.distance * ahead
    under = half_b * half_b - a * (view.distance**2 - view.semi_major**2)
    if under < 0:
        return None
    far = (half_b - sqrt(under)) / a
    p, q, r = view.distance - far * ahead, far * east, far * north
    return degrees(atan2(q, p)), degrees(atan(view.squash * r / hypot(p, q)))


# --- fewer points ---------------------------------------------------------------------------------


def _thinned(ring: list[Point]) -> list[Point]:
    """Leave out points that lie near the line between those that stay.

    The outermost ones stay, so that the box around the ring does too.
    """
    numbers = range(len(ring))
    first, *others = sorted(
        {pick(numbers, key=lambda n: ring[n][axis]) for pick in (min, max) for axis in (0, 1)}
    )
    path = [*ring[first:], *ring[: first + 1]]
    ends = [0, *(number - first for number in others), len(ring)]
    stray = _STRAY
    while True:
        kept = [point for a, b in pairwise(ends) for point in _kept(path[a : b + 1], stray)[:-1]]
        if len(kept) <= POINTS_MAX:
            return kept
        stray *= _GROWTH


def _kept(path: list[Point], stray: float) -> list[Point]:
    """Return the points of a path that are needed (Ramer, Douglas and Peucker)."""
    (x1, y1), (x2, y2) = path[0], path[-1]
    length = hypot(x2 - x1, y2 - y1) or 1.0
    furthest, at = 0.0, 0
    for number in range(1, len(path) - 1):
        x, y = path[number]
        away = abs((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) / length
        if away > furthest:
            furthest, at = away, number
    if furthest <= stray:
        return [path[0], path[-1]]
    return [*_kept(path[: at + 1], stray), *_kept(path[at:], stray)[1:]]

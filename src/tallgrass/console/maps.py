"""Maps as SVG, made on the server (pure): coastlines and footprints in plate carrée.

One unit of the picture is a tenth of a degree: x eastwards from the antimeridian, y southwards from
the pole. A view may reach over the antimeridian; everything is then drawn a second time, one world
further east. Geometries follow RFC 7946: what crosses is cut there already, so the cut itself is
not outlined.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

import orjson
from markupsafe import Markup

from tallgrass.stac.geometry import WORLD, Box

PARTS: Final = 10
_ROUND = 360.0
_EDGE = 180.0
_POLE = 90.0
#: Degrees that a view shows at least, that it shows around, and its shape at most and at least.
_SPAN_MIN = 24.0
_MARGIN = 0.12
_WIDE, _NARROW = 2.2, 1.5
#: Every so many degrees a line, where a view is not wider than this.
_GRID = ((15.0, 5), (60.0, 10), (_ROUND, 30))
_PRECISION = 1
#: A point, drawn as a line of no length with round ends.
_DOT = "h0"

Ring = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is drawn: a GeoJSON geometry, its class in the style sheet, its words."""

    geometry: Mapping[str, Any]
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The part of the world that is shown; `east` is beyond 180 where it goes over it."""

    west: float
    south: float
    east: float
    north: float


WHOLE: Final = View(west=WORLD[0], south=WORLD[1], east=WORLD[2], north=WORLD[3])


def view_of(box: Box | None, *, least: float = _SPAN_MIN) -> View:
    """Return a view of a box with something around it, neither too near nor too flat.

    It is at least so many degrees wide.
    """
    if box is None:
        return WHOLE
    west, south, east, north = box
    east += _ROUND if east < west else 0.0
    width = max((east - west) * (1 + 2 * _MARGIN), least)
    height = max((north - south) * (1 + 2 * _MARGIN), least / _WIDE)
    width, height = max(width, height * _NARROW), max(height, width / _WIDE)
    if width >= _ROUND * 0.8 or height >= 2 * _POLE:
        return WHOLE
    middle, level = (west + east) / 2, (south + north) / 2
    low = min(max(level - height / 2, -_POLE), _POLE - height)
    left = middle - width / 2
    left += _ROUND if left < -_EDGE else 0.0
    left -= _ROUND if left >= _EDGE else 0.0
    return View(west=left, south=low, east=left + width, north=low + height)


def world_map(shapes: Sequence[Shape], view: View, *, name: str, told: str) -> Markup:
    """Draw shapes on the coastlines; the page says the same in words beside it."""
    ground = Markup('<path class="land" d="{}"/><path class="grid" d="{}"/>').format(
        coastlines(), _grid(view)
    )
    # All of the ground first: land reaches over the edge, and must not cover what lies on it.
    content = _repeated(ground, view) + _repeated(Markup("").join(map(_drawn, shapes)), view)
    x, y = _place(view.west, view.north)
    width, height = (view.east - view.west) * PARTS, (view.north - view.south) * PARTS
    return Markup(
        '<svg class="map" role="img" aria-label="{label}" viewBox="{x} {y} {w} {h}">'
        '<title>{name}</title><desc>{told}</desc><rect class="sea" x="{x}" y="{y}" width="{w}"'
        ' height="{h}"/>{content}</svg>'
    ).format(
        label=f"{name}: {told}",
        x=_number(x),
        y=_number(y),
        w=_number(width),
        h=_number(height),
        name=name,
        told=told,
        content=content,
    )


def _repeated(drawn: Markup, view: View) -> Markup:
    """Return what is drawn, and again one world further east where the view reaches there."""
    if view.east <= _EDGE:
        return drawn
    shift = f"{_ROUND * PARTS:.0f}"
    return drawn + Markup('<g transform="translate({} 0)">{}</g>').format(shift, drawn)


@cache
def coastlines() -> str:
    """Return the land as an SVG path."""
    body = files("tallgrass.console").joinpath("data", "coastlines.json").read_bytes()
    path: str = orjson.loads(body)["path"]
    return path


def _drawn(shape: Shape) -> Markup:
    fill, outline = Markup(""), " ".join(_outlines(shape.geometry))
    if area := " ".join(_areas(shape.geometry)):
        fill = Markup('<path class="area" d="{}"/>').format(area)
    return Markup(
        '<g class="footprint {kind}"><title>{title}</title>{fill}<path class="outline" d="{d}"'
        ' vector-effect="non-scaling-stroke"/></g>'
    ).format(kind=shape.kind, title=shape.title, fill=fill, d=outline)


def _areas(geometry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the areas as closed paths."""
    for polygon in _parts(geometry, "Polygon"):
        for ring in polygon:
            yield f"M{' '.join(_at(point) for point in ring)}z"


def _outlines(geometry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is stroked: rings without the cuts, lines, points."""
    for polygon in _parts(geometry, "Polygon"):
        for ring in polygon:
            yield from _uncut(ring)
    for line in _parts(geometry, "LineString"):
        yield f"M{' '.join(_at(point) for point in line)}"
    for point in _parts(geometry, "Point"):
        yield f"M{_at(point)}{_DOT}"


def _uncut(ring: Ring) -> Iterator[str]:
    """Yield a ring without the parts that run along the edge of the world."""
    path = ""
    for begin, end in pairwise(ring):
        if _on_the_edge(begin, end):
            if path:
                yield path
            path = ""
        else:
            path = f"{path} {_at(end)}" if path else f"M{_at(begin)} {_at(end)}"
    if path:
        yield path


def _on_the_edge(begin: Sequence[float], end: Sequence[float]) -> bool:
    return (begin[0] == end[0] and abs(end[0]) == _EDGE) or (
        begin[1] == end[1] and abs(end[1]) == _POLE
    )


def _parts(geometry: Mapping[str, Any], kind: str) -> Iterator[Any]:
    """Yield the coordinates of all parts of a kind: Polygon, LineString or Point."""
    if geometry["type"] == kind:
        yield geometry["coordinates"]
    elif geometry["type"] == f"Multi{kind}":
        yield from geometry["coordinates"]
    elif geometry["type"] == "GeometryCollection":
        for part in geometry["geometries"]:
            yield from _parts(part, kind)


def _grid(view: View) -> str:
    """Return meridians and parallels of one world."""
    span = view.east - view.west
    step = next(degrees for width, degrees in _GRID if span <= width)
    meridians = (_place(float(x), _POLE)[0] for x in range(-180, 180, step))
    parallels = (_place(0.0, float(y))[1] for y in range(-90 + step, 90, step))
    across, down = _number(_ROUND * PARTS), _number(2 * _POLE * PARTS)
    lines = [f"M{_number(x)} 0v{down}" for x in meridians]
    return "".join(lines + [f"M0 {_number(y)}h{across}" for y in parallels])


def _at(point: Sequence[float]) -> str:
    x, y = _place(point[0], point[1])
    return f"{_number(x)} {_number(y)}"


def _place(longitude: float, latitude: float) -> tuple[float, float]:
    return (longitude + _EDGE) * PARTS, (_POLE - latitude) * PARTS


def _number(value: float) -> str:
    text = f"{value:.{_PRECISION}f}"
    return text.removesuffix(".0")

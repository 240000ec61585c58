"""Make the console's coastlines of Natural Earth's land at 1:110 million (public domain).

    python -m tools.coastlines land-110m.json src/tallgrass/console/data/coastlines.json

The input is that land as TopoJSON, such as the package `world-atlas` has it. Lines are thinned to
what can be seen on a page, and written as one SVG path in tenths of a degree: x eastwards from the
antimeridian, y southwards from the pole.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import Any

Point = tuple[float, float]

#: Degrees that a line may be off; and parts of a degree that are written.
TOLERANCE = 0.15
PARTS = 10
#: Where the map ends, to either side.
EDGE = 180
#: Square degrees: smaller islands are no more than a dot.
AREA_MIN = 0.5
_CORNERS_MIN = 4
_ORIGIN = (
    "Made with Natural Earth, free vector and raster map data @ naturalearthdata.com:"
    " land, 1:110m, version 4.1.0, public domain; thinned and rounded by tools/coastlines.py"
)


def main(source: Path, target: Path) -> None:
    """Convert the land of a file."""
    rings = [thinned(unwound(ring)) for ring in land(json.loads(source.read_text()))]
    path = "".join(drawn(part) for ring in rings if kept(ring) for part in on_the_map(ring))
    document = {"origin": _ORIGIN, "parts_of_a_degree": PARTS, "path": path}
    target.write_text(json.dumps(document, indent=1) + "\n")


def land(topology: dict[str, Any]) -> Iterator[list[Point]]:
    """Yield the rings of a topology's land in degrees."""
    arcs = [list(_arc(arc, topology["transform"])) for arc in topology["arcs"]]
    for geometry in topology["objects"]["land"]["geometries"]:
        nested = geometry["arcs"]
        for polygon in nested if geometry["type"] == "MultiPolygon" else [nested]:
            for ring in polygon:
                yield _joined(arcs, ring)


def unwound(ring: Sequence[Point]) -> list[Point]:
    """Return a ring without leaps over the antimeridian; one around a pole goes by that pole."""
    (x, y), *rest = ring
    line = [(x, y)]
    for east, north in rest:
        x += (east - x + EDGE) % 360 - EDGE
        line.append((x, north))
    if abs(line[-1][0] - line[0][0]) < TOLERANCE:
        return line
    pole = -90.0 if y < 0 else 90.0
    return [*line, (line[-1][0], pole), (line[0][0], pole), line[0]]


def on_the_map(ring: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield a ring, and again one world away where it reaches over an edge of the map."""
    low, high = min(x for x, _ in ring), max(x for x, _ in ring)
    for shift in (-360, 0, 360):
        if low + shift < EDGE and high + shift > -EDGE:
            yield [(x + shift, y) for x, y in ring]


def thinned(ring: Sequence[Point]) -> list[Point]:
    """Return a ring without the points that nobody would miss (Douglas and Peucker)."""
    middle = len(ring) // 2
    return _thin(ring[: middle + 1])[:-1] + _thin(ring[middle:])


def kept(ring: Sequence[Point]) -> bool:
    """Tell whether a ring is large enough to be seen."""
    twice = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(ring))
    return len(ring) >= _CORNERS_MIN and abs(twice) / 2 >= AREA_MIN


def drawn(ring: Sequence[Point]) -> str:
    """Return a closed ring as SVG: the first point, then steps."""
    points = [(round((x + EDGE) * PARTS), round((90 - y) * PARTS)) for x, y in ring[:-1]]
    (x, y), steps = points[0], ""
    for (x0, y0), (x1, y1) in pairwise(points):
        if (x1, y1) != (x0, y0):
            steps += f"{x1 - x0:+d}{y1 - y0:+d}"
    # A sign parts numbers as well as a blank does.
    return f"M{x} {y}l{steps.replace('+0', ' 0').replace('+', ' ').strip()}z"


def _arc(steps: Sequence[Sequence[int]], transform: dict[str, Any]) -> Iterator[Point]:
    x = y = 0
    (width, height), (left, bottom) = transform["scale"], transform["translate"]
    for dx, dy in steps:
        x, y = x + dx, y + dy
        yield x * width + left, y * height + bottom


def _joined(arcs: Sequence[list[Point]], numbers: Sequence[int]) -> list[Point]:
    """Return arcs one after another; a negative number means an arc backwards."""
    ring: list[Point] = []
    for number in numbers:
        arc = arcs[number] if number >= 0 else arcs[~number][::-1]
        ring += arc[1:] if ring else arc
    return ring


def _thin(line: Sequence[Point]) -> list[Point]:
    if len(line) <= 2:  # noqa: PLR2004 - nothing between two points
        return list(line)
    far = max(range(1, len(line) - 1), key=lambda at: _distance(line[at], line[0], line[-1]))
    if _distance(line[far], line[0], line[-1]) <= TOLERANCE:
        return [line[0], line[-1]]
    return _thin(line[: far + 1])[:-1] + _thin(line[far:])


def _distance(point: Point, begin: Point, end: Point) -> float:
    (px, py), (ax, ay), (bx, by) = point, begin, end
    length = hypot(bx - ax, by - ay)
    if length == 0:
        return hypot(px - ax, py - ay)
    return abs((bx - ax) * (ay - py) - (ax - px) * (by - ay)) / length


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

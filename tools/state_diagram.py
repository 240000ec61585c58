"""The picture of the state machine, docs/images/state-machine.svg, drawn from the table of edges.

Lines and numbers are of a grey that is read on white and on black; words stand on boxes of their
own. So one picture serves pages of either colour, and needs no script.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from tallgrass.ledger.transitions import TERMINAL
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallgrass.ledger.transitions import Edge

    Point = tuple[float, float]

WIDTH, HEIGHT = 720, 222
_GREY = "#7d8590"
_BOX_WIDTH, _BOX_HEIGHT = 136, 44
_DOT = 8
#: Where a record begins to exist, and where each status stands.
_START: Point = (36, 36)
_PLACES: dict[Status, Point] = {
    Status.PENDING: (170, 36),
    Status.IN_PROGRESS: (400, 36),
    Status.SUCCEEDED: (630, 36),
    Status.FAILED: (400, 186),
    Status.QUARANTINED: (170, 186),
}
_FILLS = {
    Status.PENDING: "#dbe4ee",
    Status.IN_PROGRESS: "#cfe3f8",
    Status.SUCCEEDED: "#c9e8cd",
    Status.FAILED: "#f8d5cf",
    Status.QUARANTINED: "#f6e3b4",
}
_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" \
font-family="sans-serif" font-size="15">
<title>The statuses of a unit and the edges between them</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 8 4 0 8z" fill="{_GREY}"/></marker></defs>"""


def state_diagram(edges: Iterable[Edge]) -> str:
    """Return the picture: each status, and each edge with the number that it has in the table."""
    return "\n".join(
        [
            _HEAD,
            f'<circle cx="{_START[0]}" cy="{_START[1]}" r="{_DOT}" fill="{_GREY}"/>',
            *(_box(status) for status in Status),
            *(_edge(number, edge) for number, edge in enumerate(edges, start=1)),
            "</svg>",
            "",
        ]
    )


def _box(status: Status) -> str:
    """Return a status; a terminal one has a double frame."""
    x, y = _PLACES[status]
    left, top = x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2
    frame = (
        f'<rect x="{left:g}" y="{top:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="8" '
        f'fill="{_FILLS[status]}" stroke="{_GREY}"/>'
    )
    inner = (
        f'<rect x="{left + 4:g}" y="{top + 4:g}" width="{_BOX_WIDTH - 8}" '
        f'height="{_BOX_HEIGHT - 8}" rx="5" fill="none" stroke="{_GREY}"/>'
    )
    word = f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#1f2328">{status}</text>'
    return "".join([frame, inner if status in TERMINAL else "", word])


def _edge(number: int, edge: Edge) -> str:
    source = _START if edge.source is None else _PLACES[edge.source]
    target = _PLACES[edge.target]
    begin = _toward(source, target, dot=edge.source is None)
    end = _toward(target, source, dot=False)
    middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    name = f"{edge.source or 'null'} → {edge.target}: {edge.when}"
    return (
        f'<g data-edge="{edge.source or "null"} {edge.target}"><title>{escape(name)}</title>'
        f'<path d="M{begin[0]:.1f} {begin[1]:.1f} {end[0]:.1f} {end[1]:.1f}" stroke="{_GREY}" '
        f'stroke-width="2" fill="none" marker-end="url(#tip)"/>'
        f'<circle cx="{middle[0]:.1f}" cy="{middle[1]:.1f}" r="11" fill="#ffffff" '
        f'stroke="{_GREY}"/><text x="{middle[0]:.1f}" y="{middle[1] + 4.5:.1f}" font-size="13" '
        f'text-anchor="middle" fill="#1f2328">{number}</text></g>'
    )


def _toward(place: Point, other: Point, *, dot: bool) -> Point:
    """Return where the line to another place leaves the box, or the dot."""
    across, down = other[0] - place[0], other[1] - place[1]
    length = math.hypot(across, down)
    if dot:
        share = (_DOT + 2) / length
    else:
        share = min(
            (side / 2 + 3) / abs(way)
            for side, way in ((_BOX_WIDTH, across), (_BOX_HEIGHT, down))
            if way
        )
    return place[0] + across * share, place[1] + down * share

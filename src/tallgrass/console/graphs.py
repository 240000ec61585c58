"""Provenance drawn as SVG on the server (pure): what was used, what was done, what came of it.

Three columns, read from left to right; a row for each activity, the newest at the top; the agents
below. Shapes are PROV's own: entities are round, activities square, agents have a roof.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from tallgrass.views.provenance_graph import Kind, Node, ProvGraph

_WIDTH: Final = 990
_NODE_WIDTH: Final = 240
_NODE_HEIGHT: Final = 56
_ROW: Final = 124
_TOP: Final = 44
_COLUMNS: Final = {"used": 0, "done": 360, "made": 720}
_NAME_CHARS: Final = 27
_ROOF: Final = 10
#: Relations as people say them.
WORDS: Final = {
    "used": "used",
    "wasGeneratedBy": "was made by",
    "wasDerivedFrom": "was derived from",
    "wasAssociatedWith": "was run by",
    "wasAttributedTo": "is the work of",
    "wasInformedBy": "followed",
    "wasRevisionOf": "replaced",
}


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + _NODE_WIDTH / 2

    @property
    def level(self) -> float:
        return self.y + _NODE_HEIGHT / 2


def provenance(graph: ProvGraph, *, name: str) -> Markup:
    """Draw a graph; the page lists the same relations beside it."""
    boxes = _laid_out(graph)
    if not boxes:
        return Markup("")
    height = max(box.y for box in boxes.values()) + _NODE_HEIGHT + _TOP / 2
    shapes = _edges(graph, boxes)
    shapes += Markup("").join(_drawn(node, boxes[node.id]) for node in graph.nodes)
    told = "; ".join(sentences(graph))
    return Markup(
        '<svg class="graph" role="img" aria-label="{label}" viewBox="0 0 {width} {height}">'
        "<title>{name}</title><desc>{told}</desc>"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto-start-reverse"><path class="head" d="M0 0 8 4 0 8z"/>'
        "</marker></defs>{shapes}</svg>"
    ).format(
        label=f"{name}: {told}",
        width=_WIDTH,
        height=f"{height:.0f}",
        name=name,
        told=told,
        shapes=shapes,
    )


def sentences(graph: ProvGraph) -> list[str]:
    """Return the relations in words."""
    names = {node.id: node.name for node in graph.nodes}
    return [f"{names[edge.source]} {WORDS[edge.name]} {names[edge.target]}" for edge in graph.edges]


def _laid_out(graph: ProvGraph) -> dict[str, _Box]:
    """Place activities in rows, and each entity in the row of the first activity that has it."""
    rows = {node.id: row for row, node in enumerate(graph.of(Kind.ACTIVITY))}
    boxes = {each: _Box(_COLUMNS["done"], _TOP + row * _ROW) for each, row in rows.items()}
    taken: dict[str, set[int]] = {"used": set(), "made": set()}
    for node in graph.of(Kind.ENTITY):
        column = "made" if node.made else "used"
        row = next(iter(_rows_of(node.id, graph, rows)), 0)
        while row in taken[column]:
            row += 1
        taken[column].add(row)
        boxes[node.id] = _Box(_COLUMNS[column], _TOP + row * _ROW)
    bottom = max((box.y for box in boxes.values()), default=_TOP - _ROW) + _ROW
    for number, node in enumerate(graph.of(Kind.AGENT)):
        boxes[node.id] = _Box(_COLUMNS["done"], bottom + number * _ROW)
    return boxes


def _rows_of(entity: str, graph: ProvGraph, rows: Mapping[str, int]) -> list[int]:
    ends = (
        edge.target if edge.source == entity else edge.source
        for edge in graph.edges
        if entity in (edge.source, edge.target)
    )
    return sorted(rows[end] for end in ends if end in rows)


def _edges(graph: ProvGraph, boxes: Mapping[str, _Box]) -> Markup:
    """Draw all relations; a word that several lines share stands once."""
    agents = {node.id for node in graph.of(Kind.AGENT)}
    said: set[tuple[str, float, float]] = set()
    drawn = Markup("")
    for edge in graph.edges:
        line = _to_agent if edge.target in agents else _path
        path, x, y = line(boxes[edge.source], boxes[edge.target])
        drawn += Markup('<path d="{}" marker-end="url(#arrow)"/>').format(path)
        word = (WORDS[edge.name], x, y)
        if word not in said:
            said.add(word)
            drawn += Markup('<text x="{:.0f}" y="{:.0f}">{}</text>').format(x, y, word[0])
    return Markup('<g class="edges">{}</g>').format(drawn)


def _path(begin: _Box, end: _Box) -> tuple[str, float, float]:
    """Return a line between two boxes, and where its word stands."""
    if begin.x == end.x:
        down = end.y > begin.y
        y0 = begin.y + (_NODE_HEIGHT if down else 0)
        y1 = end.y + (0 if down else _NODE_HEIGHT)
        return f"M{begin.middle} {y0}V{y1}", begin.middle + 6, (y0 + y1) / 2 + 4
    left = end.x < begin.x
    x0 = begin.x + (0 if left else _NODE_WIDTH)
    x1 = end.x + (_NODE_WIDTH if left else 0)
    if abs(x1 - x0) < _NODE_WIDTH:
        middle = (x0 + x1) / 2
        path = f"M{x0} {begin.level}C{middle} {begin.level} {middle} {end.level} {x1} {end.level}"
        return path, min(x0, x1) + 16, (begin.level + end.level) / 2 - 7
    # Over a column: around it, above. The word stands where no other line goes.
    over = min(begin.y, end.y) - 26
    path = f"M{begin.middle} {begin.y}V{over + 8}Q{begin.middle} {over} {begin.middle - 8} {over}"
    back = f"H{end.middle + 8}Q{end.middle} {over} {end.middle} {over + 8}V{end.y}"
    return path + back, _COLUMNS["done"] + _NODE_WIDTH + 16, over - 6


def _to_agent(begin: _Box, end: _Box) -> tuple[str, float, float]:
    """Return a line down to an agent, beside all that lies between."""
    if begin.x > end.x:
        side = begin.x + _NODE_WIDTH + 18
        path = f"M{begin.x + _NODE_WIDTH} {begin.level}H{side}V{end.level}H{end.x + _NODE_WIDTH}"
        return path, end.x + _NODE_WIDTH + 16, end.level - 7
    side, foot = begin.x - 22, begin.y + _NODE_HEIGHT - 12
    return f"M{begin.x} {foot}H{side}V{end.level}H{end.x}", side - 66, end.level + 4


def _drawn(node: Node, box: _Box) -> Markup:
    name = node.name if len(node.name) <= _NAME_CHARS else f"{node.name[: _NAME_CHARS - 1]}…"
    return Markup(
        '<g class="node {kind}"><title>{id}</title>{shape}<text x="{x}" y="{y}">{name}</text>'
        '<text class="detail" x="{x}" y="{below}">{detail}</text></g>'
    ).format(
        kind=node.kind.value,
        id=node.id,
        shape=_shape(node.kind, box),
        x=f"{box.middle:.0f}",
        y=f"{box.y + 24:.0f}",
        below=f"{box.y + 43:.0f}",
        name=name,
        detail=node.detail,
    )


def _shape(kind: Kind, box: _Box) -> Markup:
    if kind is Kind.AGENT:
        low, high = box.y + _NODE_HEIGHT, box.y - _ROOF
        return Markup('<path d="M{x} {low}V{y}L{m} {high}L{r} {y}V{low}z"/>').format(
            x=box.x, y=box.y, m=box.middle, r=box.x + _NODE_WIDTH, low=low, high=high
        )
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="{}"/>').format(
        box.x, box.y, _NODE_WIDTH, _NODE_HEIGHT, 26 if kind is Kind.ENTITY else 4
    )

"""The report's plot: who stands beside us, and how figures change as the ledger grows.

One SVG of its own colours for light and dark, without scripts or fonts from elsewhere.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from bench.report_text import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report import Row

WIDTH = 960
LABELS = 490
RIGHT = 84
LINE = 26
TOP = 52
PANEL = 190
COLOURS = ("#2f855a", "#b7791f", "#2b6cb0", "#97266d", "#718096", "#c05621")
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #2d3748 }
.title { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #718096 }
.card { fill: #ffffff } .grid { stroke: #e2e8f0 } .one { stroke: #a0aec0 }
.bar { fill: #2f855a } .behind { fill: #b7791f } .whisker { stroke: #4a5568; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e8f0 } .small { fill: #a0aec0 } .card { fill: #1a202c }
  .grid { stroke: #2d3748 } .one { stroke: #718096 } .bar { fill: #48bb78 }
  .behind { fill: #ecc94b } .whisker { stroke: #cbd5e0 }
}
</style>"""


def svg(rows: Sequence[Row]) -> str:
    """Return the plot as SVG."""
    peers = [each for each in rows if each.peer is not None and each.ratio > 0]
    growth = [each for each in rows if each.curve is not None]
    parts: list[str] = []
    height = 20
    if peers:
        parts += _peers(peers, height)
        height += TOP + LINE * len(peers) + 40
    if growth:
        parts += _curves(growth, height)
        height += TOP + PANEL + 30 + LINE * math.ceil(len(_names(growth)) / 2) + 20
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>Benchmarks</title>",
        _STYLE,
        f'<rect class="card" width="{WIDTH}" height="{height}" rx="8"/>',
        *parts,
        "</svg>",
        "",
    ])  # fmt: skip


def _peers(rows: Sequence[Row], top: int) -> list[str]:
    """Draw a bar from 1 for each, on a logarithmic axis; the whisker is between the quartiles."""
    low = min([0.5, *(each.ratio / 1.2 for each in rows)])
    high = max([2.0, *(each.ratio * 1.2 for each in rows)])
    span = WIDTH - LABELS - RIGHT

    def x(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low)
        return round(LABELS + span * min(share, 1.0), 1)

    bottom = top + TOP + LINE * len(rows)
    parts = [_text(16, top + 22, "Times as fast, of the same work", "title")]
    for value in _ticks(low, high):
        parts.append(
            _line(x(value), top + TOP - 12, x(value), bottom, "one" if value == 1 else "grid")
        )
        parts.append(_text(x(value), bottom + 16, f"{value:g}×", "small", anchor="middle"))
    for place, each in enumerate(rows):
        middle = top + TOP + LINE * place
        begin, end = sorted((x(1.0), x(each.ratio)))
        shape = "bar" if each.ratio >= 1 else "behind"
        parts.append(_text(LABELS - 12, middle + 4, each.name, "", anchor="end"))
        parts.append(
            f'<rect class="{shape}" x="{begin}" y="{middle - 7}" width="{max(end - begin, 2):.1f}"'
            ' height="14" rx="3"/>'
        )
        if each.spread:
            low_end, high_end = each.ratio - each.spread / 2, each.ratio + each.spread / 2
            parts.append(_line(x(low_end), middle, x(high_end), middle, "whisker"))
        parts.append(_text(WIDTH - 12, middle + 4, f"{number(each.ratio)}×", "", anchor="end"))
    return parts


def _curves(rows: Sequence[Row], top: int) -> list[str]:
    """Draw each curve over the number of records, as shares of its first point."""
    names = _names(rows)
    sizes = sorted({each.size for each in rows if each.size})
    high = max([1.25, *(each.ratio for each in rows)])
    left, right = 60, WIDTH - 40
    first, last = math.log10(sizes[0]), math.log10(max(sizes[-1], sizes[0] * 10))
    base = top + TOP + PANEL

    def at(each: Row) -> tuple[float, float]:
        share = (math.log10(each.size or 1) - first) / (last - first)
        return round(left + (right - left) * share, 1), round(base - PANEL * each.ratio / high, 1)

    parts = [_text(16, top + 22, "Growth: figures by the number of records", "title")]
    step = 0.5 if high > 1.5 else 0.25  # noqa: PLR2004 - few lines on a low panel, few on a high one
    for value in (step * each for each in range(int(high / step) + 1)):
        y = base - PANEL * value / high
        parts.append(_line(left, y, right, y, "one" if value == 1 else "grid"))
        parts.append(_text(left - 8, y + 4, f"{value:g}", "small", anchor="end"))
    for size in sizes:
        x = left + (right - left) * (math.log10(size) - first) / (last - first)
        parts.append(_text(x, base + 18, f"{size:,}", "small", anchor="middle"))
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        points = sorted(at(each) for each in rows if each.curve == name)
        joined = " ".join(f"{x},{y}" for x, y in points)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in points]
        beside, below = place % 2, place // 2
        x, y = left + beside * (right - left) // 2, base + 44 + below * LINE
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{colour}"/>')
        parts.append(_text(x + 12, y, name, ""))
    return parts


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(each.curve for each in rows if each.curve is not None))


def _ticks(low: float, high: float) -> list[float]:
    marks = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
    return [mark for mark in marks if low <= mark <= high]


def _text(x: float, y: float, text: str, shape: str, anchor: str = "start") -> str:
    kind = f' class="{shape}"' if shape else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, shape: str) -> str:
    return f'<line class="{shape}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'

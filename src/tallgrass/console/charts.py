"""Figures as SVG, made on the server (pure).

Each is an image with a name and a description; the page shows the same numbers as text or table
beside it. Colours come from the style sheet by class, so that dark and light both work.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup, escape

_WIDTH: Final = 1000.0
_SPARK_HEIGHT: Final = 100.0
_BAR_HEIGHT: Final = 16.0


def sparkline(values: Sequence[float], *, name: str, told: str) -> Markup:
    """Draw values from the oldest to the newest, from zero up."""
    if not values:
        return Markup("")
    top = max([1e-9, *values])
    step = _WIDTH / max(1, len(values) - 1)
    points = [
        (number * step, _SPARK_HEIGHT - value / top * (_SPARK_HEIGHT - 4) - 2)
        for number, value in enumerate(values)
    ]
    if len(points) == 1:
        points.append((_WIDTH, points[0][1]))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    ground = f"{points[-1][0]:.1f},{_SPARK_HEIGHT:.0f} 0,{_SPARK_HEIGHT:.0f}"
    shape = Markup(
        '<polygon class="spark-area" points="{line} {ground}"/>'
        '<polyline class="spark-line" points="{line}" vector-effect="non-scaling-stroke"/>'
    ).format(line=line, ground=ground)
    return _image(shape, height=_SPARK_HEIGHT, kind="spark", name=name, told=told)


def stacked(counts: Mapping[str, int], *, name: str) -> Markup:
    """Draw parts of a whole as one bar, in order; every part is wide enough to be seen."""
    total = sum(counts.values())
    told = ", ".join(f"{number:,} {part}" for part, number in counts.items() if number)
    shown = {part: number for part, number in counts.items() if number > 0}
    least = _WIDTH / 150
    wide = _widths(list(shown.values()), total, least)
    shapes, x = Markup(""), 0.0
    for (part, _), width in zip(shown.items(), wide, strict=True):
        shapes += Markup('<rect class="fill-{}" x="{}" y="0" width="{}" height="{}"/>').format(
            part, f"{x:.2f}", f"{width:.2f}", f"{_BAR_HEIGHT:.0f}"
        )
        x += width
    return _image(shapes, height=_BAR_HEIGHT, kind="stack", name=name, told=told or "nothing")


def meter(share: float, *, name: str, level: str) -> Markup:
    """Draw how much is left of something; a value below zero is drawn as zero."""
    width = _WIDTH * min(1.0, max(0.0, share))
    shape = Markup(
        '<rect class="fill-rest" x="0" y="0" width="{}" height="{}"/>'
        '<rect class="fill-{}" x="0" y="0" width="{}" height="{}"/>'
    ).format(f"{_WIDTH:.0f}", f"{_BAR_HEIGHT:.0f}", level, f"{width:.2f}", f"{_BAR_HEIGHT:.0f}")
    return _image(shape, height=_BAR_HEIGHT, kind="stack", name=name, told=f"{share:.0%}")


def _widths(numbers: Sequence[int], total: int, least: float) -> list[float]:
    """Share the width out; small parts get the least that can be seen, the others give it."""
    raw = [_WIDTH * number / total for number in numbers]
    small = [width < least for width in raw]
    given = sum(least for each in small if each)
    large = sum(width for width, each in zip(raw, small, strict=True) if not each)
    return [
        least if each else width / large * (_WIDTH - given)
        for width, each in zip(raw, small, strict=True)
    ]


def _image(shapes: Markup, *, height: float, kind: str, name: str, told: str) -> Markup:
    return Markup(
        '<svg class="chart {kind}" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
        ' preserveAspectRatio="none"><title>{name}</title><desc>{told}</desc>{shapes}</svg>'
    ).format(
        kind=kind,
        label=escape(f"{name}: {told}"),
        width=f"{_WIDTH:.0f}",
        height=f"{height:.0f}",
        name=name,
        told=told,
        shapes=shapes,
    )

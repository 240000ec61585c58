"""The course of a soak as a picture: one curve a figure, over the time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.soak.sampling import Sample

WIDTH, HEIGHT, GAP = 720, 90, 34
MB = 1_000_000.0


def curves(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Return each figure's values, one a sample."""
    names = sorted({name for sample in samples for name in sample.processes})
    found = {
        f"{name}: memory, MB": [
            sample.processes[name].resident / MB if name in sample.processes else 0.0
            for sample in samples
        ]
        for name in names
    }
    handles = {
        f"{name}: handles": [
            float(sample.processes[name].handles) if name in sample.processes else 0.0
            for sample in samples
        ]
        for name in names
    }
    return {
        **found,
        **handles,
        "oldest unit not done, s": [sample.lag_s for sample in samples],
        "received to committed, slowest, s": [max(sample.latencies, default=0.0)
                                              for sample in samples],
        "events not delivered": [float(sample.waiting) for sample in samples],
        "database, MB": [sample.database_bytes / MB for sample in samples],
        "database's log, MB": [sample.log_bytes / MB for sample in samples],
    }  # fmt: skip


def plotted(title: str, samples: Sequence[Sample]) -> str:
    """Return an SVG with a panel for each figure; each begins at zero."""
    found = curves(samples)
    ends_at = max((sample.at_s for sample in samples), default=1.0) or 1.0
    height = GAP + len(found) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        '<g font-family="sans-serif" font-size="12">',
        f'<text x="4" y="18" font-size="15">{escape(title)}, {ends_at:.0f} s</text>',
    ]
    for number, (name, values) in enumerate(found.items()):
        top, most = GAP + number * (HEIGHT + GAP), max([*values, 1e-9])
        points = " ".join(
            f"{sample.at_s / ends_at * WIDTH:.1f},{top + HEIGHT - value / most * HEIGHT:.1f}"
            for sample, value in zip(samples, values, strict=True)
        )
        parts += [
            f'<text x="4" y="{top - 4 + 12}">{escape(name)} (most {most:.1f})</text>',
            f'<line x1="0" y1="{top + HEIGHT}" x2="{WIDTH}" y2="{top + HEIGHT}" stroke="#999"/>',
            f'<polyline fill="none" stroke="#27567b" points="{points}"/>',
        ]
    return "\n".join([*parts, "</g></svg>", ""])

"""The report: `bench/report.json` for machines, a table for people."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

PATH = Path(__file__).parent / "report.json"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure. A row without a target is only reported and counts as met."""

    name: str
    ratio: float
    #: Distance between the quartiles of the rounds' ratios.
    spread: float
    target: str | None
    met: bool


def row(
    name: str, ratios: list[float], *, at_most: float | None = None, at_least: float | None = None
) -> Row:
    """Return the median of the rounds' ratios, judged against its bound."""
    ratio = statistics.median(ratios)
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratio] * 3
    met = (at_most is None or ratio <= at_most) and (at_least is None or ratio >= at_least)
    target = None
    if at_most is not None:
        target = f"<= {at_most:g}"
    if at_least is not None:
        target = f">= {at_least:g}"
    return Row(
        name=name,
        ratio=round(ratio, 3),
        spread=round(quartiles[2] - quartiles[0], 3),
        target=target,
        met=met,
    )


def show(rows: list[Row]) -> None:
    """Print rows as a table."""
    width = max(len(item.name) for item in rows)
    print(f"{'':{width}}  {'ratio':>8}  {'spread':>7}  {'target':>8}")
    for item in rows:
        verdict = "" if item.target is None else ("  met" if item.met else "  NOT MET")
        print(
            f"{item.name:{width}}  {item.ratio:8.3f}  {item.spread:7.3f}  "
            f"{item.target or '–':>8}{verdict}",
            flush=True,
        )


def write(rows: list[Row]) -> None:
    """Write the report."""
    PATH.write_text(json.dumps([asdict(item) for item in rows], indent=2) + "\n", encoding="utf-8")
    print(f"\nWritten to {PATH.parent.name}/{PATH.name}.")

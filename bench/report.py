"""The report: rows for machines (`report.json`), for readers (`report.md`), a plot (`report.svg`).

All three are made of the same rows. Rows are a list of objects with at least `name`, `ratio`,
`spread`, `target` and `met`, whether all was measured or little of it, quickly.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parent
NAME = "report.json"
FULL, QUICK = "full", "quick"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """When, of which commit and on what machine a part was measured; empty if not noted."""

    date: str = ""
    commit: str = ""
    machine: str = ""
    #: What a bare loop took on it just before: a machine that others share is not always as fast.
    pace_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure. A row without a target is only reported and counts as met."""

    name: str
    ratio: float
    #: Distance between the quartiles of the rounds' ratios.
    spread: float
    target: str | None
    met: bool
    #: How many ratios it is the median of.
    rounds: int = 1
    #: What was measured of us and of who stands beside us: medians, in this unit.
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    #: The other project, where one was measured: the ratio then says how many times as fast we are.
    peer: str | None = None
    #: A point of a curve: which curve, and how many records there were.
    curve: str | None = None
    size: int | None = None
    #: Whether few rounds with small counts can judge it too.
    steady: bool = False
    part: str = ""
    #: What kind of run it is from: full or quick.
    run: str = FULL
    #: When, of which commit and on what machine its part was measured.
    date: str = ""
    commit: str = ""
    machine: str = ""
    pace_ms: float | None = None

    @property
    def stamp(self) -> Stamp:
        """These together."""
        return Stamp(date=self.date, commit=self.commit, machine=self.machine, pace_ms=self.pace_ms)


def row(
    name: str,
    ratios: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    limit: float | None = None,
    unit: str = "",
    steady: bool = False,
) -> Row:
    """Return the median of the rounds' ratios, judged against its bound.

    Ratios to a limit tell what was measured: give the limit and its unit.
    """
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
        rounds=len(ratios),
        ours=None if limit is None else figure(ratio * limit),
        unit=unit,
        steady=steady,
    )


def beside(
    name: str,
    pairs: Sequence[tuple[float, float]],
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    peer: str | None = None,
    steady: bool = False,
) -> Row:
    """Return a row of what was measured of both in each round: ours first, then theirs."""
    ratios = [ours / theirs for ours, theirs in pairs]
    return replace(
        row(name, ratios, at_most=at_most, at_least=at_least, unit=unit, steady=steady),
        ours=figure(statistics.median(ours for ours, _ in pairs)),
        theirs=figure(statistics.median(theirs for _, theirs in pairs)),
        peer=peer,
    )


def figure(value: float) -> float:
    """Return a number with as many digits as a reader needs."""
    return float(f"{value:.4g}")


def in_turn(number: int, sides: Sequence[T]) -> list[T]:
    """Return who goes first in a round: in every second one the last."""
    return list(reversed(sides)) if number % 2 else list(sides)


def warm(rounds: Sequence[T]) -> Sequence[T]:
    """Return the rounds without the first, which finds empty tables and cold caches."""
    return rounds[1:] or rounds


def of_run(rows: Sequence[Row], part: str, *, quick: bool, stamp: Stamp | None = None) -> list[Row]:
    """Return a part's rows as rows of a run; small counts judge only what is steady."""
    told = {"part": part, "run": QUICK if quick else FULL, **asdict(stamp or Stamp())}
    unjudged = {**told, "target": None, "met": True}
    return [replace(each, **(unjudged if quick and not each.steady else told)) for each in rows]


def renewed(rows: Sequence[Row], measured: Sequence[Row], parts: Sequence[str]) -> list[Row]:
    """Return a report's rows with what was measured anew in place of the same parts', in order.

    Rows of another kind of run go, and those of parts that there are no more: full and quick
    figures stand in no report together.
    """
    others, runs = {*parts} - {each.part for each in measured}, {each.run for each in measured}
    kept = [each for each in rows if each.part in others and each.run in runs]
    return sorted([*kept, *measured], key=lambda each: parts.index(each.part))


def exit_code(rows: Sequence[Row]) -> int:
    """Return 0 if every target is met, else 1."""
    return 0 if all(each.met for each in rows) else 1


def as_json(rows: Sequence[Row]) -> str:
    """Return the rows as `report.json` has them."""
    return json.dumps([asdict(each) for each in rows], indent=2) + "\n"


def read(path: Path = FOLDER / NAME) -> list[Row]:
    """Return the rows of the last run; none if there is no report."""
    if not path.is_file():
        return []
    return [Row(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def show(rows: Sequence[Row]) -> None:
    """Print rows as a table."""
    if not rows:
        return
    width = max(len(item.name) for item in rows)
    print(f"{'':{width}}  {'ratio':>8}  {'spread':>7}  {'target':>8}")
    for item in rows:
        verdict = "" if item.target is None else ("  met" if item.met else "  NOT MET")
        print(
            f"{item.name:{width}}  {item.ratio:8.3f}  {item.spread:7.3f}  "
            f"{item.target or '–':>8}{verdict}",
            flush=True,
        )

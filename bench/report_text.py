"""The report for readers: Markdown tables of the rows."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

from bench.report import QUICK, Row, Stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Parts as readers know them; the others go by their own name.
TITLES = {
    "intake": "Messages",
    "evidence": "Objects",
    "pipeline": "The pipeline",
    "ingest": "Ingest beside others",
    "telemetry": "Cost of telemetry",
    "verify": "Verification beside ingest",
    "ledger": "The ledger",
    "outbox": "Outbox",
    "nodes": "Reliable nodes",
    "sqs": "Amazon SQS (emulated)",
    "items": "Geometry and items",
    "validation": "Validation",
    "projection": "STAC registration in pgstac",
    "replay": "Replay beside ingest",
    "inventory": "Reconciliation and backfill",
    "retention": "Retention",
    "plan": "Dry runs",
    "search": "Catalog search",
    "growth": "Growth",
    "console": "Console",
}
_QUICK = (
    "This is a quick run with small counts: it shows that everything works. Most figures are only "
    "reported; `make bench` judges them."
)
_HOW = (
    "Each ratio is of what was measured in one run on one machine, by turns, so that a busy moment "
    "meets all sides alike: the median of the rounds ± half the distance between their quartiles. "
    "A row without a target is only reported. A `+` behind a commit: files were changed since. "
    "Times and rates are those of a machine that others share: its pace is what a bare loop of a "
    "million additions took just before the part."
)


def document(rows: Sequence[Row]) -> str:
    """Return `report.md`."""
    return f"# Benchmarks\n\n![Plot](report.svg)\n\n{body(rows)}"


def body(rows: Sequence[Row], level: int = 2) -> str:
    """Return the verdict and a table for each part."""
    machines = letters(rows)
    lines = [verdict(rows), "", _HOW, ""]
    if any(each.run == QUICK for each in rows):
        lines += [_QUICK, ""]
    lines += [f"- Machine {letter}: {told}." for told, letter in machines.items()]
    lines += [""] * bool(machines)
    for part in dict.fromkeys(each.part for each in rows):
        of_part = [each for each in rows if each.part == part]
        lines += [f"{'#' * level} {TITLES.get(part, part.capitalize())}", ""]
        lines += [measured(of_part[0].stamp, machines), "", *table(of_part)]
    return "\n".join(lines)


def letters(rows: Sequence[Row]) -> dict[str, str]:
    """Return a letter for each machine that a part was measured on."""
    machines = dict.fromkeys(each.machine for each in rows if each.machine)
    return dict(zip(machines, ascii_uppercase, strict=False))


def measured(stamp: Stamp, machines: Mapping[str, str]) -> str:
    """Return one line: when a part was measured, of which commit, and where."""
    commit = f"commit `{stamp.commit}`" if stamp.commit else "commit not noted"
    letter = machines.get(stamp.machine)
    where = f"machine {letter}" if letter is not None else "machine not noted"
    pace = "" if stamp.pace_ms is None else f" at a pace of {stamp.pace_ms:g} ms"
    return f"Measured {stamp.date or 'at a time not noted'}, {commit}, {where}{pace}."


def verdict(rows: Sequence[Row]) -> str:
    """Return one line: how many figures, how many targets, which were missed."""
    judged = [each for each in rows if each.target is not None]
    missed = [each.name for each in judged if not each.met]
    line = f"{len(rows)} figures, {len(judged)} with a target, {len(missed)} beyond it"
    return f"{line}: {'; '.join(missed)}." if missed else f"{line}."


def summary(rows: Sequence[Row]) -> str:
    """Return a short table of those beside other projects, for a first page."""
    peers = [each for each in rows if each.peer is not None]
    lines = ["| same work | ours | theirs | times as fast |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {each.name} | {_side(each.ours, each)} | {_side(each.theirs, each)} | {_ratio(each)} |"
        for each in peers
    ]
    dates = " and ".join(sorted({each.date for each in peers if each.date}))
    machines = "; ".join(letters(peers))
    where = f" on {machines}" if machines else ""
    return "\n".join([*lines, "", *([f"Measured {dates}{where}."] if dates else []), ""])


def table(rows: Iterable[Row]) -> list[str]:
    """Return the lines of a table, with an empty one at its end."""
    lines = [
        "| what | ours | theirs | ratio | target | met |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for each in rows:
        met = "" if each.target is None else ("yes" if each.met else "**no**")
        target = (each.target or "").replace("<=", "≤").replace(">=", "≥")
        cells = (each.name, _side(each.ours, each), _side(each.theirs, each), _ratio(each))
        lines.append(f"| {' | '.join([*cells, target, met])} |")
    return [*lines, ""]


def number(value: float) -> str:
    """Return a figure as people write it."""
    if abs(value) >= 1000:  # noqa: PLR2004 - beyond that, decimals say nothing
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _side(value: float | None, each: Row) -> str:
    return "" if value is None else f"{number(value)} {each.unit}".rstrip()


def _ratio(each: Row) -> str:
    if each.rounds == 1:
        return number(each.ratio)
    return f"{number(each.ratio)} ± {number(each.spread / 2)}"

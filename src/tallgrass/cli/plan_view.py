"""Writes a plan: to a file, as one JSON document, or as lines for people.

Rows are written as they are read, so a plan of a million units shows its first within a second.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from tallgrass.bootstrap.planning import Plan
from tallgrass.bootstrap.previewing import Preview
from tallgrass.cli.hints import hint_lines
from tallgrass.cli.tables import progress
from tallgrass.cli.text import json_bytes, printable
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.replay.plan import Candidate, PlanAction, PlannedAction

STDIO = "-"
#: The first rows are shown at once, the others as the buffer fills.
_SHOWN_AT_ONCE = 20

_Rows = Iterator[tuple[Candidate, PlannedAction, bytes]]


def show_plan(plan: Plan, target: str | None, *, as_json: bool) -> None:
    """Write the plan to its target, or print it; then say what it comes to."""
    if target is not None:
        _write_lines(plan, target)
        summary = sys.stderr if target == STDIO else sys.stdout
        if as_json:
            summary.write(json_bytes(plan.document()).decode())
        else:
            summary.write(_for_people(plan, target))
    elif as_json:
        _print_document(plan)
    else:
        _print_lines(plan)
        sys.stdout.write(_for_people(plan, None))


def show_preview(plan: Plan, found: Preview, *, as_json: bool) -> None:
    """Say what a plan comes to, and what it would change in items; its rows have passed."""
    preview = found.document()
    if as_json:
        sys.stdout.write(json_bytes({**plan.document(), "preview": preview}).decode())
        return
    renamed = f", {found.renamed:,} of them their id" if found.renamed else ""
    lines = [f"{found.changed:,} of {found.compared:,} items would change{renamed}"]
    lines += [f"  {printable(e['pointer'])}: {e['items']:,} items" for e in preview["fields"]]
    lines += [f"  could not be made ({code}): {n:,}" for code, n in preview["failing"].items()]
    if found.examples:
        lines.append(f"  such as {', '.join(found.examples)}")
    sys.stdout.write("\n".join(lines) + "\n" + _for_people(plan, None))


def _write_lines(plan: Plan, target: str) -> None:
    """Write the plan itself, header first."""
    place: AbstractContextManager[BinaryIO] = (
        nullcontext(sys.stdout.buffer) if target == STDIO else appearing_whole(Path(target))
    )
    with place as file, _progress(plan.rows()) as rows:
        file.write(plan.stream.first_line())
        file.flush()
        for _, _, line in rows:
            file.write(line)
        file.flush()


def _print_document(plan: Plan) -> None:
    """Print one JSON document piece by piece: header, rows, summary."""
    out = sys.stdout
    plan.stream.first_line()
    header = json_bytes(plan.header.document()).decode().rstrip()
    out.write(f'{{"header": {header},\n"rows": [')
    out.flush()
    with _progress(plan.rows()) as rows:
        for number, (_, _, line) in enumerate(rows):
            out.write(",\n" if number else "\n")
            out.write(line.decode().rstrip("\n"))
            if number == _SHOWN_AT_ONCE:
                out.flush()
    rest = {name: value for name, value in plan.document().items() if name != "header"}
    out.write("\n]," + json_bytes(rest).decode().removeprefix("{"))


def _print_lines(plan: Plan) -> None:
    """Print a line a candidate; what steers a terminal is written as an escape."""
    plan.stream.first_line()
    out = sys.stdout
    out.write(
        f"{'wal_id':36}  {'version':>7}  {'action':6}  {'reason':20}  "
        f"{'dataset':16}  {'status':11}  error\n"
    )
    out.flush()
    with _progress(plan.rows()) as rows:
        for number, (unit, row, _) in enumerate(rows):
            about = f"{unit.dataset:16}  {unit.status:11}  {unit.last_error_code or ''}"
            out.write(
                f"{row.wal_id:36}  {row.version:>7}  {row.action.value:6}  "
                f"{row.reason or '':20}  {printable(about).rstrip()}\n"
            )
            if number == _SHOWN_AT_ONCE:
                out.flush()


@contextmanager
def _progress(rows: _Rows) -> Iterator[_Rows]:
    """Count rows on stderr while they pass, if somebody looks there and not at the rows."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield rows
        return
    with progress("planning", None) as bar:

        def counted() -> _Rows:
            for number, row in enumerate(rows, start=1):
                if bar is not None and number % 1000 == 0:
                    bar.update(bar.task_ids[0], completed=number)
                yield row

        yield counted()


def _for_people(plan: Plan, target: str | None) -> str:
    header, summary = plan.header, plan.stream.summary
    counts = ", ".join(f"{summary.by_action[each]:,} {each.value}" for each in PlanAction)
    lines = [
        f"candidates: {summary.candidates:,} ({counts})",
        f"units to run: {summary.events:,} (at most {header.caps.max_events:,})",
        f"batches: {summary.batches(header.caps):,} (of at most {header.caps.batch:,} units)",
    ]
    lines += [f"  skipped, {reason}: {n:,}" for reason, n in sorted(summary.by_reason.items())]
    lines += [f"  {line}" for line in hint_lines(summary.by_reason, "--error-code")]
    scope = plan.scope()
    if scope is not None:
        told = ", ".join(f"{number:,} {status}" for status, number in scope.items() if number)
        lines.append(f"in these datasets and this data time in all: {told or 'nothing'}")
    for finding in plan.findings():
        verb = "would refuse the run" if finding.refuses else "leaves units out"
        lines.append(f"guard {finding.guard.value} {verb}: {printable(finding.detail)}")
    lines += [
        f"run {printable(header.replay_run_id)}, mode {header.mode.value}",
        f"approvals needed: {header.approvals_needed}",
        f"sha256 {plan.stream.sha256}",
        "Dry run: nothing was changed.",
    ]
    if target not in {None, STDIO}:
        lines.append(f"Plan written to {printable(str(target))}")
    return "\n".join(lines) + "\n"

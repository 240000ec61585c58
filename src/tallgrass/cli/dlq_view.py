"""What `tallgrass dlq` shows: classes of letters, plans, reports."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tallgrass.bootstrap.drain_preparing import PreparedDrain
from tallgrass.cli.hints import hint_lines
from tallgrass.cli.tables import progress, say, show_table
from tallgrass.cli.text import print_json, printable
from tallgrass.queues.dead_letters import LETTERS_MAX
from tallgrass.replay.dead_letter_plan import DrainPlan
from tallgrass.replay.dead_letters import LetterFate
from tallgrass.replay.drain_report import DrainReport
from tallgrass.views.dead_letters import (
    LetterClass,
    classes_document,
    classified,
    plan_document,
    preview_document,
    reasons_of,
)

__all__ = [
    "bar",
    "classified",
    "question",
    "show_classes",
    "show_plan",
    "show_preview",
    "show_report",
]

_TRUNCATED = f"there are more letters: {LETTERS_MAX:,} were looked at; drain these, then look again"


def show_classes(
    queue: str, found: Sequence[LetterClass], *, truncated: bool, as_json: bool
) -> None:
    """Show what letters died of."""
    if as_json:
        print_json(classes_document(queue, found, truncated=truncated))
        return
    letters = sum(each.letters for each in found)
    say(f"{letters:,} dead letters of {queue}", "bold")
    if truncated:
        say(_TRUNCATED)
    if found:
        show_table(
            ("cause", "dataset", "code", "letters", "data from", "data to"),
            [(e.cause.value, e.dataset, e.code, e.letters, e.data_from, e.data_to) for e in found],
        )


def show_plan(plan: DrainPlan, target: Path, *, as_json: bool) -> None:
    """Say what a plan comes to."""
    if as_json:
        print_json({**plan_document(plan), "file": str(target)})
        return
    lines = [f"letters: {len(plan.rows):,}", *_action_lines(plan.by_action, plan.by_reason)]
    lines += [_TRUNCATED] if plan.header.truncated else []
    lines += [
        f"run {printable(plan.header.replay_run_id)}, mode dlq",
        f"approvals needed: {plan.header.approvals_needed}",
        f"sha256 {plan.sha256}",
        f"Plan written to {printable(str(target))}; nothing was changed.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def show_preview(plan: DrainPlan, fates: Sequence[LetterFate], *, as_json: bool) -> None:
    """Say what a drain would do now."""
    if as_json:
        print_json(preview_document(plan, fates))
        return
    actions = Counter(fate.action.value for fate in fates)
    lines = [f"letters: {len(plan.rows):,}", *_action_lines(actions, reasons_of(fates))]
    sys.stdout.write("\n".join([*lines, "Dry run: nothing was changed."]) + "\n")


def show_report(report: DrainReport, *, queue_url: str | None, as_json: bool) -> None:
    """Show what a drain has come to."""
    if as_json:
        told = {} if queue_url is None else {"replay_queue": queue_url}
        print_json({**report.document(), **told})
        return
    run_id, units = printable(report.replay_run_id), report.units
    taken = f"sent {report.sent:,} + settled {report.settled:,}"
    kept = f"quarantined {report.quarantined:,} + poison {report.poison:,}"
    worked = f"done {units.done:,} + skipped {units.skipped:,} + failed {units.failed:,}"
    lines = [
        f"Drain {run_id}",
        f"planned {report.planned:,} = {taken} + {kept} + left {report.left:,}",
        *(f"  left, {printable(name)}: {n:,}" for name, n in sorted(report.by_reason.items())),
        *(f"  {line}" for line in hint_lines(report.by_reason, "dlq plan --code")),
        f"sent again: {report.sent_again:,}",
        f"units put back {units.planned:,} = {worked} + due {units.due:,}",
        f"succeeded after one more failure: {report.succeeded_later:,}",
        f"duplicates: {report.duplicates:,}",
        f"lineage regressions: {report.lineage_regressions:,}",
        f"mismatches: {units.mismatches:,}",
    ]
    if report.unfinished:
        lines.append(f"not yet removed: {report.unfinished:,}; run the same command again")
    if report.exceeded:
        lines.append(f"FAILED: too many {', '.join(report.exceeded)}")
    if queue_url is not None:
        lines.append(
            f"work it off: tallgrass ingest --queue {printable(queue_url)}"
            f" --replay-run-id {run_id} --drain"
        )
        lines.append(f"then: tallgrass dlq close {run_id}")
    sys.stdout.write("\n".join(lines) + "\n")


def question(prepared: PreparedDrain) -> str:
    """Return what is asked before a drain."""
    verb = "Resume" if prepared.resumed else "Begin"
    counts = ", ".join(f"{n:,} {name}" for name, n in sorted(prepared.plan.by_action.items()))
    return printable(f"{verb} the drain {prepared.order.replay_run_id}: {counts or 'nothing'}?")


@contextmanager
def bar(letters: int) -> Iterator[Callable[[int], None]]:
    """Show how far a drain is, on stderr and only where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _letters: None
        return
    with progress("draining", letters) as shown:

        def tell(done: int) -> None:
            if shown is not None:
                shown.update(shown.task_ids[0], completed=done)

        yield tell


def _action_lines(actions: Counter[str], reasons: Counter[str]) -> list[str]:
    lines = [f"  {name}: {n:,}" for name, n in sorted(actions.items())]
    lines += [f"    left, {printable(name)}: {n:,}" for name, n in sorted(reasons.items())]
    return lines + [f"    {line}" for line in hint_lines(reasons, "dlq plan --code")]

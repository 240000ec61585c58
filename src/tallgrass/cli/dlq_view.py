"""What `tallgrass dlq` shows: classes of letters, plans, reports."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tallgrass.bootstrap.drain_preparing import PreparedDrain
from tallgrass.bootstrap.draining import Found
from tallgrass.cli.text import print_json, printable
from tallgrass.clock import format_instant
from tallgrass.queues.dead_letters import LETTERS_MAX
from tallgrass.replay.dead_letter_plan import DrainPlan
from tallgrass.replay.dead_letters import Cause, DrainAction, LetterFate
from tallgrass.replay.drain_report import DrainReport

_TRUNCATED = f"there are more letters: {LETTERS_MAX:,} were looked at; drain these, then look again"


@dataclass(slots=True)
class LetterClass:
    """Letters that died alike."""

    cause: Cause
    dataset: str | None
    code: str | None
    letters: int = 0
    #: Of their data, and of their sending.
    data_from: datetime | None = None
    data_to: datetime | None = None
    sent_from: datetime | None = None
    sent_to: datetime | None = None

    def add(self, found: Found) -> None:
        """Count a letter."""
        self.letters += 1
        start, sent = found.classified.data_time, found.letter.sent_at
        self.sent_from = min(self.sent_from or sent, sent)
        self.sent_to = max(self.sent_to or sent, sent)
        if start is not None:
            self.data_from = min(self.data_from or start, start)
            self.data_to = max(self.data_to or start, start)

    def document(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        times = {
            name: None if (at := getattr(self, name)) is None else format_instant(at)
            for name in ("data_from", "data_to", "sent_from", "sent_to")
        }
        about = {"cause": self.cause.value, "dataset": self.dataset, "code": self.code}
        return {**about, "letters": self.letters, **times}


def classified(letters: Iterable[Found]) -> list[LetterClass]:
    """Put letters together by cause, dataset and code, the largest first."""
    classes: dict[tuple[object, ...], LetterClass] = {}
    for found in letters:
        about = found.classified
        key = (about.cause, about.dataset, about.code)
        if key not in classes:
            classes[key] = LetterClass(about.cause, about.dataset, about.code)
        classes[key].add(found)
    return sorted(classes.values(), key=_largest_first)


def _largest_first(found: LetterClass) -> tuple[int, str, str, str]:
    return -found.letters, found.cause.value, found.dataset or "", found.code or ""


def show_classes(
    queue: str, found: Sequence[LetterClass], *, truncated: bool, as_json: bool
) -> None:
    """Show what letters died of."""
    by_cause = Counter(dict.fromkeys(Cause, 0))
    for each in found:
        by_cause[each.cause] += each.letters
    if as_json:
        print_json(
            {
                "queue": queue,
                "letters": by_cause.total(),
                "truncated": truncated,
                "by_cause": {cause.value: by_cause[cause] for cause in Cause},
                "classes": [each.document() for each in found],
            }
        )
        return
    from tallgrass.cli.tables import say, show_table  # noqa: PLC0415 - rich is for tables only

    say(f"{by_cause.total():,} dead letters of {queue}", "bold")
    if truncated:
        say(_TRUNCATED)
    if found:
        show_table(
            ("cause", "dataset", "code", "letters", "data from", "data to"),
            [(e.cause.value, e.dataset, e.code, e.letters, e.data_from, e.data_to) for e in found],
        )


def show_plan(plan: DrainPlan, target: Path, *, as_json: bool) -> None:
    """Say what a plan comes to."""
    document = {
        "header": plan.header.document(),
        "letters": len(plan.rows),
        "by_action": _by_action(plan.by_action),
        "by_reason": dict(sorted(plan.by_reason.items())),
        "plan_sha256": plan.sha256,
        "file": str(target),
    }
    if as_json:
        print_json(document)
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
    actions = Counter(fate.action.value for fate in fates)
    reasons = Counter(f.reason for f in fates if f.action is DrainAction.LEAVE and f.reason)
    if as_json:
        print_json(
            {
                "replay_run_id": plan.header.replay_run_id,
                "planned": len(plan.rows),
                "by_action": _by_action(actions),
                "by_reason": dict(sorted(reasons.items())),
            }
        )
        return
    lines = [f"letters: {len(plan.rows):,}", *_action_lines(actions, reasons)]
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
        f"sent again: {report.sent_again:,}",
        f"units put back {units.planned:,} = {worked} + due {units.due:,}",
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
    from tallgrass.cli.tables import progress  # noqa: PLC0415 - rich is for terminals only

    with progress("draining", letters) as shown:

        def tell(done: int) -> None:
            if shown is not None:
                shown.update(shown.task_ids[0], completed=done)

        yield tell


def _by_action(counts: Counter[str]) -> dict[str, int]:
    return {action.value: counts[action.value] for action in DrainAction}


def _action_lines(actions: Counter[str], reasons: Counter[str]) -> list[str]:
    lines = [f"  {name}: {n:,}" for name, n in sorted(actions.items())]
    return lines + [f"    left, {printable(name)}: {n:,}" for name, n in sorted(reasons.items())]

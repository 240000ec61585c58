"""Dead letters as documents: why they died, what a drain would do, and the choice of letters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallgrass.clock import format_instant
from tallgrass.replay.dead_letters import Cause, DrainAction, Wanted
from tallgrass.replay.selection import Selection, Span
from tallgrass.replay.selection_file import instant_or_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from tallgrass.bootstrap.draining import Found
    from tallgrass.replay.dead_letter_plan import DrainPlan
    from tallgrass.replay.dead_letters import LetterFate


def wanted_letters(
    *,
    datasets: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    codes: Sequence[str] = (),
    causes: Sequence[str] = (),
) -> Wanted:
    """Return which letters are meant, by conditions as people write them."""
    span = Span(
        None if since is None else instant_or_date(since),
        None if until is None else instant_or_date(until),
    )
    selection = Selection(datasets=tuple(datasets), data_time=span, error_codes=tuple(codes))
    return Wanted(selection=selection, causes=frozenset(Cause(cause) for cause in causes))


@dataclass(slots=True)
class LetterClass:
    """Dead letters with the same cause, dataset and code."""

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


def classes_document(
    queue: str, found: Sequence[LetterClass], *, truncated: bool
) -> dict[str, object]:
    """Return what the letters of a queue died of."""
    by_cause = Counter(dict.fromkeys(Cause, 0))
    for each in found:
        by_cause[each.cause] += each.letters
    return {
        "queue": queue,
        "letters": by_cause.total(),
        "truncated": truncated,
        "by_cause": {cause.value: by_cause[cause] for cause in Cause},
        "classes": [each.document() for each in found],
    }


def plan_document(plan: DrainPlan) -> dict[str, object]:
    """Return what a plan comes to."""
    return {
        "header": plan.header.document(),
        "letters": len(plan.rows),
        "by_action": by_action(plan.by_action),
        "by_reason": dict(sorted(plan.by_reason.items())),
        "plan_sha256": plan.sha256,
    }


def preview_document(plan: DrainPlan, fates: Sequence[LetterFate]) -> dict[str, object]:
    """Return what a drain of a plan would do now."""
    actions = Counter(fate.action.value for fate in fates)
    return {
        "replay_run_id": plan.header.replay_run_id,
        "planned": len(plan.rows),
        "by_action": by_action(actions),
        "by_reason": dict(sorted(reasons_of(fates).items())),
    }


def reasons_of(fates: Iterable[LetterFate]) -> Counter[str]:
    """Count why letters would stay."""
    return Counter(f.reason for f in fates if f.action is DrainAction.LEAVE and f.reason)


def by_action(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many letters go which way, every way named."""
    return {action.value: counts.get(action.value, 0) for action in DrainAction}

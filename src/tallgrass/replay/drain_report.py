"""What a drain has come to: its letters, the units that were put back, and what went wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tallgrass.replay.dead_letters import MOVED, SENT, DrainAction, LetterReason
from tallgrass.replay.run import RunReport


class LetterState(StrEnum):
    """How far a letter has come."""

    LEFT = "left"  # it is where it was; a later drain of the plan may take it
    RECORDED = "recorded"  # the ledger knows; its message may or may not be in the queue
    SENT = "sent"  # its message is in the queue
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """Letters of a run that are alike."""

    action: DrainAction
    state: LetterState
    reason: str | None
    letters: int
    #: Letters that were sent more than once, or may have been.
    sent_again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """How many of each are borne; one more fails the run."""

    duplicates: int = 0
    lineage_regressions: int = 0
    mismatches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """What a drain has come to: planned = sent + settled + quarantined + poison + left."""

    replay_run_id: str
    planned: int
    sent: int
    settled: int
    quarantined: int
    poison: int
    left: int
    #: Why letters stay.
    by_reason: Mapping[str, int]
    #: Taken out of the ledger's hand, and not yet known to be gone from the place.
    unfinished: int
    sent_again: int
    #: What came of the units that were put back; done are also those that succeeded later.
    units: RunReport
    #: Units that failed in the run, and that their message brought through when it came again.
    succeeded_later: int
    #: Units of the run whose same object was applied more than once.
    duplicates: int
    #: Units that the run brought through and whose provenance is missing or incomplete.
    lineage_regressions: int
    #: Which of the three are above what is borne.
    exceeded: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON value."""
        return {
            "replay_run_id": self.replay_run_id,
            "planned": self.planned,
            "sent": self.sent,
            "settled": self.settled,
            "quarantined": self.quarantined,
            "poison": self.poison,
            "left": self.left,
            "by_reason": dict(sorted(self.by_reason.items())),
            "unfinished": self.unfinished,
            "sent_again": self.sent_again,
            "succeeded_later": self.succeeded_later,
            "duplicates": self.duplicates,
            "lineage_regressions": self.lineage_regressions,
            "mismatches": self.units.mismatches,
            "exceeded": list(self.exceeded),
            "units": self.units.document(),
        }


def drain_report(
    planned: int,
    counts: Sequence[LetterCount],
    units: RunReport,
    *,
    succeeded_later: Mapping[str, int],
    duplicates: int,
    lineage_regressions: int,
    borne: Thresholds,
) -> DrainReport:
    """Add up the letters of a run; what no row tells of was not taken up yet.

    `succeeded_later` counts units that failed in the run and have succeeded since, by what they
    failed of.
    """

    def total(*actions: DrainAction) -> int:
        return sum(e.letters for e in counts if not _stays(e) and e.action in actions)

    by_reason: dict[str, int] = {}
    for each in counts:
        if _stays(each):
            reason = (
                LetterReason.NOT_CONFIRMED.value
                if each.state is LetterState.RECORDED
                else each.reason or MOVED
            )
            by_reason[reason] = by_reason.get(reason, 0) + each.letters
    unseen = planned - sum(each.letters for each in counts)
    if unseen:
        by_reason[LetterReason.NOT_TAKEN_UP.value] = unseen
    found = {
        "duplicates": duplicates,
        "lineage_regressions": lineage_regressions,
        "mismatches": units.mismatches,
    }
    return DrainReport(
        replay_run_id=units.replay_run_id,
        planned=planned,
        sent=total(*SENT),
        settled=total(DrainAction.SETTLE),
        quarantined=total(DrainAction.QUARANTINE),
        poison=total(DrainAction.POISON),
        left=sum(by_reason.values()),
        by_reason=by_reason,
        unfinished=sum(
            e.letters for e in counts if e.state in {LetterState.RECORDED, LetterState.SENT}
        ),
        sent_again=sum(each.sent_again for each in counts),
        units=_brought_through(units, succeeded_later),
        succeeded_later=sum(succeeded_later.values()),
        duplicates=duplicates,
        lineage_regressions=lineage_regressions,
        exceeded=tuple(name for name, count in found.items() if count > getattr(borne, name)),
    )


def _brought_through(units: RunReport, later: Mapping[str, int]) -> RunReport:
    """Count units that have succeeded since as done, and no longer as what they failed of."""
    number = sum(later.values())
    return replace(
        units,
        done=units.done + number,
        failed=units.failed - number,
        by_reason=Counter(units.by_reason) - Counter(later),
    )


def _stays(count: LetterCount) -> bool:
    """Tell whether letters are where they were; one that nobody knows to be sent is, too."""
    unsent = count.state is LetterState.RECORDED and count.action in SENT
    return count.state is LetterState.LEFT or unsent

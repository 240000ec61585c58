"""What may stop a replay, each under its name: scope, volume, state, environment.

A guard of the whole run refuses it; a guard of single records leaves those out and counts them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tallgrass.errors import GuardRefused
from tallgrass.governance.gate import Rule
from tallgrass.replay.selection import Selection

#: The only environment in which a replay for a test is refused.
PRODUCTION = "prod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A guard that fires."""

    guard: Rule
    #: Why, for people.
    detail: str
    #: Whether it refuses the run; else it leaves out `records`.
    refuses: bool
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much a run may do; flags and files can only lower what the configuration says."""

    max_events: int
    batch: int
    #: Candidates that a plan may have at all.
    max_candidates: int
    max_records_per_second: float

    def lowered(
        self, *, max_events: int | None = None, batch: int | None = None, batches: int | None = None
    ) -> "Caps":
        """Return the smaller of what is configured and what is asked for."""
        size = min(self.batch, batch or self.batch)
        events = [self.max_events, *([max_events] if max_events else [])]
        if batches:
            events.append(batches * size)
        return Caps(
            max_events=min(events),
            batch=size,
            max_candidates=self.max_candidates,
            max_records_per_second=self.max_records_per_second,
        )

    def document(self) -> dict[str, float]:
        """Return them as a JSON value, for the header of a plan."""
        return {
            "max_events": self.max_events,
            "batch": self.batch,
            "max_candidates": self.max_candidates,
            "max_records_per_second": self.max_records_per_second,
        }


def scope_guard(selection: Selection, *, allow_global_scope: bool) -> list[Finding]:
    """Ask for a dataset (or a bucket prefix) and a start in time, unless units are named."""
    if selection.names_units or allow_global_scope:
        return []
    lacking = []
    if not (selection.datasets or selection.bucket_prefix):
        lacking.append("a dataset or a bucket prefix")
    if not selection.has_start:
        lacking.append("a time from which on")
    if not lacking:
        return []
    detail = f"the selection lacks {' and '.join(lacking)}"
    return [Finding(guard=Rule.SCOPE_TOO_BROAD, detail=detail, refuses=True)]


def volume_guard(candidates: int, caps: Caps) -> list[Finding]:
    """Refuse a selection that nobody can look through; what is beyond the cap is only left out."""
    if candidates <= caps.max_candidates:
        return []
    detail = f"{candidates:,} candidates; replay.max_candidates is {caps.max_candidates:,}"
    return [Finding(guard=Rule.SELECTION_TOO_LARGE, detail=detail, refuses=True)]


def environment_guard(
    env: str, *, meant: Iterable[str | None] = (), reason: str | None = None
) -> list[Finding]:
    """Refuse what was meant for another environment, and tests in production."""
    wrong = sorted({name for name in meant if name is not None and name != env})
    found = [
        Finding(
            guard=Rule.ENV_MISMATCH,
            detail=f"meant for {name}, but this is {env}",
            refuses=True,
        )
        for name in wrong
    ]
    if reason == "test" and env == PRODUCTION:
        detail = f"the reason 'test' is not for {PRODUCTION}"
        found.append(Finding(guard=Rule.ENV_MISMATCH, detail=detail, refuses=True))
    return found


def record_guards(attempts_exceeded: int, switched_off: int, downgrades: int = 0) -> list[Finding]:
    """Tell how many records are left out by their own state."""
    counted = (
        (Rule.ATTEMPTS_EXCEEDED, attempts_exceeded, "at their limit of attempts"),
        (Rule.KILL_SWITCH_ACTIVE, switched_off, "of datasets whose replay is switched off"),
        (Rule.DOWNGRADE_REFUSED, downgrades, "whose items newer code made"),
    )
    return [
        Finding(guard=guard, detail=f"{records:,} records {what}", refuses=False, records=records)
        for guard, records, what in counted
        if records
    ]


def approval_guard(needed: int) -> list[Finding]:
    """Tell that a run needs approvers."""
    if not needed:
        return []
    detail = f"the run needs {needed} approver{'s' * (needed > 1)}"
    return [Finding(guard=Rule.APPROVAL_MISSING, detail=detail, refuses=True)]


def require_admitted(findings: Iterable[Finding]) -> None:
    """Raise the first guard that refuses the run."""
    for finding in findings:
        if finding.refuses:
            raise GuardRefused(finding.detail, guard=finding.guard.value)

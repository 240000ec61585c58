"""What a replay would do, unit by unit: pure, and one unit at a time however many there are.

A plan is a stream of JSON Lines: a header, then one row a candidate in order of wal_id. Its hash is
the SHA-256 of those bytes. Nothing in it depends on the clock: two plans of a ledger that nobody
changed, made with the same code, configuration and run id, are the same bytes. Hence a plan holds
no time of its making, and ids of runs that nobody named are its only chance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tallgrass.canonical_json import canonical_bytes
from tallgrass.governance.gate import Rule
from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.budget import attempts_used
from tallgrass.ledger.outcome import is_retried
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.replay.guards import Caps
from tallgrass.replay.selection import Selection
from tallgrass.replay.selection_file import API_VERSION, spec_of
from tallgrass.replay.versions import lowers

KIND = "ReplayPlan"
#: What an approval of a plan is given for.
PURPOSE = "replay"
#: Failures that stay final, whatever a selection names: a policy refused them.
NEVER_REPLAYED = frozenset({"governance_hard_fail"})


class PlanAction(StrEnum):
    """What a run would do with a candidate."""

    REPLAY = "replay"  # a failed unit becomes pending and due
    RERUN = "rerun"  # a succeeded unit is run again; its status stays
    HIT = "hit"  # its item is what a re-run would give: nothing to do
    SKIP = "skip"  # left alone; the reason says why


#: What puts a unit to work.
WORKING: Final = frozenset({PlanAction.REPLAY, PlanAction.RERUN})


class SkipReason(StrEnum):
    """Why a candidate is left alone; a rule of the gate gives its own name instead."""

    PENDING = "pending"  # due already
    IN_PROGRESS = "in_progress"  # a worker holds it
    QUARANTINED = "quarantined"  # only a release, with an approval of its own, moves it
    SUCCEEDED = "succeeded"  # done, and the selection does not include such units
    RERUN_PENDING = "rerun_pending"  # a re-run is asked for already
    CODE_NOT_REPLAYED = "code_not_replayed"  # its code is not retried, and nobody named it
    ATTEMPTS_EXCEEDED = Rule.ATTEMPTS_EXCEEDED.value  # failed, and its budget is used up
    DOWNGRADE = Rule.DOWNGRADE_REFUSED.value  # the code is older than the one that made its item
    BEYOND_MAX_EVENTS = "beyond_max_events"  # the cap was reached before it


class Candidate(NamedTuple):
    """A selected unit, as far as its fate depends on it.

    A tuple that is made of a row as it stands: a dataclass took 2 µs more a candidate.
    """

    wal_id: str
    dataset: str
    #: A word of `Status`.
    status: str
    version: int
    attempts: int
    budget_from: int
    last_error_code: str | None
    #: Why it shall run again already, if somebody asked for it.
    rerun_intent: str | None
    #: Whether an object is known that is newer than the one of its last attempt.
    newer_object: int
    #: Whether a worker holds it; asked only of succeeded units.
    held: int
    #: Versions of the attempt whose item is in the catalog.
    applied_code_version: str | None
    applied_config_version: str | None


class PlannedAction(NamedTuple):
    """One row of a plan."""

    wal_id: str
    version: int
    action: PlanAction
    #: Of a skip.
    reason: str | None = None

    def line(self) -> bytes:
        """Return the row as a line of the plan."""
        value: dict[str, Any] = {"action": self.action}
        if self.reason is not None:
            value["reason"] = self.reason
        value["version"] = self.version
        value["wal_id"] = self.wal_id
        return canonical_bytes(value) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """What a plan is for, what it was made with, and what its run needs."""

    replay_run_id: str
    env: str
    mode: ReplayMode
    intent: Intent
    #: A registered reason; None in a plan that is only looked at.
    reason: str | None
    selection: Selection
    code_version: str
    config_version: str
    approvals_needed: int
    caps: Caps
    incident_ref: str | None = None
    change_ref: str | None = None
    policy_ref: str | None = None
    #: JSON Pointers of fields that the run says it will change.
    expected: tuple[str, ...] = ()
    #: Whether units are run again whose item is what a re-run should give.
    forced: bool = False
    #: Whether an item may be made again by an older code, or by one of unknown age.
    allow_downgrade: bool = False

    def document(self) -> dict[str, Any]:
        """Return the header as a JSON value."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "purpose": PURPOSE,
            "replay_run_id": self.replay_run_id,
            "env": self.env,
            "mode": self.mode.value,
            "intent": self.intent.value,
            "reason": self.reason,
            "selection": spec_of(self.selection),
            "code_version": self.code_version,
            "config_version": self.config_version,
            "approvals_needed": self.approvals_needed,
            "caps": self.caps.document(),
            "incident_ref": self.incident_ref,
            "change_ref": self.change_ref,
            "policy_ref": self.policy_ref,
            "expected": list(self.expected),
            "forced": self.forced,
            "allow_downgrade": self.allow_downgrade,
        }

    def line(self) -> bytes:
        """Return the header as the first line of the plan."""
        return canonical_bytes(self.document()) + b"\n"


#: Tells which rule of the gate refuses an action on a dataset, if one does.
Denies = Callable[[str, PlanAction], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """What decides about a candidate beside its own state."""

    header: PlanHeader
    ledger: LedgerRules
    denies: Denies


def decide(candidate: Candidate, rules: PlanRules) -> tuple[PlanAction, str | None]:
    """Return what a run would do with a candidate, were there no cap, and why it would not."""
    match candidate.status:
        case Status.FAILED:
            return _decide_failed(candidate, rules)
        case Status.SUCCEEDED:
            return _decide_succeeded(candidate, rules)
        case status:
            return PlanAction.SKIP, status


def replays_code(code: str, selection: Selection) -> bool:
    """Tell whether a unit that failed with the code is replayed.

    One that is retried by itself is. Any other only if the selection names it: whoever names a code
    says that its cause is mended.
    """
    return code not in NEVER_REPLAYED and (is_retried(code) or code in selection.error_codes)


def _decide_failed(candidate: Candidate, rules: PlanRules) -> tuple[PlanAction, str | None]:
    if not replays_code(candidate.last_error_code or "", rules.header.selection):
        return PlanAction.SKIP, SkipReason.CODE_NOT_REPLAYED.value
    if _at_limit(candidate, rules.ledger):
        return PlanAction.SKIP, SkipReason.ATTEMPTS_EXCEEDED.value
    return _unless_denied(PlanAction.REPLAY, candidate, rules)


def _decide_succeeded(candidate: Candidate, rules: PlanRules) -> tuple[PlanAction, str | None]:
    if candidate.held:
        return PlanAction.SKIP, SkipReason.IN_PROGRESS.value
    if not rules.header.selection.includes_succeeded:
        return PlanAction.SKIP, SkipReason.SUCCEEDED.value
    if candidate.rerun_intent is not None:
        return PlanAction.SKIP, SkipReason.RERUN_PENDING.value
    if _is_hit(candidate, rules.header):
        return _unless_denied(PlanAction.HIT, candidate, rules)
    if _is_downgrade(candidate, rules.header):
        return PlanAction.SKIP, SkipReason.DOWNGRADE.value
    # No limit is asked for: an approved re-run starts a new budget. Nothing else could bring in a
    # newer object whose re-run was given up.
    return _unless_denied(PlanAction.RERUN, candidate, rules)


def _is_hit(candidate: Candidate, header: PlanHeader) -> bool:
    """Tell whether the same code and configuration were applied to the object as it is known.

    The configuration's version holds the policies. A failed re-run leaves the item behind.
    """
    return (
        not header.forced
        and candidate.applied_code_version == header.code_version
        and candidate.applied_config_version == header.config_version
        and not candidate.newer_object
        and candidate.last_error_code is None
    )


def _is_downgrade(candidate: Candidate, header: PlanHeader) -> bool:
    return not header.allow_downgrade and lowers(
        candidate.applied_code_version, header.code_version
    )


def _at_limit(candidate: Candidate, ledger: LedgerRules) -> bool:
    used = attempts_used(candidate.attempts, candidate.budget_from)
    return used >= ledger.max_attempts_of(candidate.dataset)


def _unless_denied(
    action: PlanAction, candidate: Candidate, rules: PlanRules
) -> tuple[PlanAction, str | None]:
    rule = rules.denies(candidate.dataset, action)
    return (action, None) if rule is None else (PlanAction.SKIP, rule)

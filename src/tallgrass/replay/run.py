"""A replay run: what it was registered with, what becomes of each of its records, and its report.

Everything here is decided without a database: the store reads, asks, and writes the answer in one
transaction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from tallgrass.governance.gate import Rule
from tallgrass.governance.policy import ReplayMode
from tallgrass.governance.switches import SwitchedOff
from tallgrass.ledger.receipt import Known, at_limit
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.made_often import made_often
from tallgrass.replay.comparison import Change
from tallgrass.replay.plan import PlanAction, PlannedAction, SkipReason, replays_code
from tallgrass.replay.selection import Selection
from tallgrass.replay.versions import lowered_schemas, lowers


class RunSkip(StrEnum):
    """Why a run skips a record, beside the reasons of its plan and the rules of the gate."""

    MOVED = "moved"  # it is not as it was planned
    SCHEMA_REGRESSION = "schema_regression"  # its item names a newer schema than is written now


MOVED = RunSkip.MOVED.value
SCHEMA_REGRESSION = RunSkip.SCHEMA_REGRESSION.value
#: Why it waits, though it was planned: the switch was turned while the run was under way.
HELD_BY_SWITCH = Rule.KILL_SWITCH_ACTIVE.value


class RowOutcome(StrEnum):
    """What came of a record of a run; all but the first are final."""

    DUE = "due"
    DONE = "done"
    HIT = "hit"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What a run is registered with; it never changes."""

    replay_run_id: str
    mode: ReplayMode
    intent: Intent
    reason: str
    selection: Selection
    plan_sha256: str
    code_version: str
    config_version: str
    #: Records of the plan.
    planned: int
    #: Those of which the run keeps no row, as they are beyond its cap, by reason.
    skipped: Mapping[str, int] = field(default_factory=dict)
    expected: tuple[str, ...] = ()
    approval_id: str | None = None
    change_ref: str | None = None
    incident_ref: str | None = None
    policy_ref: str | None = None
    forced: bool = False
    allow_downgrade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as the store has it."""

    order: NewRun
    actor: str
    #: Approvers of the approval that it used.
    approvals: int
    started_at: datetime
    finished_at: datetime | None
    #: Rows are applied in order of wal_id: the last one that was.
    applied_to: str | None


@made_often
class RunUnit:
    """A unit as far as a run must know it."""

    known: Known
    #: Whether an attempt is open.
    is_open: bool
    applied_attempt: int | None
    applied_code_version: str | None
    #: Whether a newer object waits for the re-run.
    newer_object: bool
    #: Its stored item.
    item: bytes | None


#: Tells which rule of the gate refuses an action on a dataset under these switches, if one does.
RunDenies = Callable[[str, PlanAction, SwitchedOff], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """What decides about a record beside its own state."""

    ledger: LedgerRules
    selection: Selection
    denies: RunDenies
    code_version: str
    allow_downgrade: bool = False


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one record: an outcome of its row, and why."""

    outcome: RowOutcome
    reason: str | None = None

    @property
    def is_put_to_work(self) -> bool:
        """Whether the unit itself is changed."""
        return self.outcome is RowOutcome.DUE and self.reason is None


_TO_WORK = Fate(RowOutcome.DUE)
_HIT = Fate(RowOutcome.HIT)
_HELD = Fate(RowOutcome.DUE, HELD_BY_SWITCH)


def fate_of(row: PlannedAction, unit: RunUnit, rules: RunRules, off: SwitchedOff) -> Fate:
    """Decide on a planned record as it stands now; versions decide who was first."""
    if row.action is PlanAction.SKIP:
        return _skipped(row.reason or MOVED)
    known = unit.known
    if known.version != row.version:
        return _skipped(MOVED)
    denied = rules.denies(known.dataset, row.action, off)
    if denied == HELD_BY_SWITCH:
        return _HELD
    if denied is not None:
        return _skipped(denied)
    if row.action is PlanAction.REPLAY:
        return _replayed(known, rules)
    return _run_again(row, unit, rules)


def _replayed(known: Known, rules: RunRules) -> Fate:
    if known.status is not Status.FAILED:
        return _skipped(known.status.value)
    if not replays_code(known.last_error_code or "", rules.selection):
        return _skipped(SkipReason.CODE_NOT_REPLAYED.value)
    if at_limit(known, rules.ledger):
        return _skipped(SkipReason.ATTEMPTS_EXCEEDED.value)
    return _TO_WORK


def _run_again(row: PlannedAction, unit: RunUnit, rules: RunRules) -> Fate:
    known = unit.known
    if known.status is not Status.SUCCEEDED:
        return _skipped(known.status.value)
    if unit.is_open:
        return _skipped(SkipReason.IN_PROGRESS.value)
    if row.action is PlanAction.HIT:
        return _HIT
    if known.rerun_intent is not None and known.due_at is not None:
        return _skipped(SkipReason.RERUN_PENDING.value)
    if not rules.allow_downgrade:
        if lowers(unit.applied_code_version, rules.code_version):
            return _skipped(SkipReason.DOWNGRADE.value)
        if unit.item is not None and lowered_schemas(unit.item):
            return _skipped(SCHEMA_REGRESSION)
    return _TO_WORK


def _skipped(reason: str) -> Fate:
    return Fate(RowOutcome.SKIPPED, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What came of one record of a run."""

    replay_run_id: str
    wal_id: str
    dataset: str
    version: int
    action: PlanAction
    outcome: RowOutcome
    reason: str | None
    attempt_no: int | None
    mismatch: bool
    #: Of all changes; `changes` holds the first of them.
    changed_fields: int
    changes: tuple[Change, ...]


class RunState(StrEnum):
    """Where a run stands."""

    FINISHED = "finished"  # every record has its outcome, or is only tried again by the ledger
    UNFINISHED = "unfinished"  # records wait for a worker, or the run was stopped: resume it
    PAUSED = "paused"  # a kill switch holds records: resume it when the switch is back
    MISMATCHED = "mismatched"  # more mismatches than were allowed; it was stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run has come to: planned = done + skipped + failed + due."""

    replay_run_id: str
    state: RunState
    planned: int
    #: Applied, and what was as it should be already (`hits`).
    done: int
    hits: int
    skipped: int
    failed: int
    #: Of the failed ones, those that the ledger tries again by itself.
    retrying: int
    #: Not tried yet; 0 in a run that is finished.
    due: int
    #: Of the due ones, those that a kill switch holds.
    held: int
    mismatches: int
    #: What was skipped, failed or is held, by reason.
    by_reason: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON value."""
        return {
            "replay_run_id": self.replay_run_id,
            "state": self.state.value,
            "planned": self.planned,
            "done": self.done,
            "hits": self.hits,
            "skipped": self.skipped,
            "failed": self.failed,
            "retrying": self.retrying,
            "due": self.due,
            "held": self.held,
            "mismatches": self.mismatches,
            "by_reason": dict(sorted(self.by_reason.items())),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """Rows of a run that are alike."""

    outcome: RowOutcome
    reason: str | None
    #: Whether an attempt was made.
    tried: bool
    records: int
    mismatches: int


def report_of(run: Run, counts: list[RowCount], *, mismatches_max: int | None = None) -> RunReport:
    """Add up the rows of a run, and what its plan left alone."""

    def total(*outcomes: RowOutcome) -> int:
        return sum(each.records for each in counts if each.outcome in outcomes)

    by_reason = dict(run.order.skipped)
    for each in counts:
        if each.reason is not None:
            by_reason[each.reason] = by_reason.get(each.reason, 0) + each.records
    left = [each for each in counts if each.outcome is RowOutcome.DUE]
    retrying = sum(each.records for each in left if each.tried)
    skipped = total(RowOutcome.SKIPPED) + sum(run.order.skipped.values())
    done, failed = total(RowOutcome.DONE, RowOutcome.HIT), total(RowOutcome.FAILED) + retrying
    held = sum(e.records for e in left if not e.tried and e.reason == HELD_BY_SWITCH)
    mismatches = sum(each.mismatches for each in counts)
    due = run.order.planned - done - skipped - failed
    return RunReport(
        replay_run_id=run.order.replay_run_id,
        state=_state(due, held, mismatches, mismatches_max),
        planned=run.order.planned,
        done=done,
        hits=total(RowOutcome.HIT),
        skipped=skipped,
        failed=failed,
        retrying=retrying,
        due=due,
        held=held,
        mismatches=mismatches,
        by_reason=by_reason,
    )


def _state(due: int, held: int, mismatches: int, mismatches_max: int | None) -> RunState:
    if mismatches_max is not None and mismatches > mismatches_max:
        return RunState.MISMATCHED
    if held:
        return RunState.PAUSED
    return RunState.UNFINISHED if due else RunState.FINISHED

"""The error budget of a pipeline: how much failure is left, and what may still be re-run.

    allowed   = (1 - objective) x outcomes of the window
    remaining = 1 - failures / allowed

    zone      green ≥ 50 %   yellow ≥ 20 %   red > 0   black: nothing is left

An outcome is a node's call that ended: with a result, or for good without one. Hits of the cache,
interrupts and parked nodes are none. In the red and the black zone a node is not run again on
sovereign data without an approval; what was never tried is.

Outcomes stand in ``outcomes/<pipeline>/<day>.ndjson`` beside the log: added by whichever process
saw them, derived from the journals alone, and made again from these by `rebuild`.
"""

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from tallgrass.clock import Clock, format_instant, system_clock
from tallgrass.errors import GovernanceError, InvalidInput, Refused
from tallgrass.governance.gate import Rule
from tallgrass.nodes.entries import Entry, Kind, RunState, TaskId, TaskState
from tallgrass.nodes.files import translated
from tallgrass.nodes.identity import file_name_of, id_of_file_name
from tallgrass.nodes.line_file import LineFile
from tallgrass.nodes.protocols import NodeCall, NodeOutcome, NodeStatus
from tallgrass.nodes.values import hash_of_identity
from tallgrass.telemetry.slo import Zone, zone_of

_DAY: Final = slice(0, 10)
_HOUR: Final = slice(0, 13)
_TOLD: Final = frozenset({NodeStatus.SUCCEEDED, NodeStatus.RECORDED, NodeStatus.FAILED})
_DAYS_MAX: Final = 366


#: Here sovereign data are not processed again without an approval.
GUARDED: Final = frozenset({Zone.RED, Zone.BLACK})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """What a pipeline promises: so much of its outcomes succeed, over so many days."""

    objective: float = 0.99
    window_days: int = 28

    def __post_init__(self) -> None:
        """Refuse what leaves no budget at all, or has no end."""
        if not 0 < self.objective < 1:
            raise _invalid(f"the objective is {self.objective!r}; it is between 0 and 1")
        if type(self.window_days) is not int or not 1 <= self.window_days <= _DAYS_MAX:
            raise _invalid(f"the window is {self.window_days!r} days; 1 to {_DAYS_MAX} are allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """Where a pipeline stands."""

    pipeline: str
    outcomes: int
    failures: int
    #: Of the budget; below 0 where more failed than was allowed.
    remaining: Fraction

    @property
    def zone(self) -> Zone:
        """How much is left, in a word."""
        return zone_of(self.remaining)


def budget_state(pipeline: str, outcomes: int, failures: int, policy: BudgetPolicy) -> BudgetState:
    """Work out what is left; of no outcomes everything is."""
    # Exact: the bounds of the zones are met by small whole numbers.
    allowed = (1 - Fraction(str(policy.objective))) * outcomes
    remaining = 1 - failures / allowed if outcomes else Fraction(1)
    return BudgetState(pipeline=pipeline, outcomes=outcomes, failures=failures, remaining=remaining)


class RerunApprovals(Protocol):
    """Says whether an approval allows to run a node again in a guarded zone."""

    def allow_rerun(self, approval: str, run_id: str, task: TaskId) -> None:
        """Raise `ApprovalInvalid` or `GuardRefused` if it does not."""


def require_rerun_allowed(
    call: NodeCall, zone: Zone, *, rerun: bool, approvals: RerunApprovals | None
) -> None:
    """Refuse to process sovereign data again in a guarded zone, unless an approval allows it."""
    if not rerun or not call.is_sovereign or zone not in GUARDED:
        return
    if call.approval is None:
        raise _refused(call, zone, "no approval was given")
    if approvals is None:
        raise _refused(call, zone, "nobody here can check an approval")
    try:
        approvals.allow_rerun(call.approval, call.run_id, call.task)
    except Refused as error:
        raise _refused(call, zone, str(error)) from error


# --- outcomes as lines ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call that ended, as the log of outcomes keeps it: all of it stands in the journal."""

    pipeline: str
    run_id: str
    task: TaskId
    at: str
    succeeded: bool
    #: Names what was done to what, so that doing it again is known.
    work: str

    @property
    def line(self) -> bytes:
        """The line that stands for it."""
        return orjson.dumps(
            {
                "at": self.at,
                "run_id": self.run_id,
                "node_id": self.task.node_id,
                "task_id": self.task.task_id,
                "succeeded": self.succeeded,
                "work": self.work,
            }
        )


def outcomes_of(run_id: str, entries: Iterable[Entry]) -> list[Outcome]:
    """Return the outcomes that a run's journal tells of, in its order."""
    state = RunState(run_id)
    found = []
    for entry in entries:
        state.apply(entry, 0)
        if entry.task is not None and entry.kind in {Kind.POST, Kind.FAILED}:
            outcome = _outcome(run_id, state.task(entry.task), entry)
            if outcome is not None:
                found.append(outcome)
    return found


def _outcome(run_id: str, task: TaskState, end: Entry | None) -> Outcome | None:
    """Return what an entry that ends a task comes to; None for a hit, or without its beginning."""
    if end is None or end.kind is Kind.HIT or task.pre is None:
        return None
    pre = task.pre.body
    return Outcome(
        pipeline=pre["pipeline"],
        run_id=run_id,
        task=task.id,
        at=end.at,
        succeeded=end.kind is Kind.POST,
        work=work_of(task.id.node_id, pre["dataset"], pre["inputs_hash"]),
    )


def work_of(node_id: str, dataset: str | None, inputs_hash: str) -> str:
    """Name what a node does to its inputs, whatever run and version it is."""
    return hash_of_identity([node_id, dataset, inputs_hash])[:24]


class _Tally:
    """What one day's file holds, by hours."""

    def __init__(self, path: Path) -> None:
        self.file = LineFile(path, self.take)
        #: Outcomes and failures.
        self.by_hour: dict[str, list[int]] = {}
        self.works: set[str] = set()

    def take(self, line: bytes) -> None:
        """Count a line; one that is no outcome was torn by a crash, and stands in its journal."""
        try:
            said = orjson.loads(line)
            hour, failed, work = said["at"][_HOUR], not said["succeeded"], said["work"]
        except (ValueError, KeyError, TypeError):
            return
        counts = self.by_hour.setdefault(hour, [0, 0])
        counts[0] += 1
        counts[1] += failed
        self.works.add(work)


class OutcomeLog:
    """The outcomes of all pipelines, in a folder; each process reads what others add."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._lock = threading.Lock()

    def pipelines(self) -> list[str]:
        """Return the pipelines that have outcomes."""
        found = []
        with translated(self.root):
            folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        for folder in folders:
            with contextlib.suppress(InvalidInput):
                found.append(id_of_file_name(folder.name))
        return found

    def add(self, outcomes: Iterable[Outcome]) -> int:
        """Note outcomes; return how many were not there yet."""
        files: dict[tuple[str, str], list[bytes]] = {}
        for each in outcomes:
            files.setdefault((each.pipeline, each.at[_DAY]), []).append(each.line)
        return sum(self._tally(*place).file.add(lines) for place, lines in files.items())

    def state(self, pipeline: str, now: datetime, policy: BudgetPolicy) -> BudgetState:
        """Return where a pipeline stands; the window is counted in whole hours."""
        begins = format_instant(now - timedelta(days=policy.window_days))[_HOUR]
        outcomes = failures = 0
        for tally in self._window(pipeline, now, policy):
            # A copy: another thread may be counting.
            for hour, counts in list(tally.by_hour.items()):
                if hour >= begins:
                    outcomes += counts[0]
                    failures += counts[1]
        return budget_state(pipeline, outcomes, failures, policy)

    def was_done(self, pipeline: str, work: str, now: datetime, policy: BudgetPolicy) -> bool:
        """Tell whether the same was tried before, within the window."""
        return any(work in tally.works for tally in self._window(pipeline, now, policy))

    def _window(self, pipeline: str, now: datetime, policy: BudgetPolicy) -> list[_Tally]:
        days = [
            format_instant(now - timedelta(days=back))[_DAY]
            for back in range(policy.window_days + 1)
        ]
        with self._lock:
            old = [key for key in self._tallies if key[0] == pipeline and key[1] < days[-1]]
            for key in old:
                del self._tallies[key]
        tallies = [self._tally(pipeline, day) for day in days]
        for tally in tallies:
            tally.file.refresh()
        return tallies

    def _tally(self, pipeline: str, day: str) -> _Tally:
        with self._lock:
            known = self._tallies.get((pipeline, day))
            if known is None:
                path = self.root / file_name_of(pipeline) / f"{day}.ndjson"
                known = self._tallies[(pipeline, day)] = _Tally(path)
            return known


class ErrorBudgets:
    """The error budgets of pipelines: a hook that admits, and a watcher that counts."""

    def __init__(
        self,
        root: str | Path,
        *,
        policy: BudgetPolicy | None = None,
        policies: dict[str, BudgetPolicy] | None = None,
        approvals: RerunApprovals | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self.log = OutcomeLog(Path(root))
        self._policy = policy or BudgetPolicy()
        self._policies = dict(policies or {})
        self._approvals = approvals
        self._clock = clock
        #: Approvals that were taken: one serves all attempts of the task that it was given for.
        self._granted: set[tuple[str, str, TaskId]] = set()

    def state(self, pipeline: str) -> BudgetState:
        """Return where a pipeline stands now."""
        return self.log.state(pipeline, self._clock(), self._policy_of(pipeline))

    def admit(self, call: NodeCall, *, rerun: bool) -> None:
        """Refuse to process sovereign data again in the red and the black zone."""
        if not call.is_sovereign:
            return
        zone = self.state(call.pipeline).zone
        rerun = rerun or (zone in GUARDED and self._was_done(call))
        granted = (call.approval or "", call.run_id, call.task)
        if granted in self._granted:
            return
        require_rerun_allowed(call, zone, rerun=rerun, approvals=self._approvals)
        if rerun and zone in GUARDED:
            self._granted.add(granted)

    def finished(self, outcome: NodeOutcome) -> None:
        """Count a call that ended; what an earlier process counted is not counted again."""
        task = outcome.task
        if task is None or outcome.status not in _TOLD:
            return
        end = task.failed if outcome.status is NodeStatus.FAILED else task.post
        counted = _outcome(outcome.call.run_id, task, end)
        if counted is not None:
            self.log.add([counted])

    def rebuild(self, run_id: str, entries: Iterable[Entry]) -> int:
        """Note what a run's journal tells of; return how much of it was missing."""
        return self.log.add(outcomes_of(run_id, entries))

    def _was_done(self, call: NodeCall) -> bool:
        work = work_of(call.node_id, call.declaration.dataset, call.identity.inputs_hash)
        return self.log.was_done(call.pipeline, work, self._clock(), self._policy_of(call.pipeline))

    def _policy_of(self, pipeline: str) -> BudgetPolicy:
        return self._policies.get(pipeline, self._policy)


def as_json_value(state: BudgetState) -> dict[str, Any]:
    """Return a state as commands show it."""
    return {
        "pipeline": state.pipeline,
        "outcomes": state.outcomes,
        "failures": state.failures,
        "remaining": round(float(state.remaining), 6),
        "zone": state.zone.value,
    }


def _refused(call: NodeCall, zone: Zone, why: str) -> GovernanceError:
    return GovernanceError(
        f"the error budget of {call.pipeline} is {zone.value}, and {call.node_id} would run again "
        f"on sovereign data: {why}",
        guard=Rule.SLO_RISK.value,
        code="node_rerun_refused",
    )


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(f"error budget: {message}", code="node_declaration_invalid")

"""What a node's execution tells to others, and what others may bring to it.

Every hook is optional and is given in a `NodeHooks`. They are called at these places, in order:

    gate.admit            before anything, again after a wait for others and before each further
                          attempt, and by the compensator before each of its tries
    budget.admit          before each attempt: may refuse a re-run by the error budget's zone
    validators.before     once a task, before its first attempt
    energy.begin/.end     around each attempt
    validators.after      on each result, before it is stored; an error ends the node at once
    lineage.emit          after the result is durable, and again on resume until it is noted
    watchers.finished     at the end of every call, whatever came of it
    compensator           when the node fails for good after an effect was begun; again on resume
    rollback              once a failure for good, after compensation
    escalation            after a failure for good, and again on resume until each alert is noted

Effects are made inside the node's function, by `effects.effect`: it appends an entry, commits it,
then does it.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from tallgrass.errors import InvalidInput, Refused
from tallgrass.governance.gate import Admission
from tallgrass.nodes.entries import Attempt, Entry, Kind, TaskId, TaskState
from tallgrass.nodes.identity import NodeIdentity
from tallgrass.nodes.run_wal import RunWal
from tallgrass.nodes.values import hash_of_identity
from tallgrass.telemetry.energy import EnergyUse

#: ``compensate_fn(previous_state, wal_entry)``.
CompensateFn = Callable[[Any, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeclaration:
    """What is said of a node once, for all its executions."""

    node_id: str
    #: None: derived from the code, except in a strict runner.
    code_version: str | None = None
    #: Version of the data contract, or fingerprint of the dataset.
    data_version: str = "unversioned"
    #: The keys of the state that the node uses; it is given these alone. None: all.
    uses: tuple[str, ...] | None = None
    dataset: str | None = None
    #: How open its data are; needed where no policy is known for its dataset.
    care_label: str | None = None
    governance_ref: str | None = None
    #: Inputs and results are kept apart from the log; also if governance says so.
    sensitive: bool = False
    cached: bool = True
    #: Whether it makes effects outside; its results are then recorded, never cached.
    has_effects: bool = False
    compensate_fn: CompensateFn | None = None
    #: Names the procedure that governs the effects where no compensation does.
    procedure: str | None = None
    #: Bound of one attempt; None: none.
    timeout_s: float | None = None
    #: Datasets read and written, as STAC or DCAT ids, for lineage.
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCall:
    """One execution that a run asks for."""

    pipeline: str
    env: str
    run_id: str
    task: TaskId
    declaration: NodeDeclaration
    identity: NodeIdentity
    admission: Admission
    sensitive: bool
    #: Approval that allows it where policy asks for one, as it was given.
    approval: str | None = None

    @property
    def node_id(self) -> str:
        """The node."""
        return self.task.node_id

    @property
    def cache_key(self) -> str | None:
        """Under which its result is cached; None: it is not."""
        cached = self.declaration.cached and not self.declaration.has_effects
        return self.identity.key if cached else None

    @property
    def lock_name(self) -> str:
        """What only one may compute at a time: the cached result, or else the task."""
        task = self.task
        return self.cache_key or hash_of_identity([self.run_id, task.node_id, task.task_id])

    @property
    def dataset_id(self) -> str:
        """The node's dataset as a label; empty where it has none."""
        return self.declaration.dataset or ""

    @property
    def is_sovereign(self) -> bool:
        """Whether the policy of its dataset says whose data these are."""
        return bool(self.admission.sovereignty)


class NodeStatus(StrEnum):
    """What came of a call."""

    SUCCEEDED = "succeeded"
    #: From the cache.
    CACHED = "cached"
    #: The run had the result already: it was resumed.
    RECORDED = "recorded"
    FAILED = "failed"
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"
    #: A switch stops it; it did not fail.
    PARKED = "parked"


@dataclass(slots=True)
class CpuTime:
    """CPU time of a node's own function, added up wherever it runs: threads, event loops."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutcome:
    """A call that has ended."""

    call: NodeCall
    status: NodeStatus
    #: All attempts of the task that spent its budget, those of earlier processes too; 0 for a hit.
    attempts: Sequence[Attempt]
    result_hash: str | None
    error: BaseException | None
    #: Whether the error is one that the policy never retries.
    error_is_final: bool
    started_at: datetime
    ended_at: datetime
    inputs: Any = None
    result: Any = None
    #: What the journal says of the task; what is derived from it alone can be rebuilt.
    task: TaskState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that failed for good, as compensation and rollback see it.

    `inputs` is the state before the node; `task` holds its effects and earlier compensations.
    """

    call: NodeCall
    task: TaskState
    #: What `failed.json` says.
    failed: Mapping[str, Any]
    inputs: Any
    log: "NodeLog"
    #: None on resume, when only what was written of it is known.
    error: BaseException | None
    #: Asks the gate whether anything may be done now; raises `NodeParked` or `GovernanceError`.
    admit: Callable[[], object]
    #: Says what an error was, without what must not be told.
    described: Callable[[BaseException], Mapping[str, Any]]

    @property
    def effects_begun(self) -> list[Entry]:
        """The effects that were announced, done or not."""
        return [entry for entry in self.task.effects if entry.kind is Kind.EFFECT]


class NodeLog:
    """A task's own part of the journal, for hooks. A fenced one takes no more entries."""

    def __init__(
        self,
        run: RunWal,
        task: TaskId,
        to_log: Callable[[Any], Any],
        from_log: Callable[[Any], Any],
    ) -> None:
        self._run = run
        self._task = task
        #: Return a value as it stands in an entry, apart from it where it is sensitive; and back.
        self.to_log = to_log
        self.from_log = from_log
        self._fenced: str | None = None
        self._fence = threading.Lock()
        #: Held by whoever looks at the state and appends what follows from it.
        self.exclusive = threading.Lock()

    @property
    def state(self) -> TaskState:
        """What the journal says of the task."""
        return self._run.task(self._task)

    def append(self, kind: Kind, body: Mapping[str, Any]) -> int:
        """Write an entry of JSON values; durable after `commit` of what is returned."""
        with self._fence:
            self.require_open()
            return self._run.append(kind, self._task, body)

    @property
    def is_fenced(self) -> bool:
        """Whether the attempt is over."""
        return self._fenced is not None

    def require_open(self) -> None:
        """Refuse to go on with an attempt that is over."""
        if self._fenced is not None:
            raise Refused(f"the attempt is over ({self._fenced}): it can write nothing more")

    def commit(self, end: int) -> None:
        """Return when the entry is on the disk."""
        self._run.commit(end)

    def fence(self, why: str) -> None:
        """Refuse all further entries: the attempt was given up while its function still runs."""
        with self._fence:
            self._fenced = why


_ACTIVE: ContextVar["ActiveNode | None"] = ContextVar("tallgrass_active_node", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveNode:
    """The attempt that is at work; the node's function finds it by `current_node()`."""

    call: NodeCall
    attempt: int
    log: NodeLog
    #: Where the function's CPU time is added to; None: nobody asks for it.
    cpu: CpuTime | None = None
    #: The attempt in which this one was called for, if it was in one.
    around: "ActiveNode | None" = field(default_factory=_ACTIVE.get)


def current_node() -> ActiveNode:
    """Return the attempt that is at work in this thread or task; outside of one it is refused."""
    active = _ACTIVE.get()
    if active is None:
        raise Refused("no node is at work here: effects are made inside a node's function")
    return active


def require_no_loop(call: NodeCall) -> None:
    """Refuse a call inside of the same call: each would wait for the other's result."""
    active = _ACTIVE.get()
    while active is not None:
        if active.call.lock_name == call.lock_name and not active.log.is_fenced:
            raise InvalidInput(
                f"{call.node_id} calls itself with the same inputs: it would wait for itself",
                code="node_declaration_invalid",
            )
        active = active.around


class Gatekeeper(Protocol):
    """Lets nodes run, by kill switches and governance."""

    def fingerprint(self, declaration: NodeDeclaration) -> str:
        """Return what changes when the policy that governs the node does."""

    def admit(self, declaration: NodeDeclaration) -> Admission:
        """Return the admission; raise `NodeParked` by a switch, `GovernanceError` by a policy."""


class Validator(Protocol):
    """Checks what goes in and what comes out; raises `ValidationError` or `GovernanceError`."""

    @property
    def fingerprint(self) -> str:
        """What changes when the rules do; it counts in the cache's key."""

    def before(self, call: NodeCall, inputs: Any) -> None:
        """Check the inputs."""

    def after(self, call: NodeCall, inputs: Any, result: Any) -> None:
        """Check the result."""


class EnergyMeter(Protocol):
    """Says what an attempt took."""

    def begin(self) -> Any:
        """Return whatever `end` needs; to a `CpuTime` the function's CPU time is added."""

    def end(self, begun: Any) -> EnergyUse:
        """Return the use since then."""


class LineageEmitter(Protocol):
    """Hands lineage of results on."""

    def emit(self, outcome: NodeOutcome) -> Mapping[str, Any]:
        """Hand it on, under ids that depend on the call alone; return what the log shall note."""


class Compensator(Protocol):
    """Undoes effects of a node that failed for good."""

    def compensate(self, failure: NodeFailure) -> None:
        """Undo, logging each try; called again after a crash, so what is done is done once.

        It asks `failure.admit` before each try, and raises what that refuses; nothing is raised
        for a compensation that failed: that is logged and escalated.
        """


class Escalator(Protocol):
    """Tells people of a failure for good, where they must look at it."""

    def alerts(self, failure: NodeFailure) -> Sequence[str]:
        """Return the kinds of alerts that the failure asks for, by what is known of it now."""

    def escalate(self, failure: NodeFailure, alert: str) -> None:
        """Raise one; called again if it failed, or if a crash came before it was noted."""


class ErrorBudget(Protocol):
    """The error budget of a pipeline."""

    def admit(self, call: NodeCall, *, rerun: bool) -> None:
        """Raise `GovernanceError` where the budget's zone does not allow the attempt.

        `rerun`: the task was attempted before, by this call or an earlier one.
        """


class OutcomeWatcher(Protocol):
    """Is told of every call that ended: budgets, alerts, checkpoints, reviews."""

    def finished(self, outcome: NodeOutcome) -> None:
        """Take note; an error here is not the node's."""


class ApprovalCheck(Protocol):
    """Says whether an approval allows to clear a failed node."""

    def allow_clearing(self, approval: str, run_id: str, task: TaskId) -> None:
        """Raise `ApprovalInvalid` or `GuardRefused` if it does not."""


class KeyLocks(Protocol):
    """Locks by name, between all who might compute the same result."""

    def acquire(self, name: str, timeout_s: float) -> Any:
        """Return something for `release`; raise `RunBusy` after the timeout."""

    def release(self, held: Any) -> None:
        """Let the next one in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHooks:
    """What others bring to every node of a runner."""

    validators: Sequence[Validator] = ()
    energy: EnergyMeter | None = None
    lineage: LineageEmitter | None = None
    compensator: Compensator | None = None
    budget: ErrorBudget | None = None
    watchers: Sequence[OutcomeWatcher] = ()
    #: Called once for each failure for good, after compensation.
    rollback: Callable[[NodeFailure], None] | None = None
    escalation: Escalator | None = None

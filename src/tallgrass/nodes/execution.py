"""One call of a node, from the cache to the last report: the order of steps, written once.

    gate → identity → cache → lock, cache again → pre + attempt (synced) → attempts → post (synced)
         → cache → lineage → telemetry → unlock

Gate and identity come before anything is read or written, in `node_runner`. Nothing is told before
it is durable, and nothing is done before it is written down that it will be.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tallgrass.clock import parse_instant
from tallgrass.errors import NodeFailed, NodeParked, Refused, ValidationError
from tallgrass.nodes.entries import Attempt, AttemptStatus, TaskState
from tallgrass.nodes.machinery import Machinery, Result, cache_body
from tallgrass.nodes.protocols import (
    ActiveNode,
    CpuTime,
    EnergyMeter,
    NodeCall,
    NodeLog,
    NodeOutcome,
    NodeStatus,
)
from tallgrass.nodes.retry_policy import RetryDecision, RetryPolicy
from tallgrass.nodes.signals import is_bubble_up, is_no_failure
from tallgrass.nodes.steps import Block, Execute, Steps, Wait, patiently
from tallgrass.nodes.task_log import TaskLog
from tallgrass.nodes.values import hash_of_identity

#: After a longer wait for others the gate is asked again.
_ADMITTED_FOR: Final = timedelta(seconds=1)


@dataclass(slots=True, kw_only=True)
class Execution:
    """One call; `steps` yields what takes time and returns the node's result."""

    machinery: Machinery
    call: NodeCall
    inputs: Any
    #: What of the inputs counts, as JSON.
    inputs_identity: Any
    function: Callable[[Any], Any]
    retry: RetryPolicy
    #: Execute even where a result is known, or twice where none is, and compare.
    verify: bool = False
    #: What tells this execution from others of its task: the key, or what stands for it.
    identity: str = field(init=False)
    #: Under which its result is cached; None: it is not.
    _key: str | None = field(init=False)
    _started_at: datetime = field(init=False)
    _log: TaskLog = field(init=False)
    #: The hash of a result that was known before, in verify mode.
    _expected: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Name the execution, once."""
        parts = self.call.identity
        key = parts.key
        if key is None:
            stands_for = ["uncached", parts.node_id, parts.inputs_hash, parts.data_version]
            self.identity = hash_of_identity(stands_for)
        else:
            self.identity = key
        self._key = self.call.cache_key

    def steps(self) -> Steps[Any]:
        """Take the call through all its steps."""
        wal = self.machinery.wal
        self._started_at = self.machinery.clock()
        found = yield from self._look()
        run = yield from self._patiently(partial(wal.acquire, self.call.run_id, 0.0))
        try:
            self._log = TaskLog(self.machinery, self.call, run, self.identity, self._key)
            known = yield from self._known(found)
            if known is not None:
                return known.value
            return (yield from self._locked())
        finally:
            wal.release(run)

    def _patiently(self, ask: Callable[[], Any]) -> Steps[Any]:
        return patiently(ask, self.machinery.lock_timeout_s, self.machinery.monotonic)

    # --- what is known already ---------------------------------------------------------------

    def _look(self) -> Steps[Result | None]:
        """Look into the cache; an entry that cannot be used is a miss."""
        if self._key is None:
            return None
        result: Result | None = yield Block(
            work=partial(self.machinery.cached, self.call, self._key)
        )
        return result

    def _known(self, found: Result | None) -> Steps[Result | None]:
        """Return the run's own result, or the cache's; a node that failed for good is refused."""
        if self.machinery.clock() - self._started_at > _ADMITTED_FOR:
            self._require_admitted_still()
        task = self._log.state
        recorded = task.result_for(self.identity)
        if recorded is not None:
            result = self.machinery.read(self.call, recorded.body)
            self._expected = result.hash
            if not self.verify:
                # Its writer may have been killed between the write and the sync.
                yield Block(work=partial(self._log.commit, task.post_end))
                yield from self._finish(NodeStatus.RECORDED, result)
                return result
        if task.failed is not None:
            refused = self._log.refusal(task.failed.body)
            yield Block(work=partial(self._log.settle_failure, None, self.inputs))
            yield Block(work=partial(self._emit_failed, task, refused))
            raise refused
        if found is None:
            return None
        self._expected = found.hash
        return None if self.verify else (yield from self._hit(found))

    def _emit_failed(self, task: TaskState, refused: NodeFailed) -> None:
        """Hand on lineage of a failure if its process was killed before it could."""
        if task.failed is not None and task.failed.body["identity"] == self.identity:
            self._log.emit_lineage(self._outcome(NodeStatus.FAILED, None, refused))

    def _hit(self, found: Result) -> Steps[Result]:
        yield Block(work=partial(self._log.write_hit, found))
        self.machinery.report.hit(self.call, self.machinery.clock() - self._started_at)
        yield from self._finish(NodeStatus.CACHED, found)
        return found

    # --- execution ---------------------------------------------------------------------------

    def _locked(self) -> Steps[Any]:
        """Be the only one who computes this result; what came meanwhile is used."""
        locks = self.machinery.locks
        held = yield from self._patiently(partial(locks.acquire, self.call.lock_name, 0.0))
        try:
            found = yield from self._look()
            known = yield from self._known(found)
            if known is not None:
                return known.value
            if self._key is not None and found is None:
                self.machinery.report.miss(self.call)
            result = yield from self._attempts()
            if self._key is not None:
                yield Block(work=partial(self._keep, self._key, result))
            yield from self._finish(NodeStatus.SUCCEEDED, result)
            return result.value
        finally:
            locks.release(held)

    def _attempts(self) -> Steps[Result]:
        """Try until it succeeds or the policy says no; every try is written down before it."""
        log = self._log
        body = log.pre_body(self.inputs_identity)
        pre: Mapping[str, Any] | None = body
        if self._may_be_refused:
            yield Block(work=partial(self._prepare, body))
            pre = None
        while True:
            spent = log.state.spent(self.identity)
            yield from self._require_budget(spent)
            self._require_zone()
            number = len(log.state.attempts) + 1
            yield Block(work=partial(log.begin_attempt, number, pre))
            pre = None
            if spent:
                self.machinery.report.retry(self.call)
            tried = yield from self._attempt(number)
            if isinstance(tried, Result):
                return tried
            yield Wait(seconds=tried)
            self._require_admitted_still()

    @property
    def _may_be_refused(self) -> bool:
        """Whether anything stands between the node's inputs and its first attempt."""
        hooks = self.machinery.hooks
        return bool(hooks.validators or hooks.budget is not None or self._log.state.attempts)

    def _prepare(self, pre: Mapping[str, Any]) -> None:
        """Write down what the node is given, then check it."""
        self._log.write_pre(pre)
        try:
            for validator in self.machinery.hooks.validators:
                validator.before(self.call, self.inputs)
        except Exception as error:
            why = "the inputs are not valid"
            self._fail(error, RetryDecision(retry=False, delay_s=0.0, why=why, is_final=True))
            raise

    def _require_admitted_still(self) -> None:
        """Ask the gate again: a switch that was set meanwhile parks the node; it did not fail."""
        try:
            self.machinery.gate.admit(self.call.declaration)
        except NodeParked as parked:
            self._tell(self._outcome(NodeStatus.PARKED, None, parked))
            raise

    def _require_zone(self) -> None:
        """Ask the error budget; who is refused did not fail, and may come with an approval."""
        budget = self.machinery.hooks.budget
        if budget is None:
            return
        try:
            budget.admit(self.call, rerun=bool(self._log.state.attempts))
        except Refused as refused:
            self._tell(self._outcome(NodeStatus.PARKED, None, refused))
            raise

    def _attempt(self, number: int) -> Steps[Result | float]:
        """Try once; return the result, or how long to wait before the next try."""
        log = self._log.for_hooks()
        begun = self._metered(lambda energy: energy.begin())
        started = self.machinery.monotonic()
        cpu = begun if isinstance(begun, CpuTime) else None
        try:
            value = yield from self._execute(number, log, cpu)
        except BaseException as error:  # noqa: BLE001 - raised again where it is no failure
            log.fence("it ended")
            return (yield from self._ended_by(number, error, self._measure(started, begun)))
        log.fence("it ended")
        measures = self._measure(started, begun)
        try:
            result = self._checked(value)
            yield from self._compare(number, result)
        except Exception as error:  # noqa: BLE001 - a rule's refusal ends the attempt
            return (yield from self._ended_by(number, error, measures))
        yield Block(work=partial(self._log.write_post, number, result, measures))
        return result

    def _execute(self, number: int, log: NodeLog, cpu: CpuTime | None = None) -> Steps[Any]:
        """Call the function with a copy of the inputs: what it does to them reaches nobody."""
        given = copy.deepcopy(self.inputs)
        value = yield Execute(
            function=self.function,
            inputs=given,
            active=ActiveNode(call=self.call, attempt=number, log=log, cpu=cpu),
            timeout_s=self.call.declaration.timeout_s,
        )
        if self.machinery.strict:
            after = self.machinery.values.hash_of(given)
            if after != hash_of_identity(self.inputs_identity):
                raise ValidationError(
                    f"{self.call.node_id} changed the state that it was given",
                    code="node_input_mutated",
                )
        return value

    def _checked(self, value: Any) -> Result:
        for validator in self.machinery.hooks.validators:
            validator.after(self.call, self.inputs, value)
        return Result(
            value=value,
            stored=self.machinery.stored(value, sensitive=self.call.sensitive),
            hash=self.machinery.values.hash_of(value),
        )

    def _compare(self, number: int, result: Result) -> Steps[None]:
        """In verify mode: the same inputs must give the same result again."""
        if not self.verify:
            return
        expected = self._expected
        if expected is None:
            again = yield from self._execute(number, self._log.for_hooks())
            expected = self.machinery.values.hash_of(again)
        if expected != result.hash:
            raise ValidationError(
                f"{self.call.node_id} gave {result.hash[:16]} and {expected[:16]} for one input",
                code="node_not_deterministic",
            )

    def _keep(self, key: str, result: Result) -> None:
        version = self.call.identity.code_version
        body = cache_body(self.call.node_id, version, result.stored, result.hash)
        try:
            self.machinery.cache.put(key, body)
        except Exception as error:  # noqa: BLE001 - a cache that fails must not fail the node
            self.machinery.report.cache_unusable(self.call, error)

    # --- failure -----------------------------------------------------------------------------

    def _ended_by(
        self, number: int, error: BaseException, measures: Mapping[str, Any]
    ) -> Steps[float]:
        """Write down how an attempt ended; return the wait before the next, or raise."""
        if is_no_failure(error):
            self._stopped(number, error, measures)
            raise error
        status = AttemptStatus.FAILED
        if isinstance(error, TimeoutError) and self.call.declaration.timeout_s is not None:
            status = AttemptStatus.TIMED_OUT
        decision = self._decide(error)
        self._log.end_attempt(number, status, measures, error=error, delay_s=decision.delay_s)
        if decision.retry:
            self._log.show_attempts()
            return decision.delay_s
        yield Block(work=partial(self._fail, error, decision))
        raise error

    def _decide(self, error: BaseException) -> RetryDecision:
        spent = self._log.state.spent(self.identity)
        # The last of them has no end yet: its time counts too.
        took = self.machinery.clock() - parse_instant(spent[-1].started_at)
        return self.retry.decide(
            error,
            attempts=len(spent),
            spent_s=sum(each.spent_s for each in spent) + max(took.total_seconds(), 0.0),
            uniform=self.machinery.uniform,
            clock=self.machinery.clock,
        )

    def _stopped(self, number: int, error: BaseException, measures: Mapping[str, Any]) -> None:
        """Write down an attempt that did not fail: it was suspended, cancelled or parked.

        No step of its own: a cancelled event loop takes no more of them.
        """
        suspended = is_bubble_up(error)
        status = AttemptStatus.SUSPENDED if suspended else AttemptStatus.CANCELLED
        self._log.commit(self._log.end_attempt(number, status, measures))
        self._log.show_attempts()
        told = NodeStatus.SUSPENDED if suspended else NodeStatus.CANCELLED
        self._tell(self._outcome(told, None, error))

    def _require_budget(self, spent: list[Attempt]) -> Steps[None]:
        """Refuse an attempt beyond the policy: earlier processes may have spent it by crashing."""
        used_s = sum(attempt.spent_s for attempt in spent)
        if len(spent) < self.retry.max_attempts and used_s <= self.retry.total_s_max:
            return
        why = f"{len(spent)} attempts of {self.retry.max_attempts} are spent, {used_s:.0f} s"
        error = NodeFailed(f"{self.call.node_id}: {why}; earlier processes did not end them")
        decision = RetryDecision(retry=False, delay_s=0.0, why=why, is_final=False)
        yield Block(work=partial(self._fail, error, decision))
        raise error

    def _fail(self, error: BaseException, decision: RetryDecision) -> None:
        """Mark the node as failed for good, then undo what it began, then tell of it."""
        self._log.write_failed(error, decision)
        self._log.settle_failure(error, self.inputs)
        outcome = self._outcome(NodeStatus.FAILED, None, error, is_final=decision.is_final)
        self.machinery.report.failed(self.call, error)
        self._log.emit_lineage(outcome)
        self._tell(outcome)

    # --- the end -----------------------------------------------------------------------------

    def _finish(self, status: NodeStatus, result: Result) -> Steps[None]:
        hooks = self.machinery.hooks
        if hooks.lineage is None and not hooks.watchers:
            return
        outcome = self._outcome(status, result, None)
        yield Block(work=partial(self._log.emit_lineage, outcome))
        self._tell(outcome)

    def _tell(self, outcome: NodeOutcome) -> None:
        self.machinery.report.finished(outcome, self.machinery.hooks)

    def _outcome(
        self,
        status: NodeStatus,
        result: Result | None,
        error: BaseException | None,
        *,
        is_final: bool = False,
    ) -> NodeOutcome:
        cached = status is NodeStatus.CACHED
        return NodeOutcome(
            call=self.call,
            status=status,
            attempts=() if cached else tuple(self._log.state.tried(self.identity)),
            result_hash=None if result is None else result.hash,
            error=error,
            error_is_final=is_final,
            started_at=self._started_at,
            ended_at=self.machinery.clock(),
            inputs=self.inputs,
            result=None if result is None else result.value,
            task=self._log.state,
        )

    def _measure(self, started: float, begun: Any) -> dict[str, Any]:
        latency_ms = (self.machinery.monotonic() - started) * 1000.0
        use = self._metered(lambda energy: energy.end(begun))
        self.machinery.report.attempt(self.call, latency_ms, use)
        return {"latency_ms": round(latency_ms, 3), **({} if use is None else asdict(use))}

    def _metered(self, work: Callable[[EnergyMeter], Any]) -> Any:
        """Ask the meter, where there is one; what fails in it is not the node's failure."""
        energy, told = self.machinery.hooks.energy, []
        if energy is not None:
            self.machinery.report.guarded(self.call, "energy", lambda: told.append(work(energy)))
        return told[0] if told else None

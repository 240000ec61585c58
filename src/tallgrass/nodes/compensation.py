"""What undoes the effects of a node that failed for good: a registry, and how it is carried out.

A compensation is ``compensate_fn(previous_state, wal_entry)``: the state before the node, and what
the log says of one effect. It is found by the effect's name, else it is the node's own. Effects are
undone in the reverse of their order; each try is announced and then ended in the log, so that a
process that was killed is followed by one that goes on: a compensation must therefore do no harm
when it is called again. Staged files are removed by this module itself. The log keeps everything.
"""

import copy
import inspect
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import GovernanceError, InvalidInput, NodeFailed, text_of
from tallgrass.ledger.redaction import redact
from tallgrass.nodes.effect_states import EffectRecord, TryStatus, outstanding_effects
from tallgrass.nodes.effects import STAGED
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.protocols import CompensateFn, NodeFailure, NodeHooks
from tallgrass.nodes.retry_policy import RetryPolicy
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder

Function = TypeVar("Function", bound=CompensateFn)

#: Few and short: what cannot be undone now is a matter for a person.
TRIES: Final = RetryPolicy(
    max_attempts=3, base_delay_s=0.5, max_delay_s=5.0, no_retry_on=(), retry_unlisted=True
)


class Compensations:
    """The compensations of a pipeline, by the names of effects; undoes what a failure left."""

    def __init__(
        self,
        *,
        policy: RetryPolicy = TRIES,
        recorder: Recorder = NOBODY,
        clock: Clock = system_clock,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] | None = None,
    ) -> None:
        self._policy = policy
        self._recorder = recorder
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform or random.Random().uniform  # noqa: S311 - jitter is no secret
        self._by_effect: dict[str, CompensateFn] = {STAGED: _remove_staged}

    def register(self, effect: str, function: Function) -> Function:
        """Let a function undo every effect of that name; one name has one function."""
        require_compensation(function)
        if self._by_effect.get(effect, function) is not function:
            raise InvalidInput(
                f"effects called {effect!r} have a compensation already",
                code="node_declaration_invalid",
            )
        self._by_effect[effect] = function
        return function

    def undoes(self, effect: str) -> Callable[[Function], Function]:
        """Decorate a function: ``@compensations.undoes("put")``."""
        return lambda function: self.register(effect, function)

    def compensate(self, failure: NodeFailure) -> None:
        """Undo what the failed node began, the newest first; each by itself, as far as it goes.

        Raises what the gate refuses; nothing else: a compensation that fails is written down.
        """
        for record in outstanding_effects(failure.task):
            function = self._by_effect.get(record.name, failure.call.declaration.compensate_fn)
            if function is None:
                self._leave(failure, record)
            else:
                self._undo(failure, record, function)

    def _leave(self, failure: NodeFailure, record: EffectRecord) -> None:
        """Write down that no function undoes it: a procedure governs it, or nobody does."""
        procedure = failure.call.declaration.procedure
        if procedure is not None:
            _write(failure, record, 0, TryStatus.LEFT, procedure=procedure)
            return
        nobody = f"nothing undoes effects called {record.name!r}"
        self._give_up(failure, record, 0, NodeFailed(nobody))

    def _undo(self, failure: NodeFailure, record: EffectRecord, function: CompensateFn) -> None:
        for number in range(record.tries + 1, self._policy.max_attempts + 1):
            _ask(failure, record)
            _write(failure, record, number, TryStatus.STARTED)
            try:
                # Each try is given its own: what one does to the state reaches no other.
                function(copy.deepcopy(failure.inputs), _shown(failure, record))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is written down
                delay_s = self._delay_s(number, error)
                if delay_s is None:
                    self._give_up(failure, record, number, error)
                    return
                _write(failure, record, number, TryStatus.FAILED, error=error)
                self._sleep(delay_s)
            else:
                _write(failure, record, number, TryStatus.UNDONE)
                return
        cut_off = f"{record.tries} tries at undoing {record.name!r} did not come to an end"
        self._give_up(failure, record, record.tries, NodeFailed(cut_off))

    def _delay_s(self, number: int, error: Exception) -> float | None:
        """Return the wait before the next try; None: there is none."""
        decision = self._policy.decide(
            error, attempts=number, spent_s=0.0, uniform=self._uniform, clock=self._clock
        )
        return decision.delay_s if decision.retry else None

    def _give_up(
        self, failure: NodeFailure, record: EffectRecord, number: int, error: Exception
    ) -> None:
        _write(failure, record, number, TryStatus.FAILED, error=error, is_final=True)
        call = failure.call
        self._recorder.event(
            names.NODE_COMPENSATION_FAILED,
            pipeline=call.pipeline,
            run_id=call.run_id,
            node=call.node_id,
            task_id=call.task.task_id,
            effect=record.name,
            tries=number,
            message=None if call.sensitive else redact(f"{type(error).__name__}: {text_of(error)}"),
        )


def compensating(
    hooks: NodeHooks, recorder: Recorder, clock: Clock, sleep: Callable[[float], None]
) -> NodeHooks:
    """Let a node's own compensate_fn count where nobody brings a registry."""
    if hooks.compensator is not None:
        return hooks
    return replace(hooks, compensator=Compensations(recorder=recorder, clock=clock, sleep=sleep))


def require_compensation(function: object) -> None:
    """Refuse what could not be called as ``compensate_fn(previous_state, wal_entry)``."""
    if not callable(function):
        raise _invalid(f"{function!r} is no function")
    if inspect.iscoroutinefunction(function):
        raise _invalid(f"{_name(function)} is async: a compensation is called from a thread")
    try:
        inspect.signature(function).bind({}, {})
    except (TypeError, ValueError) as exc:
        raise _invalid(
            f"{_name(function)} does not take two arguments, previous_state and wal_entry: {exc}"
        ) from exc


def _ask(failure: NodeFailure, record: EffectRecord) -> None:
    """Ask the gate before each try; a refusal is written down once, and counts as no try."""
    try:
        failure.admit()
    except GovernanceError as refused:
        tries = [each.body for each in failure.task.compensations]
        mine = [each for each in tries if each.get("number") == record.number]
        if not mine or mine[-1]["status"] != TryStatus.REFUSED:
            _write(failure, record, record.tries, TryStatus.REFUSED, error=refused)
        raise


def _write(
    failure: NodeFailure,
    record: EffectRecord,
    number: int,
    status: TryStatus,
    *,
    error: Exception | None = None,
    **more: Any,
) -> None:
    """Write a try's begin or end; durable when this returns."""
    head = {"number": record.number, "effect": record.name, "key": record.key, "try": number}
    body = {**head, "status": status.value, **more}
    if error is not None:
        body["error"] = dict(failure.described(error))
    failure.log.commit(failure.log.append(Kind.COMPENSATION, body))


def _shown(failure: NodeFailure, record: EffectRecord) -> Mapping[str, Any]:
    """Return what a compensation is told of an effect."""
    log, done = failure.log, record.done
    return {
        "run_id": failure.call.run_id,
        "node_id": failure.call.node_id,
        "task_id": failure.call.task.task_id,
        "attempt": record.begun.body.get("attempt"),
        "at": record.begun.at,
        "effect": record.name,
        "key": log.from_log(record.key),
        #: False where nobody knows whether it was made.
        "done": done is not None,
        "result": None if done is None else log.from_log(done.body.get("result")),
        "failed": dict(failure.failed),
    }


def _remove_staged(_previous_state: Any, wal_entry: Mapping[str, Any]) -> None:
    """Remove a staged file or folder; a link is removed, and never followed."""
    path = Path(wal_entry["key"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(f"compensation: {message}", code="node_declaration_invalid")

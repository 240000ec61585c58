"""What one call writes into its run's journal, and which of its files that changes."""

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from tallgrass.errors import GovernanceError, NodeFailed, TallgrassError, text_of
from tallgrass.ledger.redaction import redact
from tallgrass.nodes.effect_states import compensation_of
from tallgrass.nodes.entries import AttemptStatus, Kind, TaskState
from tallgrass.nodes.machinery import Machinery, Result
from tallgrass.nodes.protocols import NodeCall, NodeFailure, NodeLog, NodeOutcome
from tallgrass.nodes.retry_policy import RetryDecision
from tallgrass.nodes.run_wal import RunWal
from tallgrass.nodes.values import type_name
from tallgrass.nodes.views import ATTEMPTS, COMPENSATION, FAILED, POST, PRE


class TaskLog:
    """A call's own entries; `identity` tells them from those of other code or inputs."""

    def __init__(
        self, machinery: Machinery, call: NodeCall, run: RunWal, identity: str, key: str | None
    ) -> None:
        self._machinery = machinery
        self._call = call
        self._run = run
        self._state = run.task(call.task)
        self._identity = identity
        self._key = key

    @property
    def state(self) -> TaskState:
        """What the journal says of the task, by whomever."""
        return self._state

    def for_hooks(self) -> NodeLog:
        """Return the part that hooks and effects may write to."""
        stored = partial(self._machinery.stored, sensitive=self._call.sensitive)
        return NodeLog(self._run, self._call.task, stored, self._machinery.value_of)

    def commit(self, end: int) -> None:
        """Return when the journal is on the disk up to `end`."""
        self._run.commit(end)

    def pre_body(self, inputs: Any) -> dict[str, Any]:
        """Return what the node is given, as it is written before its first attempt."""
        return {
            "identity": self._identity,
            "cache_key": self._key,
            **self._described_call(),
            "inputs": self._machinery.payloads.put(inputs, sensitive=self._call.sensitive),
        }

    def write_pre(self, pre: Mapping[str, Any]) -> None:
        """Write what the node is given; it is durable with the attempt that follows."""
        self._append(Kind.PRE, pre)
        self._show(PRE)

    def begin_attempt(self, number: int, pre: Mapping[str, Any] | None) -> None:
        """Write that an attempt begins, and what the node is given where that is not written yet.

        It is durable, and the files are there, when this returns.
        """
        begun = {"identity": self._identity, "attempt": number}
        if pre is None:
            self._run.commit(self._append(Kind.ATTEMPT, begun))
            return
        end = self._append_both((Kind.PRE, pre), (Kind.ATTEMPT, begun))
        try:
            self._show(PRE)
        except TallgrassError:
            # The function is not entered: this one must not spend the budget.
            with contextlib.suppress(TallgrassError):
                self.end_attempt(number, AttemptStatus.CANCELLED, {})
            raise
        self._run.commit(end)

    def end_attempt(
        self,
        number: int,
        status: AttemptStatus,
        measures: Mapping[str, Any],
        *,
        error: BaseException | None = None,
        delay_s: float = 0.0,
    ) -> int:
        """Write how an attempt ended."""
        body = _ended(number, status, measures)
        if error is not None:
            body |= {"error": self.described(error), "delay_s": delay_s}
        return self._append(Kind.ATTEMPT_END, body)

    def show_attempts(self) -> None:
        """Bring the list of attempts up to date."""
        self._show(ATTEMPTS)

    def write_post(self, number: int, result: Result, measures: Mapping[str, Any]) -> None:
        """Write the result; it is durable when this returns."""
        ended = _ended(number, AttemptStatus.SUCCEEDED, measures)
        post = {"attempt": number, **self._result(result)}
        self._run.commit(self._append_both((Kind.ATTEMPT_END, ended), (Kind.POST, post)))
        self._show(ATTEMPTS, POST)

    def write_hit(self, result: Result) -> None:
        """Write a result of the cache; not synced, for the cache has it: nothing can be lost.

        It has no attempt and no entry before it, so it says itself what was asked for.
        """
        self._append(Kind.HIT, {**self._described_call(), **self._result(result), "attempt": 0})
        self._show(POST)

    def write_failed(self, error: BaseException, decision: RetryDecision) -> None:
        """Mark the node as failed for good; durable when this returns."""
        body = {
            "identity": self._identity,
            "error": self.described(error),
            "why": decision.why,
            "is_final": decision.is_final,
        }
        self._run.commit(self._append(Kind.FAILED, body))
        self._show(ATTEMPTS, FAILED)

    def settle_failure(self, error: BaseException | None, inputs: Any) -> None:
        """Compensate, roll back and escalate a failure; after a crash, what is left of that.

        What the gate does not allow now waits for the next time that the run meets the node.
        """
        task = self.state
        if task.failed is None:
            return
        failure = NodeFailure(
            call=self._call,
            task=task,
            failed=task.failed.body,
            inputs=inputs,
            log=self.for_hooks(),
            error=error,
            admit=partial(self._machinery.gate.admit, self._call.declaration),
            described=self.described,
        )
        if not task.rolled_back and self._compensated(failure):
            self._roll_back(failure)
        self._escalate(failure)

    def _compensated(self, failure: NodeFailure) -> bool:
        """Undo effects; tell whether nothing is held back by the gate."""
        compensator = self._machinery.hooks.compensator
        if compensator is None or not failure.effects_begun:
            return True
        try:
            compensator.compensate(failure)
        except GovernanceError as refused:
            self._machinery.report.compensation_held(self._call, refused)
            return False
        finally:
            self._show(COMPENSATION)
        return True

    def _roll_back(self, failure: NodeFailure) -> None:
        # Written before the call: it is made at most once, whatever becomes of it.
        comes_to = compensation_of(failure.task).value
        self._run.commit(self._append(Kind.ROLLED_BACK, {"compensation": comes_to}))
        self._show()
        rollback = self._machinery.hooks.rollback
        if rollback is not None:
            self._machinery.report.guarded(self._call, "rollback", lambda: rollback(failure))

    def _escalate(self, failure: NodeFailure) -> None:
        """Raise each alert until it was noted that it is raised."""
        escalation = self._machinery.hooks.escalation
        if escalation is None:
            return
        for alert in escalation.alerts(failure):
            if alert in failure.task.escalated:
                continue

            def escalate(alert: str = alert) -> None:
                escalation.escalate(failure, alert)
                self._append(Kind.ESCALATED, {"alert": alert})

            self._machinery.report.guarded(self._call, "escalation", escalate)
        self._show(FAILED)

    def emit_lineage(self, outcome: NodeOutcome) -> None:
        """Hand lineage on, once a result; what was not noted is handed on again, under its ids."""
        lineage = self._machinery.hooks.lineage
        identity = f"{self._identity}:{'failed' if outcome.error is not None else 'done'}"
        noted = {entry.body["identity"] for entry in self.state.lineage}
        if lineage is None or identity in noted:
            return

        def emit() -> None:
            body = {"identity": identity, "noted": dict(lineage.emit(outcome))}
            self._append(Kind.LINEAGE, body)

        self._machinery.report.guarded(self._call, "lineage", emit)

    def refusal(self, failed: Mapping[str, Any]) -> NodeFailed:
        """Return what says that the node failed for good before."""
        call, said = self._call, failed["error"]["message"] or failed["error"]["type"]
        return NodeFailed(
            f"{call.node_id} failed for good in run {call.run_id}: {said} ({failed['why']})"
        )

    def described(self, error: BaseException) -> dict[str, Any]:
        """Say what an error was; its text only where it cannot hold what must not be told."""
        return {
            "type": type_name(type(error)),
            "code": error.code if isinstance(error, TallgrassError) else None,
            "message": None if self._call.sensitive else redact(text_of(error)),
        }

    def _described_call(self) -> dict[str, Any]:
        """Say what was asked for, as lineage tells it."""
        call, parts, admission = self._call, self._call.identity, self._call.admission
        return {
            "pipeline": call.pipeline,
            "env": call.env,
            "code_version": parts.code_version,
            "inputs_hash": parts.inputs_hash,
            "data_version": parts.data_version,
            "environment": dict(self._machinery.environment),
            "dataset": call.declaration.dataset,
            "reads": list(call.declaration.reads),
            "writes": list(call.declaration.writes),
            "sensitive": call.sensitive,
            "care_label": admission.care_label,
            "governance_ref": admission.governance_ref,
            "policy_ref": admission.policy_ref,
            "sovereignty": dict(admission.sovereignty),
        }

    def _result(self, result: Result) -> dict[str, Any]:
        return {
            "identity": self._identity,
            "cache_key": self._key,
            "code_version": self._call.identity.code_version,
            # What the cache holds may have been kept when nobody called it sensitive.
            "result": self._machinery.payloads.put(result.stored, sensitive=self._call.sensitive),
            "result_hash": result.hash,
        }

    def _append(self, kind: Kind, body: Mapping[str, Any]) -> int:
        return self._run.append(kind, self._call.task, body)

    def _append_both(
        self, first: tuple[Kind, Mapping[str, Any]], then: tuple[Kind, Mapping[str, Any]]
    ) -> int:
        return self._run.append_both(self._call.task, first, then)

    def _show(self, *names: str) -> None:
        self._run.write_views(self._call.task, *names)


def _ended(number: int, status: AttemptStatus, measures: Mapping[str, Any]) -> dict[str, Any]:
    return {"attempt": number, "status": status.value, "measures": measures}

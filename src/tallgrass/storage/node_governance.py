"""What nodes bring before governance: alerts with their reviews, and approvals to clear a failure.

A runner is no person, so it acts under a name that no actor can have, and may do two things alone:
write an alert into the log, and open an incident for review.
"""

from typing import Final
from uuid import UUID

import orjson

from tallgrass.errors import ApprovalInvalid, InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.policy import Policies
from tallgrass.nodes import rerun_plan
from tallgrass.nodes.clear_plan import PURPOSE, ClearPlan, plan_from
from tallgrass.nodes.entries import TaskId, TaskState
from tallgrass.nodes.escalation import Alert
from tallgrass.storage.actor_store import lock_governance, require_proved, run_guarded
from tallgrass.storage.approval_store import ApprovalStore
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

#: Who raises alerts; the colon keeps actors from having the name.
RUNNER: Final = "tallgrass:nodes"
_CLEAR: Final = "node_clear"
_RERUN: Final = "node_rerun"


class NodeGovernance:
    """Keeps alerts of nodes, and uses approvals up for them."""

    def __init__(
        self, runner: TransactionRunner, approvals: ApprovalStore, policies: Policies
    ) -> None:
        self._runner = runner
        self._approvals = approvals
        self._policies = policies

    def note(self, alert: Alert) -> None:
        """Write an alert into the log and open its review, in one transaction; once each."""

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            now, action = tx.now(), f"node_alert_{alert.kind.value}"
            known = {"actor": RUNNER, "action": action, "subject": alert.subject}
            if tx.select("list_audit", after=0, size=1, **known):
                return
            entries = [_entry(action, alert)]
            ref = alert.review_ref
            if ref is not None and not tx.select("incident_by_ref", ref=ref):
                tx.execute(
                    "insert_incident",
                    now=now,
                    ref=ref,
                    title=alert.title,
                    description=orjson.dumps(alert.detail).decode(),
                    opened_by=RUNNER,
                )
                entries.append(_entry("incident_open", alert, subject=f"incident:{ref}"))
            write_audit(tx, now, entries)

        self._runner.run(work)

    def clear(self, approval_id: str, run_id: str, task: TaskState, *, by: Actor) -> None:
        """Use an approval up for a failure that it names; refused if it names another.

        A plan of several tasks is used once, for all of them; and once more for a failure whose
        clearing was cut off by a crash: its journal still says that it failed.
        """
        approval_id = _id(approval_id)
        failed_at = "" if task.failed is None else task.failed.at
        dataset = None if task.pre is None else task.pre.body.get("dataset")
        policy = None if dataset is None else self._policies.of(dataset)
        needed = max(1, 0 if policy is None else policy.approvals_needed)

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            require_proved(tx, by, Role.OPERATOR, "clearing a failed node")
            plan = self._plan(tx, approval_id, run_id, task.id, failed_at)
            used_for = self._approvals.used_for(
                tx, approval_id, purpose=PURPOSE, subject_sha256=plan.sha256, needed=needed
            )
            if used_for is None:
                self._approvals.use(
                    tx,
                    approval_id,
                    purpose=PURPOSE,
                    subject_sha256=plan.sha256,
                    used_for=plan.subject,
                    by=by,
                    needed=needed,
                )
            entry = AuditEntry(
                actor=by.name,
                action=_CLEAR,
                subject=f"node:{_place(run_id, task.id)}@{failed_at}",
                reason=plan.subject,
                approval_ref=approval_id,
                detail={"run_id": run_id, "node_id": task.id.node_id, "task_id": task.id.task_id},
            )
            write_audit(tx, tx.now(), [entry])

        run_guarded(self._runner, work, by, _CLEAR, f"node:{_place(run_id, task.id)}")

    def allow_rerun(self, approval_id: str, run_id: str, task: TaskId, dataset: str | None) -> None:
        """Use an approval up for a task that is run again; the same task has it ever after.

        The dataset is the task's own, whatever the plan says: its policy tells how many approve.
        """
        approval_id = _id(approval_id)
        policy = self._policies.of(dataset or "")
        used_for = f"{rerun_plan.PURPOSE}:{_place(run_id, task)}"

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            approval = self._approvals.read(tx, approval_id)
            plan = rerun_plan.rerun_plan_from(approval.summary)
            if plan is None or not plan.allows(run_id, task, dataset):
                raise ApprovalInvalid(
                    f"{approval_id} was not given for running {_place(run_id, task)} again"
                )
            if approval.used_for == used_for:
                return
            self._approvals.use(
                tx,
                approval_id,
                purpose=rerun_plan.PURPOSE,
                subject_sha256=plan.sha256,
                used_for=used_for,
                by=RUNNER,
                needed=max(1, 0 if policy is None else policy.approvals_needed),
            )

        run_guarded(self._runner, work, RUNNER, _RERUN, f"node:{_place(run_id, task)}")

    def _plan(
        self, tx: Transaction, approval_id: str, run_id: str, task: TaskId, failed_at: str
    ) -> ClearPlan:
        """Return the plan that was approved; one that does not name this failure is refused."""
        approval = self._approvals.read(tx, approval_id)
        plan = plan_from(approval.summary) if approval.purpose == PURPOSE else None
        if plan is None:
            raise ApprovalInvalid(
                f"{approval_id} was given for {approval.purpose}, not for {PURPOSE}"
            )
        if not plan.clears(run_id, task.node_id, task.task_id, failed_at):
            raise ApprovalInvalid(
                f"{approval_id} was given for another failure than that of {_place(run_id, task)}",
                code="plan_changed",
            )
        return plan


def _entry(action: str, alert: Alert, *, subject: str | None = None) -> AuditEntry:
    return AuditEntry(
        actor=RUNNER,
        action=action,
        subject=subject or alert.subject,
        reason=alert.title,
        detail={**alert.detail, "review_ref": alert.review_ref},
    )


def _place(run_id: str, task: TaskId) -> str:
    return f"{run_id}/{task.node_id}/{task.task_id}"


def _id(approval_id: str) -> str:
    try:
        return str(UUID(approval_id))
    except ValueError:
        raise InvalidInput(f"{approval_id!r} is not the id of an approval") from None

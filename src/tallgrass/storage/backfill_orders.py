"""Who asked for a backfill, why and under which reference; and what came of it."""

from collections.abc import Mapping
from dataclasses import replace

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import GuardRefused, Refused
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import Rule
from tallgrass.inventory.backfill import PURPOSE, BackfillOrder, require_backfill_reason
from tallgrass.ledger.rules import LedgerRules
from tallgrass.storage.actor_store import lock_governance, require_acting, run_guarded
from tallgrass.storage.approval_store import ApprovalStore
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.change_store import require_open
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

_ACTION = "backfill"
_DONE = "backfill_done"
_STOPPED = "backfill_stopped"


class BackfillOrders:
    """Keeps backfills in the audit log, from their begin to their end."""

    def __init__(
        self, runner: TransactionRunner, approvals: ApprovalStore, rules: LedgerRules
    ) -> None:
        self._runner = runner
        self._approvals = approvals
        self._rules = rules

    def begin(
        self, order: BackfillOrder, *, by: Acting, approval_id: str | None = None
    ) -> BackfillOrder:
        """Note who begins it, and use up its approval; return it as the run that it belongs to.

        Somebody without the role, a closed reference and a lacking approval are refused.
        """
        require_backfill_reason(order.reason, self._rules.custom_reasons)

        def work(tx: Transaction) -> BackfillOrder:
            lock_governance(tx)
            known_by = require_acting(tx, by, Role.OPERATOR, "a backfill")
            require_open(tx, change_ref=order.change_ref, incident_ref=order.incident_ref)
            if order.reason == "incident" and order.incident_ref is None:
                message = "the reason 'incident' needs the incident that it refers to"
                raise Refused(message, code="reference_missing")
            run = self._use_approval(tx, order, by, approval_id)
            write_audit(tx, tx.now(), [_entry(run, by, _ACTION, {**known_by, **order.told()})])
            return run

        return run_guarded(self._runner, work, by, _ACTION, order.subject)

    def _use_approval(
        self, tx: Transaction, order: BackfillOrder, by: Acting, approval_id: str | None
    ) -> BackfillOrder:
        needed = order.approvals_needed
        if approval_id is not None:
            begun = self._broken_off(tx, order, approval_id)
            if begun is not None:
                return replace(order, run_id=begun)
            self._approvals.use(
                tx,
                approval_id,
                purpose=PURPOSE,
                subject_sha256=sha256_hex(order.plan()),
                used_for=order.subject,
                by=by,
                needed=max(1, needed),
            )
        elif needed:
            message = (
                f"the backfill needs {needed} approver{'s' * (needed > 1)}: write its plan with"
                " --dry-run --plan-out FILE, then `tallgrass approvals request --plan FILE`"
            )
            raise GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)
        return order

    def _broken_off(self, tx: Transaction, order: BackfillOrder, approval_id: str) -> str | None:
        """Return the run that used the approval and came to no end; the same order goes on.

        With a cap none does: nobody knows how much of it the run had used.
        """
        if order.due_max is not None:
            return None
        subject = self._approvals.used_for(
            tx,
            approval_id,
            purpose=PURPOSE,
            subject_sha256=sha256_hex(order.plan()),
            needed=max(1, order.approvals_needed),
        )
        done = {"actor": None, "action": _DONE, "subject": subject}
        if subject is None or tx.select("list_audit", after=0, size=1, **done):
            return None
        return subject.partition(":")[2]

    def refuse(self, subject: str, error: Refused, *, by: Acting) -> None:
        """Keep in the log that somebody was refused a backfill."""
        entry = AuditEntry(
            actor=name_of(by) or "unknown",
            action=f"{_ACTION}_refused",
            subject=subject,
            reason=error.code,
        )
        self._runner.run(lambda tx: write_audit(tx, tx.now(), [entry]))

    def finish(
        self,
        order: BackfillOrder,
        came_to: Mapping[str, object],
        *,
        by: Acting,
        stopped: bool = False,
    ) -> None:
        """Note what came of it; one that was cut off has no such entry."""
        entry = _entry(order, by, _STOPPED if stopped else _DONE, came_to)
        self._runner.run(lambda tx: write_audit(tx, tx.now(), [entry]))


def _entry(
    order: BackfillOrder, by: Acting, action: str, detail: Mapping[str, object]
) -> AuditEntry:
    return AuditEntry(
        actor=name_of(by),
        action=action,
        subject=order.subject,
        reason=order.reason,
        detail=dict(detail),
    )

"""Approvals in the database: requested, decided on, used once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import orjson

from tallgrass.canonical_json import canonical_text
from tallgrass.errors import ApprovalInvalid, InvalidInput, NotAuthorized, UnknownRecord
from tallgrass.governance.actors import Acting, Actor, Role, name_of
from tallgrass.governance.approvals import (
    Approval,
    ApprovalState,
    Decision,
    Subject,
    Verdict,
    may_decide,
    require_usable,
)
from tallgrass.governance.audit import AuditEntry
from tallgrass.storage.actor_store import (
    lock_governance,
    require_proved,
    run_guarded,
)
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

_PAGE_SIZE = 200


class ApprovalStore:
    """Keeps requests and decisions, and hands an approval out for its one use."""

    def __init__(
        self, runner: TransactionRunner, *, ids: Callable[[], UUID], lifetime: timedelta
    ) -> None:
        self._runner = runner
        self._ids = ids
        self._lifetime = lifetime

    def request(self, subject: Subject, *, reason: str, by: Actor) -> Approval:
        """Ask for an approval; it ends by itself after the configured time."""
        if not reason.strip():
            raise InvalidInput("a request needs a reason")
        approval_id = str(self._ids())

        def work(tx: Transaction) -> Approval:
            lock_governance(tx)
            if not tx.select("any_actor"):
                raise NotAuthorized("no actor is set up", code="no_actors")
            require_proved(tx, by, Role.OPERATOR, "requesting an approval")
            now = tx.now()
            detail = {
                "purpose": subject.purpose,
                "subject_sha256": subject.sha256,
                "needed": subject.needed,
            }
            _log(tx, now, by.name, "approval_request", approval_id, reason, detail)
            tx.execute(
                "insert_approval",
                now=now,
                approval_id=approval_id,
                purpose=subject.purpose,
                subject_sha256=subject.sha256,
                summary=canonical_text(dict(subject.summary)),
                reason=reason,
                needed=subject.needed,
                requested_by=by.name,
                expires_at=now + self._lifetime,
            )
            return _read(tx, approval_id)

        return run_guarded(
            self._runner, work, by, "approval_request", f"{subject.purpose}:{subject.sha256}"
        )

    def decide(
        self, approval_id: str, verdict: Verdict, *, by: Actor, note: str = ""
    ) -> tuple[Approval, ApprovalState]:
        """Approve or reject a request; return it and where it stands now."""

        def work(tx: Transaction) -> tuple[Approval, ApprovalState]:
            lock_governance(tx)
            approval = _read(tx, approval_id)
            stored = require_proved(tx, by, Role.APPROVER, "deciding on a request")
            now = tx.now()
            may_decide(approval, stored, verdict, now)
            detail = {"note": note, "subject_sha256": approval.subject_sha256}
            _log(tx, now, by.name, f"approval_{verdict.value}", approval_id, note, detail)
            tx.execute(
                "insert_decision",
                now=now,
                approval_id=approval_id,
                actor=by.name,
                decision=verdict.value,
                note=note,
            )
            decided = _read(tx, approval_id)
            return decided, decided.state(now)

        return run_guarded(
            self._runner, work, by, f"approval_{verdict.value}", f"approval:{approval_id}"
        )

    def use(
        self,
        tx: Transaction,
        approval_id: str,
        *,
        purpose: str,
        subject_sha256: str,
        used_for: str,
        by: Acting,
        needed: int = 1,
    ) -> Approval:
        """Use an approval up, in the transaction of what it allows: both commit, or neither.

        Call it first in that transaction: it excludes other uses and decisions until the end.
        A refusal is raised; `run_guarded` keeps it in the log once that transaction is undone.
        """
        lock_governance(tx)
        approval = _read(tx, approval_id)
        now = tx.now()
        require_usable(
            approval, purpose=purpose, subject_sha256=subject_sha256, now=now, needed=needed
        )
        detail = {"purpose": purpose, "subject_sha256": subject_sha256, "used_for": used_for}
        _log(tx, now, name_of(by), "approval_use", approval_id, approval.reason, detail)
        if not tx.execute("use_approval", now=now, approval_id=approval_id, used_for=used_for):
            raise ApprovalInvalid(f"{approval_id} is used, not approved")
        return _read(tx, approval_id)

    def used_for(
        self,
        tx: Transaction,
        approval_id: str,
        *,
        purpose: str,
        subject_sha256: str,
        needed: int = 1,
    ) -> str | None:
        """Return what an approval was used for; None if it was not.

        One that could not be used now, whether it was before or not, is refused.
        """
        approval = _read(tx, approval_id)
        unused = replace(approval, used_at=None)
        require_usable(
            unused, purpose=purpose, subject_sha256=subject_sha256, now=tx.now(), needed=needed
        )
        return approval.used_for

    def read(self, tx: Transaction, approval_id: str) -> Approval:
        """Return an approval as it stands in the transaction."""
        return _read(tx, approval_id)

    def find(self, approval_id: str) -> tuple[Approval, ApprovalState]:
        """Return an approval and where it stands."""
        with self._runner.database.reading() as tx:
            approval = _read(tx, approval_id)
            return approval, approval.state(tx.now())

    def of_subject(self, purpose: str, sha256: str) -> list[tuple[Approval, ApprovalState]]:
        """Return the approvals that were asked for exactly this, newest first."""
        with self._runner.database.reading() as tx:
            rows = tx.select("approvals_of_subject", subject_sha256=sha256, purpose=purpose)
            now = tx.now()
            return [(each, each.state(now)) for each in _approvals(tx, rows)]

    def each(self, *, after: str | None = None) -> Iterator[tuple[Approval, ApprovalState]]:
        """Yield approvals, newest first, with where each stands."""
        while True:
            with self._runner.database.reading() as tx:
                page = _approvals(tx, tx.select("page_approvals", after=after, size=_PAGE_SIZE))
                now = tx.now()
            for approval in page:
                yield approval, approval.state(now)
            if len(page) < _PAGE_SIZE:
                return
            after = page[-1].approval_id


def _log(
    tx: Transaction,
    now: datetime,
    by: str,
    action: str,
    approval_id: str,
    reason: str,
    detail: Mapping[str, object],
) -> None:
    # Before the row itself: the database refuses one that the log does not know.
    entry = AuditEntry(
        actor=by,
        action=action,
        subject=f"approval:{approval_id}",
        reason=reason,
        approval_ref=approval_id,
        detail=detail,
    )
    write_audit(tx, now, [entry])


def _read(tx: Transaction, approval_id: str) -> Approval:
    found = _approvals(tx, tx.select("approval", approval_id=approval_id))
    if not found:
        raise UnknownRecord(f"there is no approval {approval_id}", code="approval_unknown")
    return found[0]


def _approvals(tx: Transaction, rows: Sequence[Row]) -> list[Approval]:
    decided: dict[str, list[Decision]] = {}
    for row in tx.select("decisions", rows=[row["approval_id"] for row in rows]):
        decision = Decision(
            actor=row["actor"],
            verdict=Verdict(row["decision"]),
            note=row["note"],
            decided_at=instant(row["decided_at"]),
            counts=row["revoked_at"] is None,
        )
        decided.setdefault(row["approval_id"], []).append(decision)
    return [
        Approval(
            approval_id=row["approval_id"],
            purpose=row["purpose"],
            subject_sha256=row["subject_sha256"],
            summary=orjson.loads(row["summary"]),
            reason=row["reason"],
            needed=row["needed"],
            requested_by=row["requested_by"],
            requested_at=instant(row["requested_at"]),
            expires_at=instant(row["expires_at"]),
            used_at=instant_or_none(row["used_at"]),
            used_for=row["used_for"],
            decisions=tuple(decided.get(row["approval_id"], ())),
        )
        for row in rows
    ]

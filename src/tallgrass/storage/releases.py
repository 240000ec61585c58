"""The way out of quarantine: one approval, used once, in the transaction that releases.

Approval, journal and record change together or not at all, so no unit is released that the log
does not tell of, and no approval is lost on a release that did not happen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tallgrass.errors import IllegalTransition, InvalidInput, UnknownRecord
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import RELEASE, Approval, release_sha256
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import (
    SCOPES,
    Action,
    GateRequest,
    approvals_needed,
    require_admitted,
)
from tallgrass.governance.policy import Policies
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.actor_store import lock_governance, require_proved, run_guarded
from tallgrass.storage.approval_store import ApprovalStore
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.journal import transition_row
from tallgrass.storage.rows import known_from
from tallgrass.storage.switch_store import switched_off
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction, write_all
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What was released, and on whose word."""

    wal_ids: tuple[str, ...]
    approval: Approval


class Releases:
    """Brings quarantined units back, as an approval says."""

    def __init__(
        self,
        runner: TransactionRunner,
        approvals: ApprovalStore,
        policies: Policies,
        *,
        recorder: Recorder = NOBODY,
    ) -> None:
        self._runner = runner
        self._approvals = approvals
        self._policies = policies
        self._recorder = recorder

    def release(self, wal_ids: Sequence[str], *, approval_id: str, by: Actor) -> Released:
        """Make quarantined units pending and due, with a new budget and their newest object.

        The approval must be for exactly these units, each at the version that it has now: of one
        that moved since the request nothing is approved. All are released, or none.
        """
        wanted = sorted({_id(name, "a wal_id") for name in wal_ids})
        approval_id = _id(approval_id, "the id of an approval")
        if not wanted:
            raise InvalidInput("a release names at least one unit")

        def work(tx: Transaction) -> tuple[list[Known], Approval]:
            lock_governance(tx)
            actor = require_proved(tx, by, Role.OPERATOR, "a release from quarantine")
            units = _quarantined(tx, wanted)
            approval = self._use(tx, units, approval_id, actor)
            self._require_admitted(tx, units, actor, approval)
            _write(tx, units, actor, approval)
            return units, approval

        subject = f"approval:{approval_id}"
        units, approval = run_guarded(self._runner, work, by, "release", subject)
        entered = ((known.dataset, Status.PENDING.value) for known in units)
        count_each(self._recorder, names.WAL_RECORDS, entered)
        return Released(wal_ids=tuple(known.wal_id for known in units), approval=approval)

    def _use(
        self, tx: Transaction, units: Sequence[Known], approval_id: str, actor: Actor
    ) -> Approval:
        policies = [policy for known in units if (policy := self._policies.of(known.dataset))]
        needed = [approvals_needed(Action.RELEASE, policy, None) for policy in policies]
        return self._approvals.use(
            tx,
            approval_id,
            purpose=RELEASE,
            subject_sha256=release_sha256([(known.wal_id, known.version) for known in units]),
            used_for="quarantine release",
            by=actor,
            needed=max(needed, default=1),
        )

    def _require_admitted(
        self, tx: Transaction, units: Sequence[Known], actor: Actor, approval: Approval
    ) -> None:
        off = switched_off(tx, SCOPES[Action.RELEASE])
        for dataset in sorted({known.dataset for known in units}):
            require_admitted(
                GateRequest(
                    action=Action.RELEASE,
                    dataset=dataset,
                    policy=self._policies.of(dataset),
                    switched_off=off,
                    role=actor.role,
                    approvals=approval.approvals,
                )
            )


def _id(name: str, what: str) -> str:
    try:
        return str(UUID(name))
    except ValueError:
        raise InvalidInput(f"{name!r} is not {what}") from None


def _quarantined(tx: Transaction, wal_ids: Sequence[str]) -> list[Known]:
    """Return the units under lock; any that is unknown or not held is refused."""
    tx.lock("lock_units", wal_ids)
    found = {row["wal_id"]: known_from(row) for row in tx.select("units", rows=wal_ids)}
    for wal_id in wal_ids:
        if wal_id not in found:
            raise UnknownRecord(f"the ledger has no unit {wal_id}")
        status = found[wal_id].status
        if status is not Status.QUARANTINED:
            raise IllegalTransition(f"{wal_id} is {status.value}, not quarantined")
    return [found[wal_id] for wal_id in wal_ids]


def _write(tx: Transaction, units: Sequence[Known], actor: Actor, approval: Approval) -> None:
    now = tx.now()
    journal = [
        transition_row(
            known.wal_id,
            "override",
            source=known.status,
            target=Status.PENDING,
            version=known.version,
            actor=actor.name,
            reason=approval.reason,
            approval_ref=approval.approval_id,
        )
        for known in units
    ]
    write_all(tx, "insert_transitions", journal, now=now)
    write_all(tx, "release_records", [(known.wal_id, known.version) for known in units], now=now)
    entries = [
        AuditEntry(
            actor=actor.name,
            action="release",
            subject=known.wal_id,
            reason=approval.reason,
            approval_ref=approval.approval_id,
            detail={"from_status": known.status.value, "version": known.version},
        )
        for known in units
    ]
    write_audit(tx, now, entries)

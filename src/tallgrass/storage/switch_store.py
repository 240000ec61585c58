"""Kill switches in the database."""

from collections.abc import Sequence

from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.switches import ALL_DATASETS, KillSwitch, SwitchedOff, SwitchScope
from tallgrass.storage.actor_store import lock_governance, require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

_FREEZE = f"*:{ALL_DATASETS}"


class SwitchStore:
    """Sets and reads kill switches; every change is in the audit log."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def set(
        self, scope: SwitchScope, dataset: str, *, is_on: bool, actor: Acting, reason: str
    ) -> None:
        """Turn a switch on (work stops) or off, and note who did it why."""
        self.set_all([(scope, dataset)], is_on=is_on, actor=actor, reason=reason)

    def set_all(
        self,
        switches: Sequence[tuple[SwitchScope, str]],
        *,
        is_on: bool,
        actor: Acting,
        reason: str,
    ) -> None:
        """Turn several switches in one transaction: all of them, or none."""
        if not all(dataset.strip() for _, dataset in switches):
            raise InvalidInput("a switch needs a dataset (or *), an actor and a reason")
        _require_words(actor, reason)
        action = "switch_on" if is_on else "switch_off"
        subjects = [f"{scope.value}:{dataset}" for scope, dataset in switches]

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            known_by = require_acting(tx, actor, Role.OPERATOR, "turning a switch")
            now = tx.now()
            for scope, dataset in switches:
                tx.execute(
                    "upsert_switch",
                    now=now,
                    scope=scope.value,
                    dataset=dataset,
                    is_on=is_on,
                    actor=name_of(actor),
                    reason=reason,
                )
            entries = [
                AuditEntry(
                    actor=name_of(actor),
                    action=action,
                    subject=subject,
                    reason=reason,
                    detail=known_by,
                )
                for subject in subjects
            ]
            write_audit(tx, now, entries)

        run_guarded(self._runner, work, actor, action, " ".join(subjects))

    def freeze(self, *, actor: Acting, reason: str) -> list[SwitchScope]:
        """Stop all work on all datasets; return the scopes that were not stopped already."""
        _require_words(actor, reason)

        def work(tx: Transaction) -> list[SwitchScope]:
            lock_governance(tx)
            known_by = require_acting(tx, actor, Role.OPERATOR, "a freeze")
            now = tx.now()
            who = {"actor": name_of(actor), "reason": reason}
            scopes = [
                scope
                for scope in SwitchScope
                if tx.execute("freeze_scope", now=now, scope=scope.value, **who)
            ]
            detail = {**known_by, "scopes": [scope.value for scope in scopes]}
            entry = AuditEntry(action="freeze_on", subject=_FREEZE, detail=detail, **who)
            write_audit(tx, now, [entry])
            return scopes

        return run_guarded(self._runner, work, actor, "freeze_on", _FREEZE)

    def thaw(self, *, actor: Acting, reason: str) -> list[SwitchScope]:
        """End the freeze: clear what it set, and no switch that somebody turned by hand."""
        _require_words(actor, reason)

        def work(tx: Transaction) -> list[SwitchScope]:
            lock_governance(tx)
            known_by = require_acting(tx, actor, Role.OPERATOR, "ending a freeze")
            now = tx.now()
            who = {"actor": name_of(actor), "reason": reason}
            scopes = [SwitchScope(row["scope"]) for row in tx.select("frozen_scopes")]
            tx.execute("thaw", now=now, **who)
            detail = {**known_by, "scopes": [scope.value for scope in scopes]}
            entry = AuditEntry(action="freeze_off", subject=_FREEZE, detail=detail, **who)
            write_audit(tx, now, [entry])
            return scopes

        return run_guarded(self._runner, work, actor, "freeze_off", _FREEZE)

    def switches(self) -> list[KillSwitch]:
        """Return all switches ever set, as they stand."""
        with self._runner.database.reading() as tx:
            return [
                KillSwitch(
                    scope=SwitchScope(row["scope"]),
                    dataset=row["dataset"],
                    is_on=bool(row["is_on"]),
                    actor=row["actor"],
                    reason=row["reason"],
                    changed_at=instant(row["changed_at"]),
                    by_freeze=bool(row["by_freeze"]),
                )
                for row in tx.select("list_switches")
            ]

    def switched_off(self, scope: SwitchScope) -> SwitchedOff:
        """Return what is off in a scope. If it cannot be read, the error stops the work."""
        with self._runner.database.reading() as tx:
            return switched_off(tx, scope)


def switched_off(tx: Transaction, scope: SwitchScope) -> SwitchedOff:
    """Return what is off in a scope, as the transaction sees it."""
    rows = tx.select("switched_off", scope=scope.value)
    return SwitchedOff(row["dataset"] for row in rows)


def _require_words(actor: Acting, reason: str) -> None:
    if not name_of(actor).strip() or not reason.strip():
        raise InvalidInput("a switch needs a dataset (or *), an actor and a reason")

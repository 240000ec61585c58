"""Kill switches in the database."""

from tallgrass.errors import InvalidInput
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.switches import KillSwitch, SwitchedOff, SwitchScope
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction


class SwitchStore:
    """Sets and reads kill switches; every change is in the audit log."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def set(
        self, scope: SwitchScope, dataset: str, *, is_on: bool, actor: str, reason: str
    ) -> None:
        """Turn a switch on (work stops) or off, and note who did it why."""
        if not actor.strip() or not reason.strip() or not dataset.strip():
            raise InvalidInput("a switch needs a dataset (or *), an actor and a reason")

        def work(tx: Transaction) -> None:
            now = tx.now()
            tx.execute(
                "upsert_switch",
                now=now,
                scope=scope.value,
                dataset=dataset,
                is_on=is_on,
                actor=actor,
                reason=reason,
            )
            action = "switch_on" if is_on else "switch_off"
            subject = f"{scope.value}:{dataset}"
            write_audit(
                tx, now, [AuditEntry(actor=actor, action=action, subject=subject, reason=reason)]
            )

        self._runner.run(work)

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
                )
                for row in tx.select("list_switches")
            ]

    def switched_off(self, scope: SwitchScope) -> SwitchedOff:
        """Return what is off in a scope. If it cannot be read, the error stops the work."""
        with self._runner.database.reading() as tx:
            rows = tx.select("switched_off", scope=scope.value)
            return SwitchedOff(row["dataset"] for row in rows)

"""Marks of items whose objects the provider keeps no longer; the items' bytes stay."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.storage.actor_store import require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.rows import instant
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

PAGE_SIZE = 500


class ExpiryStore:
    """Finds items that are past their time, and marks them."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def expirable(
        self, dataset: str, collection_id: str, days: int, now: datetime
    ) -> Iterator[dict[str, str]]:
        """Yield page by page the ids of a dataset's items to mark, with the time they expire.

        Those that are past it and not marked, and those whose mark names another time.
        """
        lifetime, after = timedelta(days=days), ""
        while True:
            with self._runner.database.reading() as tx:
                rows = tx.select(
                    "expirable_items",
                    dataset=dataset,
                    collection_id=collection_id,
                    days=days,
                    ended_before=now - lifetime,
                    after_id=after,
                    size=PAGE_SIZE,
                )
            if not rows:
                return
            yield {
                row["item_id"]: format_instant(instant(row["end_at"]) + lifetime) for row in rows
            }
            after = rows[-1]["item_id"]

    def mark(self, collection_id: str, expired: Mapping[str, str], *, actor: Acting) -> int:
        """Mark items by policy, and tell the audit log how many; return how many it changed."""

        def work(tx: Transaction) -> int:
            known_by = require_acting(tx, actor, Role.OPERATOR, "retention")
            now = tx.now()
            rows = [(collection_id, item_id, at) for item_id, at in sorted(expired.items())]
            who = name_of(actor)
            marked = tx.write("insert_expired", rows, now=now, reason="policy", actor=who)
            entry = AuditEntry(
                actor=who,
                action="items_expire",
                subject=f"collection:{collection_id}",
                reason="policy",
                detail={**known_by, "items": marked, "first": rows[0][1], "last": rows[-1][1]},
            )
            write_audit(tx, now, [entry])
            return marked

        return run_guarded(self._runner, work, actor, "items_expire", f"collection:{collection_id}")

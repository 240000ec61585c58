"""The audit log in the database: append, seal, list, verify."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from tallgrass.canonical_json import canonical_text
from tallgrass.governance.audit import (
    Anchor,
    AuditEntry,
    ChainVerifier,
    Seal,
    StoredEntry,
    seal,
)
from tallgrass.storage.rows import entry_from
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction

PAGE_SIZE = 1000


def write_audit(tx: Transaction, now: datetime, entries: Sequence[AuditEntry]) -> None:
    """Append entries in the transaction of what they tell."""
    tx.write(
        "insert_audit",
        [
            (
                entry.actor,
                entry.action,
                entry.subject,
                entry.reason,
                entry.approval_ref,
                canonical_text(dict(entry.detail)),
            )
            for entry in entries
        ],
        now=now,
    )


class AuditStore:
    """Reads and seals the log."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries on their own, for acts that write nothing else."""
        self._runner.run(lambda tx: write_audit(tx, tx.now(), entries))

    def seal(self) -> Anchor | None:
        """Chain all committed entries; return the head. One sealer works at a time."""
        while True:
            sealed, head = self._runner.run(self._seal_page)
            if sealed < PAGE_SIZE:
                return head

    def entries(
        self,
        *,
        after: int = 0,
        size: int = PAGE_SIZE,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
    ) -> list[StoredEntry]:
        """Return a page of entries in the order of their ids."""
        with self._runner.database.reading() as tx:
            rows = tx.select(
                "list_audit", after=after, size=size, actor=actor, action=action, subject=subject
            )
            return [entry_from(row, row["position"]) for row in rows]

    def verify(self, anchors: Iterable[Anchor] = ()) -> tuple[ChainVerifier, int]:
        """Walk the whole chain; return the verifier with its faults, and the unsealed entries."""
        verifier = ChainVerifier(anchors)
        with self._runner.database.reading() as tx:
            for page in self._sealed_pages(tx):
                for link, entry in page:
                    verifier.walk(link, entry)
            unsealed = tx.select("count_unsealed")[0]["entries"]
        verifier.finish()
        return verifier, unsealed

    def _seal_page(self, tx: Transaction) -> tuple[int, Anchor | None]:
        tx.lock("lock_sealer", [1])
        last = tx.select("last_seal")
        head = (
            Anchor(position=last[0]["position"], chain_hash=last[0]["chain_hash"]) if last else None
        )
        # By what has no seal, never by a highest id: a lower id may commit later.
        entries = [entry_from(row) for row in tx.select("unsealed_audit", size=PAGE_SIZE)]
        seals = seal(entries, head)
        rows = [(link.position, link.entry_id, link.entry_hash, link.chain_hash) for link in seals]
        tx.write("insert_seals", rows, now=tx.now())
        if seals:
            head = Anchor(position=seals[-1].position, chain_hash=seals[-1].chain_hash)
        return len(seals), head

    def _sealed_pages(self, tx: Transaction) -> Iterator[list[tuple[Seal, StoredEntry | None]]]:
        after = 0
        while rows := tx.select("sealed_audit", after=after, size=PAGE_SIZE):
            yield [
                (
                    Seal(
                        position=row["position"],
                        entry_id=row["entry_id"],
                        entry_hash=row["entry_hash"],
                        chain_hash=row["chain_hash"],
                    ),
                    None if row["found"] is None else entry_from(row),
                )
                for row in rows
            ]
            after = rows[-1]["position"]

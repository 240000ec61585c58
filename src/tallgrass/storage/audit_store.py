"""The audit log in the database: append, seal, list, verify."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from tallgrass.canonical_json import canonical_text
from tallgrass.governance.audit import (
    Anchor,
    ArchivedRange,
    AuditEntry,
    ChainVerifier,
    Seal,
    StoredEntry,
    seal,
)
from tallgrass.storage.rows import entry_from
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

PAGE_SIZE = 1000
#: Beyond every entry.
_LAST_ID = 2**63 - 1

#: Reads the entries of an archive back, in the order of the chain, by its row of `archives`.
ArchiveReader = Callable[[Row], Iterable[Mapping[str, object]]]


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
        given = {"actor": actor, "action": action, "subject": subject}
        with self._runner.database.reading() as tx:
            rows = tx.select(f"list_audit{_index_of(given)}", after=after, size=size, **given)
            return [entry_from(row, row["position"]) for row in rows]

    def latest(
        self,
        *,
        before: int | None = None,
        size: int = PAGE_SIZE,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
    ) -> list[StoredEntry]:
        """Return a page of entries, newest first, from before the given one."""
        given = {"actor": actor, "action": action, "subject": subject}
        end = _LAST_ID if before is None else before
        with self._runner.database.reading() as tx:
            rows = tx.select(f"list_audit_back{_index_of(given)}", before=end, size=size, **given)
            return [entry_from(row, row["position"]) for row in rows]

    def verify(
        self,
        anchors: Iterable[Anchor] = (),
        *,
        read_archive: ArchiveReader | None = None,
        progress: Callable[[int], None] = lambda _position: None,
    ) -> tuple[ChainVerifier, int]:
        """Walk the whole chain; return the verifier with its faults, and the unsealed entries.

        Archived entries are walked as well if they can be read; else their record stands for them.
        `progress` hears the position after each page; what it raises ends the walk.
        """
        verifier = ChainVerifier(anchors)
        with self._runner.database.reading() as tx:
            for part, row in _archived_ranges(tx):
                verifier.enter(part)
                for each in () if read_archive is None else read_archive(row):
                    verifier.walk(seal_from(each), entry_from(each))
                verifier.leave(part, was_read=read_archive is not None)
            for page in self._sealed_pages(tx, verifier.position):
                for link, entry in page:
                    verifier.walk(link, entry)
                progress(verifier.position)
            unsealed = tx.select("count_unsealed")[0]["entries"]
        verifier.finish()
        return verifier, unsealed

    def archived(self) -> int:
        """Count the entries that left for archives."""
        with self._runner.database.reading() as tx:
            return sum(row["row_count"] for row in tx.select("archived_audit"))

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

    def _sealed_pages(
        self, tx: Transaction, after: int
    ) -> Iterator[list[tuple[Seal, StoredEntry | None]]]:
        while rows := tx.select("sealed_audit", after=after, size=PAGE_SIZE):
            yield [
                (seal_from(row), None if row["found"] is None else entry_from(row)) for row in rows
            ]
            after = rows[-1]["position"]


def _index_of(given: Mapping[str, str | None]) -> str:
    """Return which statement reads the fewest entries: that of the rarest condition given."""
    name = next((each for each in ("subject", "actor", "action") if given[each] is not None), None)
    return "" if name is None else f"_of_{name}"


def seal_from(row: Row) -> Seal:
    """Read a row of audit_seals."""
    return Seal(
        position=row["position"],
        entry_id=row["entry_id"],
        entry_hash=row["entry_hash"],
        chain_hash=row["chain_hash"],
    )


def _archived_ranges(tx: Transaction) -> Iterator[tuple[ArchivedRange, Row]]:
    rows = tx.select("archived_audit")
    for number, row in enumerate(rows, start=1):
        told = tx.select("told_archives", sha256=row["sha256"])
        # The entry that tells of an archive may itself lie in a later one.
        unknown = None if number < len(rows) else False
        found = ArchivedRange(
            archive_id=row["archive_id"],
            first_position=row["first_position"],
            last_position=row["last_position"],
            before_hash=row["before_hash"],
            head_hash=row["head_hash"],
            is_told=any(_tells(json.loads(each["detail"]), row) for each in told)
            if told
            else unknown,
        )
        yield found, row


def _tells(detail: Mapping[str, object], row: Row) -> bool:
    names = ("first_position", "last_position", "before_hash", "head_hash", "row_count")
    return all(detail.get(name) == row[name] for name in names)

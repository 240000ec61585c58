"""Retention in the database: what may leave, the archives it left for, and its removal.

Rows are found page by page in transactions that only read. An archive is recorded together with
its audit entry and the list of its rows; rows leave in small transactions, whose triggers let go of
nothing that is not listed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tallgrass.clock import format_instant
from tallgrass.errors import (
    AuditBroken,
    DatabaseLocked,
    Refused,
    TransactionConflict,
    UnknownRecord,
)
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import (
    GENESIS,
    Anchor,
    AuditEntry,
    ChainVerifier,
)
from tallgrass.inventory.retention import (
    Archive,
    ArchiveFile,
    ArchiveKind,
    first_outbox_id,
)
from tallgrass.storage.actor_store import lock_governance, require_acting, run_guarded
from tallgrass.storage.archive_records import archive_from, columns_of, entry_of
from tallgrass.storage.audit_store import seal_from, write_audit
from tallgrass.storage.rows import entry_from, instant
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction

#: Rows that are looked at in one reading transaction.
PAGE_SIZE = 2000
_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_LAST_NUMBER = 2**31 - 1
#: Somebody else archived the same rows while a file was written.
STALE = "archive_stale"

ArchivedRow = dict[str, Any]
RowKey = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStart:
    """Where the next archive of the audit log begins."""

    position: int
    before_hash: str


class RetentionStore:
    """Finds old rows, keeps the list of archives, and removes what they hold."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def now(self) -> datetime:
        """Return the time that ages are judged by."""
        with self._runner.database.reading() as tx:
            return tx.now()

    def attempts(self, older_than: datetime) -> Iterator[ArchivedRow]:
        """Yield the attempts that may leave, in the order of their keys."""
        after: RowKey = (_FIRST_ID, 0)
        while True:
            with self._runner.database.reading() as tx:
                end = tx.select(
                    "end_of_attempts", after_id=after[0], after_number=after[1], size=PAGE_SIZE
                )
                last = (end[0]["wal_id"], end[0]["attempt_no"]) if end else (_LAST_ID, _LAST_NUMBER)
                rows = tx.select(
                    "archivable_attempts",
                    older_than=older_than,
                    after_id=after[0],
                    after_number=after[1],
                    last_id=last[0],
                    last_number=last[1],
                )
            yield from map(_plain_row, rows)
            if not end:
                return
            after = last

    def events(self, older_than: datetime) -> Iterator[ArchivedRow]:
        """Yield the events that may leave with all their attempts, in the order of their ids."""
        after, stop = _FIRST_ID, first_outbox_id(older_than)
        while True:
            with self._runner.database.reading() as tx:
                end = tx.select("end_of_events", after_id=after, stop=stop, size=PAGE_SIZE)
                last = end[0]["outbox_id"] if end else stop
                rows = tx.select(
                    "archivable_events", older_than=older_than, after_id=after, last_id=last
                )
                ids = [row["outbox_id"] for row in rows]
                tries = tx.select("attempts_of_events", rows=ids)
            yield from _with_attempts(rows, tries)
            if not end:
                return
            after = last

    def audit(self, older_than: datetime, start: ChainStart) -> Iterator[ArchivedRow]:
        """Yield sealed entries from the start of the chain on, up to the first that is younger.

        A chain that does not hold is not archived: its faults would be carried off with it.
        """
        verifier = ChainVerifier.behind(
            Anchor(position=start.position, chain_hash=start.before_hash)
        )
        after = start.position
        while True:
            with self._runner.database.reading() as tx:
                rows = tx.select("archivable_audit", after=after, size=PAGE_SIZE)
            for row in rows:
                _walk(verifier, row)
                if instant(row["occurred_at"]) >= older_than:
                    return
                found = _plain_row(row)
                del found["found"]
                yield found
            if len(rows) < PAGE_SIZE:
                return
            after = rows[-1]["position"]

    def chain_start(self) -> ChainStart:
        """Return where the archived part of the audit log ends."""
        with self._runner.database.reading() as tx:
            return _chain_start(tx)

    def archives(self, *, after: int = 0, size: int = 1000) -> list[Archive]:
        """Return a page of all archives, oldest first."""
        with self._runner.database.reading() as tx:
            return [archive_from(row) for row in tx.select("list_archives", after=after, size=size)]

    def archive(self, archive_id: int) -> Archive:
        """Return one archive."""
        with self._runner.database.reading() as tx:
            found = tx.select("archive_by_id", archive_id=archive_id)
        if not found:
            raise UnknownRecord(f"there is no archive {archive_id}", code="archive_unknown")
        return archive_from(found[0])

    def open_archive(self, kind: ArchiveKind) -> Archive | None:
        """Return the archive of a kind whose rows have yet to leave."""
        with self._runner.database.reading() as tx:
            found = tx.select("open_archive", kind=kind.value)
        return archive_from(found[0]) if found else None

    def authorize(self, actor: Acting) -> None:
        """Refuse somebody who may not remove anything, before a file is written."""

        def work(tx: Transaction) -> None:
            require_acting(tx, actor, Role.OPERATOR, "retention")

        run_guarded(self._runner, work, actor, "archive_record", "archives")

    def record(self, file: ArchiveFile, keys: Sequence[RowKey], *, actor: Acting) -> Archive:
        """Record a file with the rows that it holds, and tell the audit log of its hash.

        A file is refused whose rows left for another archive while it was written.
        """

        def work(tx: Transaction) -> Archive:
            lock_governance(tx)
            known_by = require_acting(tx, actor, Role.OPERATOR, "retention")
            if tx.select("open_archive", kind=file.kind.value):
                raise Refused(
                    f"another archive of {file.kind.value} is under way", code="archive_under_way"
                )
            _require_chain(tx, file)
            now = tx.now()
            write_audit(tx, now, [entry_of(file, name_of(actor), known_by)])
            tx.execute("insert_archive", now=now, actor=name_of(actor), **columns_of(file))
            archive = archive_from(tx.select("open_archive", kind=file.kind.value)[0])
            tx.write("insert_archive_rows", keys, archive_id=archive.archive_id)
            _require_rows(tx, archive)
            return archive

        return run_guarded(self._runner, work, actor, "archive_record", f"archive:{file.sha256}")

    def discard(self, file: ArchiveFile, remove: Callable[[], None]) -> None:
        """Remove a file that was refused, unless an archive is made of the very same one.

        Equal rows are equal files of one name; nobody records one while this looks.
        """

        def work(tx: Transaction) -> None:
            lock_governance(tx)
            if not tx.select("archives_of_file", place=file.place, file_name=file.name):
                remove()

        self._runner.run(work)

    def verified(self, archive: Archive) -> None:
        """Note that the file was read back and is what was written: its rows may leave."""
        self._runner.run(
            lambda tx: tx.execute("verify_archive", archive_id=archive.archive_id, now=tx.now())
        )

    def abandon(self, archive: Archive, *, actor: Acting) -> None:
        """Give an archive up whose file is not what was written; not once a row of it has left."""

        def work(tx: Transaction) -> None:
            now = tx.now()
            if tx.execute("abandon_archive", archive_id=archive.archive_id, now=now):
                tx.execute("unlist_archive", archive_id=archive.archive_id)
                entry = AuditEntry(
                    actor=name_of(actor),
                    action="archive_abandon",
                    subject=f"archive:{archive.file.sha256}",
                    reason="the file is not what was written",
                    detail={"name": archive.file.name, "place": archive.file.place},
                )
                write_audit(tx, now, [entry])

        self._runner.run(work)

    def remove(self, archive: Archive, size: int) -> int:
        """Remove the next rows of a verified archive in one transaction; return how many.

        None if somebody else has removed the last of them, or has given the archive up.
        """
        if archive.file.kind is ArchiveKind.AUDIT:
            return self._runner.run(lambda tx: _remove_audit(tx, archive))
        return self._runner.run(lambda tx: _remove_rows(tx, archive, size))

    def keep_partitions(self, now: datetime) -> int:
        """Make partitions of coming months and drop empty ones of the past; return how many.

        Whoever holds the table keeps it: then nothing is done, and the next call tries again.
        """
        try:
            return self._runner.run(
                lambda tx: int(tx.select("keep_partitions", now=now)[0]["dropped"])
            )
        except (DatabaseLocked, TransactionConflict):
            return 0

    def size(self, after_id: str) -> tuple[int, int]:
        """Return the database's bytes, and the units from an id on."""
        with self._runner.database.reading() as tx:
            return (
                tx.select("database_bytes")[0]["bytes"],
                tx.select("count_recent_units", after_id=after_id)[0]["recent"],
            )


def key_of(kind: ArchiveKind, row: ArchivedRow) -> RowKey:
    """Return the key under which a row is listed."""
    if kind is ArchiveKind.ATTEMPTS:
        return row["wal_id"], row["attempt_no"]
    return row["outbox_id"], 0


def _chain_start(tx: Transaction) -> ChainStart:
    rows = tx.select("archived_audit")
    if not rows:
        return ChainStart(position=0, before_hash=GENESIS)
    return ChainStart(position=rows[-1]["last_position"], before_hash=rows[-1]["head_hash"])


def _require_chain(tx: Transaction, file: ArchiveFile) -> None:
    """Refuse a file of audit entries that does not begin where the archived chain ends."""
    if file.kind is not ArchiveKind.AUDIT or file.first_position is None:
        return
    start = _chain_start(tx)
    if (file.first_position - 1, file.before_hash) != (start.position, start.before_hash):
        raise Refused(
            f"the archived audit log ends at {start.position}: others archived the same entries",
            code=STALE,
        )


def _require_rows(tx: Transaction, archive: Archive) -> None:
    """Refuse an archive if a row that it lists is no longer here."""
    if archive.file.kind is ArchiveKind.AUDIT:
        return
    here = tx.select("count_listed_rows", archive_id=archive.archive_id)[0]["here"]
    if here != archive.file.rows:
        raise Refused(
            f"{archive.file.rows - here} of {archive.file.rows} rows have left for another archive",
            code=STALE,
        )


def _remove_rows(tx: Transaction, archive: Archive, size: int) -> int:
    if not tx.select("hold_archive", archive_id=archive.archive_id):
        return 0
    found = tx.select("next_archive_rows", archive_id=archive.archive_id, size=size)
    keys = [(row["row_id"], row["row_number"]) for row in found]
    if archive.file.kind is ArchiveKind.ATTEMPTS:
        removed = tx.write("remove_attempts", keys)
    else:
        tx.write("remove_delivery_attempts", keys)
        tx.write("remove_deliveries", keys)
        removed = tx.write("remove_events", keys)
    tx.write("unlist_rows", keys, archive_id=archive.archive_id)
    tx.execute("count_removed", archive_id=archive.archive_id, removed=removed)
    if len(keys) < size:
        tx.execute("finish_archive", archive_id=archive.archive_id, now=tx.now())
    return len(keys)


def _remove_audit(tx: Transaction, archive: Archive) -> int:
    """Remove all entries of an archive at once: the chain never begins within one."""
    tx.lock("lock_sealer", [1])
    if not tx.select("hold_archive", archive_id=archive.archive_id):
        return 0
    places = {
        "first_position": archive.file.first_position,
        "last_position": archive.file.last_position,
    }
    removed = tx.execute("remove_entries", **places)
    tx.execute("remove_seals", **places)
    tx.execute("count_removed", archive_id=archive.archive_id, removed=removed)
    tx.execute("finish_archive", archive_id=archive.archive_id, now=tx.now())
    return removed


def _walk(verifier: ChainVerifier, row: Row) -> None:
    verifier.walk(seal_from(row), None if row["found"] is None else entry_from(row))
    if verifier.faults:
        fault = verifier.faults[0]
        raise AuditBroken(f"seal {fault.position}: {fault.what}; nothing was archived")


def _with_attempts(rows: Sequence[Row], tries: Sequence[Row]) -> Iterator[ArchivedRow]:
    of_event: dict[str, list[ArchivedRow]] = {}
    for row in tries:
        attempt = _plain_row(row)
        attempt["duplicate"] = bool(attempt["duplicate"])
        of_event.setdefault(attempt.pop("outbox_id"), []).append(attempt)
    for row in rows:
        yield {**_plain_row(row), "attempts": of_event.get(row["outbox_id"], [])}


def _plain_row(row: Row) -> ArchivedRow:
    """Write a row the same way from either database."""
    return {name: _plain(row[name]) for name in row.keys()}  # noqa: SIM118 - sqlite3.Row has only keys()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return format_instant(value)
    return value.decode() if isinstance(value, bytes) else value

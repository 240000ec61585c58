"""Reading the ledger. A role with read rights suffices; nothing here waits for a writer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice

from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.ledger.record import WalAttempt, WalRecord
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.rows import attempt_from, instant, instant_or_none, issues_from, record_from
from tallgrass.storage.unit_of_work import Database, Row, Transaction

_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Records in order of wal_id, which is data time; `next_cursor` is None on the last page."""

    records: list[WalRecord]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """One edge in the life of a unit."""

    version: int
    occurred_at: datetime
    kind: str
    from_status: str | None
    to_status: str
    attempt_no: int | None
    actor: str | None
    reason: str | None
    replay_run_id: str | None
    approval_ref: str | None
    #: What the operators of the attempt that ended here found, of a success too.
    issues: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note on an attempt."""

    attempt_no: int
    noted_at: datetime
    actor: str
    kind: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStats:
    """How many records stand where."""

    #: dataset → status → records.
    by_dataset: dict[str, dict[str, int]]
    stale: dict[str, int]
    due: int
    oldest_due_at: datetime | None
    live_workers: int


class LedgerReader:
    """Looks records up and lists them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, name: str) -> WalRecord:
        """Return the record of a wal_id or an object URI."""
        with self._database.reading() as tx:
            return record_from(self._row(tx, name))

    def attempts(self, wal_id: str) -> list[WalAttempt]:
        """Return a unit's attempts in order."""
        with self._database.reading() as tx:
            return [attempt_from(row) for row in tx.select("attempts", wal_id=wal_id)]

    def annotations(self, wal_id: str) -> list[Annotation]:
        """Return the notes on a unit's attempts, oldest first."""
        with self._database.reading() as tx:
            return [
                Annotation(
                    attempt_no=row["attempt_no"],
                    noted_at=instant(row["noted_at"]),
                    actor=row["actor"],
                    kind=row["kind"],
                    note=row["note"],
                )
                for row in tx.select("annotations", wal_id=wal_id)
            ]

    def history(self, name: str) -> list[HistoryEvent]:
        """Return every edge of a unit's life, in order of version."""
        with self._database.reading() as tx:
            wal_id = self._row(tx, name)["wal_id"]
            return [
                HistoryEvent(
                    version=row["version"],
                    occurred_at=instant(row["occurred_at"]),
                    kind=row["kind"],
                    from_status=row["from_status"],
                    to_status=row["to_status"],
                    attempt_no=row["attempt_no"],
                    actor=row["actor"],
                    reason=row["reason"],
                    replay_run_id=row["replay_run_id"],
                    approval_ref=row["approval_ref"],
                    issues=issues_from(row["issues"]),
                )
                for row in tx.select("history", wal_id=wal_id)
            ]

    def page(
        self,
        wanted: RecordFilter,
        *,
        after: str | None = None,
        size: int = 100,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of records, each read from an index in its order, or against it."""
        with self._database.reading() as tx:
            rows = self._matching(tx, wanted, after, size + 1, newest_first=newest_first)
            found = list(islice(rows, size + 1))
        records = [record_from(row) for row in found[:size]]
        more = len(found) > size
        return Page(records=records, next_cursor=records[-1].wal_id if more else None)

    def stats(self) -> LedgerStats:
        """Count records by dataset and status, what is due, and who works."""
        with self._database.reading() as tx:
            by_dataset: dict[str, dict[str, int]] = {}
            for row in tx.select("count_by_status"):
                counts = by_dataset.setdefault(row["dataset"], {})
                counts[row["status"]] = row["records"]
            now = tx.now()
            due = tx.select("count_due", now=now)[0]
            return LedgerStats(
                by_dataset=by_dataset,
                stale={row["dataset"]: row["records"] for row in tx.select("count_stale")},
                due=due["records"],
                oldest_due_at=instant_or_none(due["oldest"]),
                live_workers=tx.select("count_workers", now=now)[0]["workers"],
            )

    def due_by_dataset(self) -> dict[str, int]:
        """Count the units whose time has come, switched off or not."""
        with self._database.reading() as tx:
            rows = tx.select("count_due_by_dataset", now=tx.now())
        return {row["dataset"]: row["records"] for row in rows}

    def _row(self, tx: Transaction, name: str) -> Row:
        by_uri = "://" in name
        if not by_uri and not _is_uuid(name):
            raise InvalidInput(f"{name!r} is neither a wal_id nor an object URI")
        rows = (
            tx.select("record_by_uri", object_uri=name)
            if by_uri
            else tx.select("record", wal_id=name)
        )
        if not rows:
            raise UnknownRecord(f"the ledger has no unit {name}")
        return rows[0]

    def _matching(
        self,
        tx: Transaction,
        wanted: RecordFilter,
        after: str | None,
        size: int,
        *,
        newest_first: bool,
    ) -> Iterator[Row]:
        """Merge one index range for each wanted (dataset, status)."""
        bounds = {
            **_between(wanted, after, newest_first=newest_first),
            "error_code": wanted.error_code,
            "size": size,
        }
        order = "_newest" if newest_first else ""
        if wanted.stale:
            datasets: Sequence[str | None] = wanted.datasets or [None]
            query = f"stale_page{order}"
            ranges = [tx.select(query, dataset=name, **bounds) for name in datasets]
        else:
            names = wanted.datasets or [row["dataset"] for row in tx.select("datasets")]
            ranges = [
                tx.select(f"page{order}", dataset=name, status=status.value, **bounds)
                for name in names
                for status in wanted.statuses or tuple(Status)
            ]
        return merge(*ranges, key=lambda row: row["wal_id"], reverse=newest_first)


def _between(wanted: RecordFilter, after: str | None, *, newest_first: bool) -> dict[str, str]:
    """Return the ids that a page lies between, both excluded; it goes on behind `after`."""
    low = _before(wanted.since)
    high = first_wal_id_of(wanted.until) if wanted.until else _LAST_ID
    if newest_first:
        return {"after": low, "before": min(after or _LAST_ID, high)}
    return {"after": max(after or _FIRST_ID, low), "before": high}


def _before(since: datetime | None) -> str:
    """Return an id just below the first that starts at `since`: bounds are exclusive."""
    if since is None:
        return _FIRST_ID
    first = first_wal_id_of(since)
    # Ids of a millisecond begin at …-8000-8000-…; this one sorts right below all of them.
    return first[:14] + "0000-0000-000000000000"


def _is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(
        character in "0123456789abcdef" for part in parts for character in part
    )

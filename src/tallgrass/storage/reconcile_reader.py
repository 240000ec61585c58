"""What a reconciliation reads of ledger and catalog: by pages, by a role that may only read.

Each page is a short transaction of its own, as for a plan. A unit that moves from one status to
another between two pages may come twice; it is told once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID

from tallgrass.inventory.listed import ListedObject
from tallgrass.inventory.reconcile import LedgerEntry
from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.rows import instant, instant_or_none, known_object
from tallgrass.storage.unit_of_work import Database, Row

#: Records read together, of all statuses.
PAGE_SIZE = 8000
#: Items looked at together.
ITEMS_SIZE = 20_000


class KnownObject(NamedTuple):
    """A listed object that the ledger knows."""

    #: Among those that were asked for.
    place: int
    wal_id: str
    dataset: str
    #: Whether the ledger knows it with another etag or size.
    differs: bool


class RecordRow(NamedTuple):
    """A record of the window; nearly all are fine, and of those nobody asks more."""

    wal_id: str
    object_uri: str
    #: Whether it succeeded, has its item, and nothing is to be done.
    fine: bool
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanItem:
    """An item whose record is not there, has not succeeded, or names another item."""

    wal_id: str
    collection_id: str
    item_id: str
    start: datetime
    #: Of its record; None if there is none.
    status: str | None


class ReconcileReader:
    """Reads records and items of a dataset and a window of data time."""

    def __init__(
        self, database: Database, *, page_size: int = PAGE_SIZE, items_size: int = ITEMS_SIZE
    ) -> None:
        self._database = database
        self._page_size = page_size
        self._items_size = items_size

    def now(self) -> datetime:
        """Return the time that leases are judged by."""
        with self._database.reading() as tx:
            return tx.now()

    def known(self, listed: Sequence[ListedObject]) -> Iterator[KnownObject]:
        """Yield those of the listed objects that the ledger knows, each with its place."""
        rows = [(each.uri, each.etag, each.size) for each in listed]
        with self._database.reading() as tx:
            found = tx.select("listed_objects", rows=rows)
        return (
            KnownObject(row["place"], row["wal_id"], row["dataset"], bool(row["differs"]))
            for row in found
        )

    def references(self, uris: Sequence[str]) -> dict[str, ObjectReference]:
        """Return the newest version of objects that the ledger knows."""
        with self._database.reading() as tx:
            rows = tx.select("known_references", rows=list(uris))
        return {row["object_uri"]: known_object(row) for row in rows}

    def entries(self, dataset: str, since: datetime, until: datetime) -> Iterator[RecordRow]:
        """Yield the records of a dataset whose data start in a span, in order of wal_id."""
        ranges = [self._range(dataset, status, since, until) for status in Status]
        last = ""
        for entry in merge(*ranges, key=itemgetter(0)):
            if entry.wal_id != last:
                last = entry.wal_id
                yield entry

    def orphans(self, collection: str, since: datetime, until: datetime) -> Iterator[OrphanItem]:
        """Yield the items of a collection that no record vouches for, in order of wal_id."""
        start, stop = _bounds(since, until)
        while start < stop:
            with self._database.reading() as tx:
                ahead = tx.select("reconcile_item_ahead", start=start, size=self._items_size)
                end = min(stop, ahead[0]["wal_id"]) if ahead else stop
                rows = tx.select("orphan_items", collection_id=collection, start=start, stop=end)
            yield from map(_orphan, rows)
            start = end

    def _range(
        self, dataset: str, status: Status, since: datetime, until: datetime
    ) -> Iterator[RecordRow]:
        start, stop = _bounds(since, until)
        size = max(1, self._page_size // len(Status))
        while True:
            with self._database.reading() as tx:
                rows = tx.select(
                    "reconcile_page",
                    dataset=dataset,
                    status=status.value,
                    start=start,
                    stop=stop,
                    size=size,
                )
            yield from map(_record_row, rows)
            if len(rows) < size:
                return
            start = str(UUID(int=UUID(rows[-1]["wal_id"]).int + 1))


def _bounds(since: datetime, until: datetime) -> tuple[str, str]:
    """Return the first id of the span and one behind its last: ids tell whole milliseconds."""
    return first_wal_id_of(since), first_wal_id_of(until)


def _record_row(row: Row) -> RecordRow:
    fine = (
        row["status"] == Status.SUCCEEDED
        and row["has_item"]
        and row["last_error_code"] is None
        and row["due_at"] is None
        and row["held_until"] is None
    )
    return RecordRow(row["wal_id"], row["object_uri"], bool(fine), row)


def entry_of(record: RecordRow) -> LedgerEntry:
    """Return all that is known of a record."""
    row = record.row
    return LedgerEntry(
        row["wal_id"],
        row["object_uri"],
        row["status"],
        instant(row["time_range_start"]),
        instant(row["created_at"]),
        instant(row["updated_at"]),
        instant_or_none(row["due_at"]),
        row["replay_run_id"],
        row["last_error_code"],
        bool(row["has_item"]),
        instant_or_none(row["held_until"]),
    )


def _orphan(row: Row) -> OrphanItem:
    return OrphanItem(
        wal_id=row["wal_id"],
        collection_id=row["collection_id"],
        item_id=row["item_id"],
        start=instant(row["start_at"]),
        status=row["status"],
    )

"""Reading the ledger. A role with read rights suffices; nothing here waits for a writer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice, product
from uuid import UUID

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
        look_at_most: int | None = None,
    ) -> Page:
        """Return a page of records, each read from an index in its order, or against it.

        What no index tells, a code or an intent, is looked for in `look_at_most` records; a page
        that ends there may be short, even empty, and still names the next.
        """
        with self._database.reading() as tx:
            look = _Look(tx, wanted, after, newest_first=newest_first)
            horizon = None if look_at_most is None else look.horizon(look_at_most)
            found = list(islice(look.ids(size + 1, until=horizon), size + 1))
            rows = {row["wal_id"]: row for row in tx.select("records_of_ids", rows=found[:size])}
        records = [record_from(rows[each]) for each in found[:size]]
        more = found[size - 1] if len(found) > size else horizon
        return Page(records=records, next_cursor=more)

    def by_address(self, prefix: str, *, after: str = "", size: int = 100) -> list[WalRecord]:
        """Return units whose object's URI begins like this and comes after another, in order."""
        with self._database.reading() as tx:
            rows = tx.select("uri_page", prefix=prefix, after=after, size=size)
        return [record_from(row) for row in rows]

    def by_id(self, prefix: str, *, after: str | None = None, size: int = 100) -> list[WalRecord]:
        """Return units whose wal_id begins like this and comes after another, in order."""
        first = UUID(prefix + _FIRST_ID[len(prefix) :]).int
        begin = max(after or "", str(UUID(int=max(0, first - 1))))
        with self._database.reading() as tx:
            rows = tx.select("export_page", after=begin, size=size)
        found = [record_from(row) for row in rows]
        return [record for record in found if record.wal_id.startswith(prefix)]

    def codes(self, datasets: Sequence[str], *, look_at_most: int) -> dict[str, int]:
        """Count the error codes of the newest failed and quarantined units, commonest first."""
        statuses = (Status.FAILED, Status.QUARANTINED)
        counted: Counter[str] = Counter()
        with self._database.reading() as tx:
            names = datasets or [row["dataset"] for row in tx.select("datasets")]
            most = max(1, look_at_most // max(1, len(names) * len(statuses)))
            for dataset, status in product(names, statuses):
                rows = tx.select("count_codes", dataset=dataset, status=status.value, most=most)
                counted.update({row["code"]: row["records"] for row in rows})
        return dict(counted.most_common())

    def stats(self) -> LedgerStats:
        """Count records by dataset and status, what is due, and who works."""
        with self._database.reading() as tx:
            by_dataset: dict[str, dict[str, int]] = {}
            for row in tx.select("count_since", after=_FIRST_ID):
                counts = by_dataset.setdefault(row["dataset"], {})
                if row["records"]:
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


class _Look:
    """One look for records: an index range for each wanted (dataset, status), merged.

    Where all are wanted it is one range, of the primary key.
    """

    def __init__(
        self, tx: Transaction, wanted: RecordFilter, after: str | None, *, newest_first: bool
    ) -> None:
        self._tx, self._wanted, self._newest_first = tx, wanted, newest_first
        self._order = "_newest" if newest_first else ""
        self._between = _between(wanted, after, newest_first=newest_first)
        names: Sequence[str | None] = wanted.datasets
        statuses = wanted.statuses or tuple(Status)
        #: A succeeded unit with a code is stale, and there is an index of those.
        coded = wanted.error_code is not None and Status.SUCCEEDED in statuses
        self._stale = (names or [None]) if wanted.stale or coded else []
        self._all = not (names or wanted.statuses or self._stale)
        if wanted.stale or self._all:
            self._ranges: list[tuple[str | None, Status]] = []
        else:
            rest = [each for each in statuses if not (coded and each is Status.SUCCEEDED)]
            known = names or [row["dataset"] for row in tx.select("datasets")]
            self._ranges = list(product(known, rest))

    def horizon(self, look_at_most: int) -> str | None:
        """Return the last id that is looked at; None where all are."""
        if self._wanted.error_code is None and self._wanted.intent is None:
            return None
        skipped = max(1, look_at_most // max(1, len(self._ranges))) - 1
        asked = {**self._between, "skipped": skipped}
        found = self._each("page_end", asked)
        if self._all:
            found.append(self._tx.select(f"page_end_of_all{self._order}", **asked))
        ends = [row["wal_id"] for rows in found for row in rows]
        if not ends:
            return None
        return str(max(ends) if self._newest_first else min(ends))

    def ids(self, size: int, *, until: str | None) -> Iterator[str]:
        """Yield wal_ids in order, to one that is included."""
        intent = self._wanted.intent
        asked = {
            **_up_to(self._between, until, newest_first=self._newest_first),
            "error_code": self._wanted.error_code,
            "intent": None if intent is None else intent.value,
            "size": size,
        }
        select, order = self._tx.select, self._order
        found = [select(f"stale_page{order}", dataset=name, **asked) for name in self._stale]
        found += self._each("page", asked)
        if self._all:
            found.append(select(f"page_of_all{order}", **asked))
        listed = ([row["wal_id"] for row in rows] for rows in found)
        return merge(*listed, reverse=self._newest_first)

    def _each(self, query: str, asked: Mapping[str, object]) -> list[Sequence[Row]]:
        """Ask the same of each range."""
        return [
            self._tx.select(f"{query}{self._order}", dataset=dataset, status=status.value, **asked)
            for dataset, status in self._ranges
        ]


def _up_to(between: dict[str, str], until: str | None, *, newest_first: bool) -> dict[str, str]:
    """Return bounds that end with an id; bounds are exclusive, so they lie one beyond it."""
    if until is None:
        return between
    name, step = ("after", -1) if newest_first else ("before", 1)
    return {**between, name: str(UUID(int=UUID(until).int + step))}


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

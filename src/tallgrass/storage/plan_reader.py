"""Candidates of a replay plan: read by pages, in order of wal_id, by a role that may only read.

Each page is a short transaction of its own: a view that stayed open over a million records would
keep the database from clearing up behind its writers. A unit that moves while the plan is read is
told once; the run then finds that its version is another, and leaves it alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from operator import itemgetter
from uuid import UUID

from tallgrass.errors import UnknownRecord
from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.plan import Candidate
from tallgrass.replay.selection import Selection
from tallgrass.storage.unit_of_work import Database, Row

#: Candidates read together, of all ranges of the index.
PAGE_SIZE = 8000
#: Of one range at least.
_PAGE_SIZE_MIN = 50

_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_SHOWN = 5
_MILLISECOND = timedelta(milliseconds=1)


class PlanReader:
    """Finds what a selection selects."""

    def __init__(self, database: Database, *, page_size: int = PAGE_SIZE) -> None:
        self._database = database
        self._page_size = page_size

    def named_units(self, selection: Selection) -> list[str] | None:
        """Return the units that a selection names, by their ids and by messages, each once.

        None where it names none. An id that the ledger does not know is an error: whoever names a
        unit means that one.
        """
        if not selection.names_units:
            return None
        found = set(self.datasets_of(selection.wal_ids))
        _require_known("unit", set(selection.wal_ids) - found)
        by_message = self._units_of_messages(selection)
        _require_known("message", set(selection.message_ids) - set(by_message))
        return sorted(found.union(*by_message.values()))

    def datasets(self, selection: Selection, named: Sequence[str] | None) -> list[str]:
        """Return the datasets whose units may be candidates."""
        if named is not None:
            known = set(self.datasets_of(named).values())
        else:
            with self._database.reading() as tx:
                known = {row["dataset"] for row in tx.select("datasets")}
        wanted = known & set(selection.datasets) if selection.datasets else known
        return sorted(wanted - set(selection.datasets_exclude))

    def candidates(
        self, selection: Selection, named: Sequence[str] | None, datasets: Sequence[str]
    ) -> Iterator[Candidate]:
        """Yield the selected units in order of wal_id, each once."""
        conditions = _conditions(selection)
        if named is not None:
            yield from self._named(selection, named, conditions)
            return
        ranges = [(name, status) for name in datasets for status in selection.wanted_statuses]
        size = max(min(_PAGE_SIZE_MIN, self._page_size), self._page_size // max(1, len(ranges)))
        found = [self._range(name, status, conditions, size) for name, status in ranges]
        last = ""
        for candidate in merge(*found, key=itemgetter(0)):
            # A unit that moved from one status to another between two pages comes twice.
            if candidate.wal_id != last:
                last = candidate.wal_id
                yield candidate

    def scope(self, selection: Selection, datasets: Sequence[str]) -> dict[str, int]:
        """Count, by status, all units of the selection's datasets and data time.

        The index alone answers. Against it one sees what the selection's other conditions, above
        all its statuses, leave out.
        """
        start, stop = _id_bounds(selection)
        counts = dict.fromkeys(map(str, Status), 0)
        with self._database.reading() as tx:
            for name in datasets:
                for status in counts:
                    found = tx.select(
                        "count_in_scope", dataset=name, status=status, start=start, stop=stop
                    )
                    counts[status] += found[0]["records"]
        return counts

    def _range(
        self, dataset: str, status: Status, conditions: Mapping[str, object], size: int
    ) -> Iterator[Candidate]:
        """Yield one range of the index, page by page."""
        asked = {**conditions, "dataset": dataset, "status": status.value, "size": size}
        while True:
            with self._database.reading() as tx:
                page = _candidates(tx.select("candidate_page", **asked))
            yield from page
            if len(page) < size:
                return
            asked["start"] = _next_id(page[-1].wal_id)

    def _named(
        self, selection: Selection, named: Sequence[str], conditions: Mapping[str, object]
    ) -> Iterator[Candidate]:
        for ids in _chunks(named, self._page_size):
            with self._database.reading() as tx:
                rows = tx.select(
                    "candidates_named",
                    rows=ids,
                    datasets=list(selection.datasets) or None,
                    datasets_exclude=list(selection.datasets_exclude),
                    statuses=[status.value for status in selection.wanted_statuses],
                    **conditions,
                )
            yield from _candidates(rows)

    def datasets_of(self, wal_ids: Sequence[str]) -> dict[str, str]:
        """Return the dataset of each unit that there is."""
        found: dict[str, str] = {}
        for ids in _chunks(wal_ids, self._page_size):
            with self._database.reading() as tx:
                rows = tx.select("datasets_of_units", rows=ids)
            found.update((row["wal_id"], row["dataset"]) for row in rows)
        return found

    def _units_of_messages(self, selection: Selection) -> dict[str, set[str]]:
        """Return the units that each message announced; the selection's data time narrows it."""
        wanted = set(selection.message_ids)
        units: dict[str, set[str]] = {}
        if not wanted:
            return units
        start, stop = _id_bounds(selection)
        with self._database.reading() as tx:
            rows = tx.select("units_of_messages", start=start, stop=stop, rows=sorted(wanted))
        for row in rows:
            for message in wanted.intersection((row["sns_message_id"], row["sqs_message_id"])):
                units.setdefault(message, set()).add(row["wal_id"])
        return units


def _candidates(rows: Iterable[Row]) -> list[Candidate]:
    """Read rows whose columns are in the order of a candidate's fields."""
    rows = list(rows)
    if rows and isinstance(rows[0], dict):
        return [Candidate._make(row.values()) for row in rows]
    return [Candidate._make(row) for row in rows]


def _conditions(selection: Selection) -> dict[str, object]:
    """Return what both queries for candidates are given; None is a condition that is not made."""
    start, stop = _id_bounds(selection)
    data, overlap = selection.data_time, selection.time_range_overlap
    event, created = selection.event_time, selection.created_at
    return {
        "start": start,
        "stop": stop,
        # An id tells milliseconds: only a finer bound must be compared with the time itself.
        "since": data.start if _is_finer(data.start) else None,
        "until": data.end if _is_finer(data.end) else None,
        "overlap_start": overlap.start,
        "overlap_end": overlap.end,
        "event_start": event.start,
        "event_end": event.end,
        "created_start": created.start,
        "created_end": created.end,
        "prefix": selection.bucket_prefix,
        "error_codes": list(selection.error_codes) or None,
        "attempts_min": selection.attempts_min,
        "attempts_max": selection.attempts_max,
    }


def _id_bounds(selection: Selection) -> tuple[str, str]:
    """Return the first id that may be selected, and one behind the last: ids begin with a time."""
    starts = [selection.wal_id_range.start or _FIRST_ID]
    stops = [selection.wal_id_range.end or _LAST_ID]
    data = selection.data_time
    if data.start is not None:
        starts.append(first_wal_id_of(data.start))
    stops += [
        first_wal_id_of(end + _MILLISECOND if _is_finer(end) else end)
        for end in (data.end, selection.time_range_overlap.end)
        if end is not None
    ]
    return max(starts), min(stops)


def _is_finer(bound: datetime | None) -> bool:
    return bound is not None and bound.microsecond % 1000 != 0


def _next_id(wal_id: str) -> str:
    return str(UUID(int=UUID(wal_id).int + 1))


def _chunks(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(ids), size):
        yield list(ids[first : first + size])


def _require_known(what: str, unknown: set[str]) -> None:
    if unknown:
        named = ", ".join(sorted(unknown)[:_SHOWN]) + (" …" if len(unknown) > _SHOWN else "")
        raise UnknownRecord(f"the ledger has no {what} {named}")

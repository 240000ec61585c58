"""Reads replay runs, for commands, the API and pages."""

from collections.abc import Iterator
from itertools import islice

from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.replay.run import Run, RunRecord, RunReport, report_of

#: Records that one page of changes looks at, at most: most records of a run changed nothing.
LOOKED_AT_MAX = 5000


def find_run(stores: Stores, run_id: str) -> Run:
    """Return a run; one that is not there is an error."""
    run = stores.replay_runs.find(run_id)
    if run is None:
        raise UnknownRecord(f"there is no run {run_id}", code="run_unknown")
    return run


def report_run(stores: Stores, run: Run) -> RunReport:
    """Add up what a run has come to."""
    return report_of(run, stores.replay_runs.counts(run))


def page_of_runs(
    stores: Stores, *, after: str | None, limit: int
) -> tuple[list[tuple[Run, RunReport]], str | None]:
    """Return a page of runs, newest first, each added up, and the id of the last if more come."""
    found = stores.replay_runs.each(after=after, size=limit + 1)
    page = found[:limit]
    more = len(found) > limit
    return [(run, report_run(stores, run)) for run in page], (
        page[-1].order.replay_run_id if more else None
    )


def replayed_records(stores: Stores, name: str) -> Iterator[RunRecord]:
    """Yield the records of a run, or what became of a unit in all runs."""
    if stores.replay_runs.find(name) is not None:
        return stores.replay_runs.records(name)
    try:
        record = stores.reader.record(name)
    except (InvalidInput, UnknownRecord):
        message = f"there is neither a run nor a unit {name}"
        raise UnknownRecord(message, code="run_unknown") from None
    return iter(stores.replay_runs.records_of_unit(record.wal_id))


def page_of_records(
    stores: Stores, run_id: str, *, after: str | None, limit: int
) -> tuple[list[RunRecord], str | None]:
    """Return a page of a run's records, and where the next begins."""
    found = list(islice(stores.replay_runs.records(run_id, after=after, size=limit + 1), limit + 1))
    page = found[:limit]
    return page, page[-1].wal_id if len(found) > limit else None


def page_of_changes(
    stores: Stores, run_id: str, *, after: str | None, limit: int, unexpected: bool = False
) -> tuple[list[RunRecord], str | None]:
    """Return records of a run that changed something, and where to go on looking.

    It looks at so many records and no more: a page may hold few, or none, and still have a next.
    """
    found: list[RunRecord] = []
    last: str | None = None
    records = stores.replay_runs.records(run_id, after=after)
    for number, each in enumerate(records, start=1):
        last = each.wal_id
        if each.mismatch or (each.changes and not unexpected):
            found.append(each)
        if len(found) == limit or number == LOOKED_AT_MAX:
            return found, last
    return found, None

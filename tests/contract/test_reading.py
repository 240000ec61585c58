"""Reading: pages equal a brute-force filter, counts equal raw counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Status
from tests.contract.scene import STATUSES, Scene
from tests.support.builders import DATA_START, failure, overwritten, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend

DATASETS = ("goes-glm", "mrms", "nexrad")


def populate(scene: Scene) -> list[dict[str, Any]]:
    """Fill a ledger with all statuses of three datasets, and one stale unit; return its rows."""
    for number, (dataset, status) in enumerate(product(DATASETS, STATUSES), start=1):
        if status == "pending":
            scene.park(number, dataset=dataset)
        elif status == "quarantined":
            scene.quarantine(scene.park(number, dataset=dataset))
        else:
            claim = scene.claim(unit(number, dataset=dataset))
            if status == "failed":
                scene.commit(failure(claim, "missing_object" if number % 2 else "io_error"))
            elif status == "succeeded":
                scene.commit(success(claim))
    scene.succeed(40)
    scene.commit(failure(scene.claim(overwritten(40)), "missing_object"))
    return scene.backend.rows("SELECT * FROM wal_records ORDER BY wal_id")


def all_pages(scene: Scene, wanted: RecordFilter, size: int) -> list[str]:
    """Follow the cursor to the end; return all ids."""
    found: list[str] = []
    after = None
    while True:
        page = scene.stores.reader.page(wanted, after=after, size=size)
        assert len(page.records) <= size
        found += [record.wal_id for record in page.records]
        if page.next_cursor is None:
            return found
        assert page.next_cursor == found[-1]
        after = page.next_cursor


def stamp(instant: datetime) -> str:
    """Write an instant as the raw rows have it."""
    return instant.isoformat(timespec="microseconds")[:26] + "Z"


FILTERS: list[RecordFilter] = [
    RecordFilter(),
    RecordFilter(datasets=["mrms"]),
    RecordFilter(datasets=["nexrad", "goes-glm"]),
    RecordFilter(datasets=["unheard-of"]),
    RecordFilter(statuses=[Status.FAILED]),
    RecordFilter(statuses=[Status.SUCCEEDED, Status.QUARANTINED], datasets=["mrms", "nexrad"]),
    RecordFilter(error_code="missing_object"),
    RecordFilter(error_code="missing_object", statuses=[Status.FAILED]),
    RecordFilter(since=DATA_START + timedelta(seconds=100)),
    RecordFilter(until=DATA_START + timedelta(seconds=100)),
    RecordFilter(
        since=DATA_START + timedelta(seconds=60), until=DATA_START + timedelta(seconds=200)
    ),
    RecordFilter(since=datetime(1763, 1, 1, tzinfo=UTC), until=datetime(2100, 1, 1, tzinfo=UTC)),
    RecordFilter(stale=True),
    RecordFilter(stale=True, datasets=["mrms"]),
]


def expected(rows: list[dict[str, Any]], wanted: RecordFilter) -> list[str]:
    """Filter raw rows by brute force."""
    return [
        row["wal_id"]
        for row in rows
        if (not wanted.datasets or row["dataset"] in wanted.datasets)
        and (not wanted.statuses or row["status"] in wanted.statuses)
        and (wanted.since is None or row["time_range_start"] >= stamp(wanted.since))
        and (wanted.until is None or row["time_range_start"] < stamp(wanted.until))
        and (wanted.error_code is None or row["last_error_code"] == wanted.error_code)
        and (not wanted.stale or (row["status"] == "succeeded" and row["last_error_code"]))
    ]


def test_pages_equal_a_brute_force_filter(backend: Backend) -> None:
    """For every filter and page size the pages hold each matching record once, in id order."""
    scene = Scene(backend)
    rows = populate(scene)
    assert len(rows) == 16
    for wanted, size in product(FILTERS, (1, 3, 100)):
        assert all_pages(scene, wanted, size) == expected(rows, wanted), wanted


def test_the_last_page_says_so(backend: Backend) -> None:
    """A page that ends with the last record has no cursor, however full it is."""
    scene = Scene(backend)
    rows = populate(scene)
    assert scene.stores.reader.page(RecordFilter(), size=len(rows)).next_cursor is None
    assert scene.stores.reader.page(RecordFilter(), size=len(rows) - 1).next_cursor is not None


def test_statistics_are_raw_counts(backend: Backend) -> None:
    """By dataset and status, stale, due and live workers: as counted by raw SQL."""
    scene = Scene(backend)
    populate(scene)
    backend.expire(scene.register("gone"))
    stats = scene.stores.reader.stats()
    counted: dict[str, dict[str, int]] = {}
    for dataset, status, count in backend.sql(
        "SELECT dataset, status, count(*) FROM wal_records GROUP BY dataset, status"
    ):
        counted.setdefault(dataset, {})[status] = count
    assert stats.by_dataset == counted
    assert stats.stale == {"goes-glm": 1}
    due = backend.sql("SELECT count(*), min(due_at) FROM wal_records WHERE due_at IS NOT NULL")
    assert stats.oldest_due_at is not None
    assert [(stats.due, stamp(stats.oldest_due_at))] == due
    assert stats.live_workers == 1


def test_an_empty_ledger_reads_as_empty(backend: Backend) -> None:
    """No record, no page, no count."""
    reader = Scene(backend).stores.reader
    page = reader.page(RecordFilter())
    assert (page.records, page.next_cursor) == ([], None)
    stats = reader.stats()
    assert (stats.by_dataset, stats.due, stats.oldest_due_at) == ({}, 0, None)


def test_a_record_is_found_by_id_and_by_address(backend: Backend) -> None:
    """Both names lead to the same record; an unknown or malformed one is a named error."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    reader = scene.stores.reader
    assert reader.record(wal_id) == reader.record(unit(0).object_uri)
    for name in (unit(9).wal_id, unit(9).object_uri):
        with pytest.raises(UnknownRecord):
            reader.record(name)
    for name in ("", "not-an-id", wal_id.upper(), wal_id[:-1], "s3:/b/k"):
        with pytest.raises(InvalidInput):
            reader.record(name)

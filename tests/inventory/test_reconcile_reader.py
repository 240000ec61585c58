"""What a reconciliation reads of ledger and catalog is what the tables hold, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.inventory.listed import ListedObject
from tallgrass.storage.reconcile_reader import ReconcileReader, entry_of
from tests.inventory.scene import FINE, GIVEN, HELD, ITEMLESS, STALE, make_mess
from tests.pipeline.scene import FIRST
from tests.replay.population import populate
from tests.support.builders import DATA_START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

FAR = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("page_size", [1, 15, 8000])
def test_entries_come_whole_in_order_whatever_the_page(backend: Backend, page_size: int) -> None:
    """All statuses of a dataset merge into one order; pages of one lose and double nothing."""
    scene = populate(backend)
    reader = ReconcileReader(scene.stores.database, page_size=page_size)
    rows = backend.rows("SELECT * FROM wal_records WHERE dataset = ? ORDER BY wal_id", "hrrr")
    assert len({row["status"] for row in rows}) > 2, "the premise: several statuses"
    found = [entry_of(record) for record in reader.entries("hrrr", *FAR)]
    assert [(each.wal_id, each.object_uri, each.status) for each in found] == [
        (row["wal_id"], row["object_uri"], row["status"]) for row in rows
    ]
    held = {wal_id for (wal_id,) in backend.sql("SELECT wal_id FROM wal_attempts WHERE status = ?",
                                               "pending")}  # fmt: skip
    for each, row in zip(found, rows, strict=True):
        assert (each.last_error_code, each.has_item) == (row["last_error_code"], False)
        assert (each.held_until is not None) == (each.wal_id in held)


def test_a_window_is_half_open(backend: Backend) -> None:
    """A record that starts with the window is in it, one that starts at its end is not."""
    reader = ReconcileReader(populate(backend).stores.database)
    starts = [
        row["time_range_start"]
        for row in backend.rows("SELECT * FROM wal_records WHERE dataset = ?", "goes-glm")
    ]
    since, until = DATA_START + timedelta(seconds=20), DATA_START + timedelta(seconds=100)
    found = [entry_of(each).start for each in reader.entries("goes-glm", since, until)]
    inside = sorted(s for s in starts if "2026-01-01T00:00:20" <= s < "2026-01-01T00:01:40")
    assert len(inside) == 4
    assert sorted(f"{each:%Y-%m-%dT%H:%M:%S.%fZ}" for each in found) == inside


def test_listed_objects_are_found_by_their_uri(backend: Backend, tmp_path: Path) -> None:
    """The places of known ones, whether they differ, and nothing of unknown ones."""
    pipeline = make_mess(backend, tmp_path).pipeline
    reader = ReconcileReader(pipeline.stores.database)
    etag = pipeline.attempts(FINE)[0]["read_etag"]
    listed = [
        ListedObject("s3://noaa-goes19/unknown", 1, "x", None),
        ListedObject(FINE.uri, len(FINE.content), etag, None),
        ListedObject(HELD.uri, None, None, None),
        ListedObject(FINE.uri, len(FINE.content), "another", None),
        ListedObject(STALE.uri, 7, None, None),
    ]
    found = {known.place: known for known in reader.known(listed)}
    assert {place: known.differs for place, known in found.items()} == {
        1: False, 2: False, 3: True, 4: True,
    }  # fmt: skip
    assert found[1].wal_id == pipeline.row(FINE)["wal_id"]
    references = reader.references([FINE.uri, "s3://noaa-goes19/unknown"])
    assert [(uri, each.etag) for uri, each in references.items()] == [(FINE.uri, etag)]


@pytest.mark.parametrize("items_size", [1, 3, 20_000])
def test_items_without_a_record_are_found_on_any_page(
    backend: Backend, tmp_path: Path, items_size: int
) -> None:
    """However many items are looked at together, the one that no record vouches for is told."""
    mess = make_mess(backend, tmp_path)
    reader = ReconcileReader(mess.pipeline.stores.database, items_size=items_size)
    window = (FIRST, FIRST + timedelta(seconds=20 * len(GIVEN)))
    found = [(each.wal_id, each.status) for each in reader.orphans("goes-glm", *window)]
    assert found == [(mess.orphan, None)]
    before = (FIRST, FIRST + timedelta(seconds=20))
    assert list(reader.orphans("goes-glm", *before)) == []
    assert list(reader.orphans("hrrr", *window)) == []
    items = {entry_of(each).wal_id: each.fine for each in reader.entries("goes-glm", *window)}
    assert items[mess.pipeline.row(FINE)["wal_id"]]
    assert not items[mess.pipeline.row(ITEMLESS)["wal_id"]]

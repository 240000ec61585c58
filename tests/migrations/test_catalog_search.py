"""Items that were there before the search get what the search goes by."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.stac.place import place_of_box
from tallgrass.stac.search import ItemSearch
from tallgrass.storage.migrations import migrate, shipped_migrations
from tests.support.backends import Backend
from tests.support.builders import units
from tests.support.catalog import NOON, Known, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ITEMS = [
    Known(id="short", at=NOON, span=(NOON - MINUTE, NOON + MINUTE)),
    Known(id="daily", at=NOON, span=(NOON - DAY / 2, NOON + DAY / 2)),
    Known(id="yearly", at=NOON, span=(NOON - 180 * DAY, NOON + 180 * DAY)),
    Known(id="placeless", box=None, at=NOON + MINUTE),
]


@pytest.fixture(params=["sqlite", "postgres"])
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database of the release before, with items."""
    name = request.param
    databases: Databases | None = None
    if name == "sqlite":
        made = Backend(name, f"sqlite:///{tmp_path / 'before.db'}")
    else:
        databases = request.getfixturevalue("postgres_databases")
        made = Backend(name, databases.create())
    stores = made.open()
    old = [each for each in shipped_migrations(name) if each.number <= 4]
    migrate(stores.database, old)
    # Today's statements ask which run put a unit back; then there was no table of runs.
    made.sql("CREATE TABLE replay_runs AS SELECT replay_run_id FROM wal_records")
    made.sql("ALTER TABLE replay_runs ADD COLUMN mode TEXT")
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, units(4)) if r.claim]
    for claim, item in zip(claims, ITEMS, strict=True):
        insert_as_before(made, claim.wal_id, item)
    made.sql("DROP TABLE replay_runs")
    stores.close()
    yield made
    made.close()
    if databases is not None:
        databases.drop(made.url)


def insert_as_before(backend: Backend, wal_id: str, item: Known) -> None:
    """Write an item with the columns of then; one without a place had the box of the world."""
    west, south, east, north = item.box or (-180.0, -90.0, 180.0, 90.0)
    row: dict[str, Any] = {
        "collection_id": item.collection, "item_id": item.id, "wal_id": wal_id, "attempt_no": 1,
        "body": item.body(), "sha256": "0" * 64, "west": west, "south": south, "east": east,
        "north": north, "start_at": text_of(item.start), "end_at": text_of(item.end),
        "created_at": text_of(NOON), "updated_at": text_of(NOON),
    }  # fmt: skip
    marks = ", ".join("?" for _ in row)
    backend.sql(f"INSERT INTO stac_items ({', '.join(row)}) VALUES ({marks})", *row.values())


def test_items_of_before_are_found(before: Backend) -> None:
    """Each gets its own time and reach; one without a place is found by no place."""
    stores = before.open()
    migrate(stores.database)
    rows = before.sql("SELECT item_id, datetime_at, reach, west FROM stac_items ORDER BY item_id")
    assert rows == [
        ("daily", text_of(NOON), "day", 0.0),
        ("placeless", text_of(NOON + MINUTE), "hour", 999.0),
        ("short", text_of(NOON), "hour", 0.0),
        ("yearly", text_of(NOON), "long", 0.0),
    ]
    around = place_of_box((-180.0, -90.0, 180.0, 90.0))
    late = ItemSearch(place=around, since=NOON + 2 * MINUTE, until=NOON + 3 * MINUTE)
    assert [item.key.id for item in stores.catalog.page(late).items] == ["yearly", "daily"]
    assert len(stores.catalog.page(ItemSearch(place=around)).items) == 3
    assert len(stores.catalog.page(ItemSearch()).items) == 4
    stores.close()


def test_the_owner_of_an_item_is_still_kept(before: Backend) -> None:
    """What guarded the item before guards it now."""
    stores = before.open()
    migrate(stores.database)
    stores.close()
    with pytest.raises(Exception, match="append_only"):
        before.sql("UPDATE stac_items SET item_id = 'x' WHERE item_id = 'short'")

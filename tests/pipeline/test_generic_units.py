"""Objects of which nothing is known but their bucket still become records and items."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.pipeline.scene import Pipeline, Thing, thing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def unknown(bucket: str, key: str) -> Thing:
    """Return an object of a bucket without a grammar."""
    base = thing()
    return replace(base, place=replace(base.place, bucket=bucket, key=key), content=b"anything")


def test_a_generic_unit_is_recorded_and_cataloged(backend: Backend, tmp_path: Path) -> None:
    """It succeeds as suspect, starts at the fixed instant, and its item has no geometry."""
    pipeline = Pipeline(backend, tmp_path)
    given = unknown("noaa-wod-pds", "2020/wod ctd.nc")
    pipeline.feed(given)
    pipeline.drain()
    row = pipeline.row(given)
    assert (row["status"], row["dataset"], row["metadata_status"]) == (
        "succeeded",
        "wod",
        "suspect",
    )
    assert str(row["time_range_start"]).startswith("1970-01-01")
    stored = pipeline.item(given)
    assert stored is not None
    item = json.loads(stored["body"])
    assert item["geometry"] is None
    assert "bbox" not in item
    # Only what has a place is found by one (OGC API Features): this box is outside the world.
    box = [stored[side] for side in ("west", "south", "east", "north")]
    assert box == [999.0, 999.0, 999.0, 999.0]


def test_neighbours_of_a_generic_unit_are_passed_over(backend: Backend, tmp_path: Path) -> None:
    """A checksum beside it is acknowledged and leaves no record."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(unknown("noaa-wod-pds", "a.nc.md5"), unknown("noaa-wod-pds", "README.txt"))
    pipeline.drain()
    assert pipeline.left() == (0, 0, 0)
    assert backend.rows("SELECT * FROM wal_records") == []
    assert backend.rows("SELECT * FROM poison_messages") == []

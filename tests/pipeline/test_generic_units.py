"""Objects of which nothing is known but their bucket still become records and items."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize(
    ("bucket", "key", "dataset", "start"),
    [
        ("noaa-mrms-pds", "ProbSevere/MRMS_PROBSEVERE_20260219_042400.json", "mrms",
         "2026-02-19T04:24"),
        ("noaa-nbm-grib2-pds", "blend.20260601/13/text/blend_nbstx.t13z", "nbm-grib2",
         "2026-06-01T13:00"),
        ("noaa-goes19", "NEW/thing.bin", "goes-other", "1970-01-01T00:00"),
    ],
)  # fmt: skip
def test_a_unit_of_an_unknown_layout_is_recorded_and_cataloged(
    backend: Backend, tmp_path: Path, bucket: str, key: str, dataset: str, start: str
) -> None:
    """Also in a dataset with a grammar: nothing that is announced is lost without a rule."""
    pipeline = Pipeline(backend, tmp_path)
    given = unknown(bucket, key)
    if key.endswith(".json"):
        given = replace(given, content=b'{"type": "FeatureCollection"}')
    pipeline.feed(given)
    pipeline.drain()
    row = pipeline.row(given)
    assert (row["status"], row["dataset"], row["metadata_status"]) == (
        "succeeded",
        dataset,
        "suspect",
    )
    assert str(row["time_range_start"]).replace(" ", "T").startswith(start)
    stored = pipeline.item(given)
    assert stored is not None
    item = json.loads(stored["body"])
    assert (item["collection"], item["geometry"]) == (dataset, None)
    assert "gsd" not in item["properties"]
    attempt = pipeline.attempts(given)[0]
    assert "metadata-extract:incomplete_product_metadata" in str(attempt["issues"])


def test_a_file_of_an_unknown_layout_tells_what_it_can(backend: Backend, tmp_path: Path) -> None:
    """A GRIB2 file under another name is read as one: the item has its place and its time."""
    pipeline = Pipeline(backend, tmp_path)
    given = thing(2, dataset="hrrr")
    key = re.sub(r"wrf[a-z]+f", "wrfdayf", given.place.key)
    given = replace(given, place=replace(given.place, key=key))
    pipeline.feed(given)
    pipeline.drain()
    row = pipeline.row(given)
    assert (row["status"], row["integrity_status"], row["metadata_status"]) == (
        "succeeded",
        "ok",
        "suspect",
    )
    stored = pipeline.item(given)
    assert stored is not None
    item = json.loads(stored["body"])
    assert item["geometry"] is not None
    assert item["assets"]["data"]["type"] == "application/wmo-GRIB2"


def test_neighbours_of_a_generic_unit_are_passed_over(backend: Backend, tmp_path: Path) -> None:
    """A checksum beside it is acknowledged and leaves no record."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(unknown("noaa-wod-pds", "a.nc.md5"), unknown("noaa-wod-pds", "README.txt"))
    pipeline.drain()
    assert pipeline.left() == (0, 0, 0)
    assert backend.rows("SELECT * FROM wal_records") == []
    assert backend.rows("SELECT * FROM poison_messages") == []

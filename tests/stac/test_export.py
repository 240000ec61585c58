"""The catalog as files: whole, the same bytes every time, read by the tools that people use."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pystac
import pytest

from tallgrass.errors import InvalidInput
from tallgrass.stac.export import Exported, lines, write_static
from tallgrass.stac.geoparquet import write_geoparquet
from tallgrass.stac.place import place_of_box
from tallgrass.stac.search import ItemSearch
from tests.support.backends import Backend, prepare
from tests.support.catalog import HOUR, NOON, Known, canonical, write_catalog
from tests.web.scene import ITEMS, KANSAS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MORE = [*ITEMS, Known(id="newyear", at=NOON.replace(month=12, day=31, hour=23) + 2 * HOUR)]


@contextmanager
def viewed(backend: Backend) -> Iterator[Any]:
    """Open a view of the catalog."""
    stores = backend.open()
    with stores.catalog.view() as view:
        yield view
    stores.close()


@pytest.fixture
def catalog(backend: Backend) -> Backend:
    """A database with the known items."""
    write_catalog(backend, MORE)
    return backend


def export(backend: Backend, folder: Path, **conditions: Any) -> Exported:
    """Write a static catalog into a new folder."""
    folder.mkdir()
    with viewed(backend) as view:
        return write_static(
            view, ItemSearch(**conditions), folder, dataset_of=lambda name: name.upper()
        )


def content(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by their relative names."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_items_lie_where_the_scheme_says(catalog: Backend, tmp_path: Path) -> None:
    """Dataset, year and day of the year of the item's own time, with its provenance beside it."""
    done = export(catalog, tmp_path / "out")
    files = content(tmp_path / "out")
    items = {
        f"{item.collection.upper()}/{day}/{item.id}"
        for item in MORE
        for day in ["2027/001" if item.id == "newyear" else "2026/152"]
    }
    assert {f"{name}.json" for name in items} | {f"{name}.prov.jsonld" for name in items} == {
        name for name in files if not name.endswith(("catalog.json", "collection.json"))
    }
    assert {name for name in files if name.endswith(("catalog.json", "collection.json"))} == {
        "catalog.json",
        "GOES-GLM/collection.json", "GOES-GLM/2026/catalog.json", "GOES-GLM/2026/152/catalog.json",
        "GOES-GLM/2027/catalog.json", "GOES-GLM/2027/001/catalog.json",
        "HRRR/collection.json", "HRRR/2026/catalog.json", "HRRR/2026/152/catalog.json",
        "NEXRAD-L2/collection.json", "NEXRAD-L2/2026/catalog.json",
        "NEXRAD-L2/2026/152/catalog.json",
    }  # fmt: skip
    assert (done.collections, done.items, done.files) == (3, len(MORE), len(files))


def test_the_same_catalog_gives_the_same_bytes(backend: Backend, tmp_path: Path) -> None:
    """Twice, from either database, and in whatever order the items came."""
    write_catalog(backend, MORE)
    other = prepare("sqlite", f"sqlite:///{tmp_path / 'other.db'}")
    write_catalog(other, MORE[::-1])
    for name, source in (("one", backend), ("two", backend), ("three", other)):
        export(source, tmp_path / name)
    one = content(tmp_path / "one")
    assert one == content(tmp_path / "two") == content(tmp_path / "three")
    parquet = []
    for source in (backend, other):
        with viewed(source) as view:
            file = io.BytesIO()
            write_geoparquet(lambda: view.walk(ItemSearch()), file, collections={})
            parquet.append(hashlib.sha256(file.getvalue()).hexdigest())
    assert parquet[0] == parquet[1]
    other.close()


def test_every_link_leads_to_a_file_of_the_export(catalog: Backend, tmp_path: Path) -> None:
    """Links are relative and hold, but for the licence; an item is what is stored beside them."""
    folder = tmp_path / "out"
    export(catalog, folder)
    for path in folder.rglob("*.json"):
        document = json.loads(path.read_bytes())
        relations = [each["rel"] for each in document["links"]]
        assert "root" in relations
        assert "self" not in relations
        outward = [each for each in document["links"] if "://" in each["href"]]
        assert [each["rel"] for each in outward] == ["license"] * (document["type"] == "Collection")
        for each in document["links"]:
            if each in outward:
                continue
            target = (path.parent / each["href"]).resolve()
            assert target.is_relative_to(folder)
            assert target.is_file(), (path, each)
        if document["type"] == "Feature":
            known = next(item for item in MORE if item.id == document["id"])
            stored = {**known.document(), "links": document["links"]}
            assert path.read_bytes() == canonical(stored)
            assert (path.parent / f"{known.id}.prov.jsonld").read_bytes() == known.provenance()


def test_pystac_reads_the_whole(catalog: Backend, tmp_path: Path) -> None:
    """From the root all items are found, each in its collection, whose extent holds them."""
    export(catalog, tmp_path / "out")
    root = pystac.Catalog.from_file(str(tmp_path / "out" / "catalog.json"))
    found = {item.id: item for item in root.get_items(recursive=True)}
    assert found.keys() == {item.id for item in MORE}
    collection = found["hrrr-1"].get_collection()
    assert collection is not None
    assert collection.id == "hrrr"
    assert collection.extent.spatial.bboxes == [[-102.0, 0.0, 0.0, 40.0]]
    assert collection.extent.temporal.intervals == [[NOON + HOUR, NOON + 4 * HOUR]]
    assert found["glm-1"].get_root() is not None


def test_conditions_choose_what_is_written(catalog: Backend, tmp_path: Path) -> None:
    """Collections, place and time; a collection without items is not there."""
    search: dict[str, Any] = {
        "place": place_of_box(KANSAS),
        "since": NOON + HOUR,
        "collections": ("hrrr", "none"),
    }
    done = export(catalog, tmp_path / "out", **search)
    assert (done.collections, done.items) == (1, 2)
    assert (tmp_path / "out" / "HRRR" / "2026" / "152" / "hrrr-2.json").is_file()
    with viewed(catalog) as view:
        named = [json.loads(line)["id"] for line in lines(view, ItemSearch(**search))]
    assert named == ["hrrr-1", "hrrr-2"]


def test_a_collection_without_a_document_is_told(backend: Backend, tmp_path: Path) -> None:
    """Nobody makes one up; the message says what writes it."""
    write_catalog(backend, ITEMS, collections=False)
    with pytest.raises(InvalidInput, match="stac collections refresh"):
        export(backend, tmp_path / "out")


def test_lines_are_the_stored_bytes(catalog: Backend) -> None:
    """In order of collection and id, each as it is hashed in the ledger."""
    with viewed(catalog) as view:
        found = list(lines(view, ItemSearch()))
    ordered = sorted(MORE, key=lambda item: (item.collection, item.id))
    assert found == [item.body() + b"\n" for item in ordered]


def test_duckdb_reads_the_geoparquet(catalog: Backend, tmp_path: Path) -> None:
    """Columns have types, boxes cross the antimeridian, an item without a place has no geometry."""
    path = tmp_path / "items.parquet"
    with viewed(catalog) as view, path.open("wb") as file:
        count = write_geoparquet(
            lambda: view.walk(ItemSearch()), file, collections=view.collections()
        )
    assert count == len(MORE)
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        rows = connection.execute(
            f"""SELECT id, collection, bbox.xmin, bbox.xmax, CAST(datetime AS VARCHAR),
              start_datetime IS NULL, geometry IS NULL, "kfm:dataset", assets.data.href
            FROM '{path}'"""
        ).fetchall()
        near = connection.execute(
            f"SELECT id FROM '{path}' WHERE bbox.xmin < -99 AND bbox.ymax > 37"
            " ORDER BY datetime, id"
        ).fetchall()
        metadata = dict(
            connection.execute(
                f"SELECT decode(key), decode(value) FROM parquet_kv_metadata('{path}')"
            ).fetchall()
        )
    for name, collection, west, east, at, instant, placeless, dataset, href in rows:
        known = next(item for item in MORE if item.id == name)
        assert collection == dataset == known.collection
        assert (west, east) == ((None, None) if known.box is None else (known.box[0], known.box[2]))
        assert at.startswith(known.at.strftime("%Y-%m-%d %H:%M:%S"))
        assert instant is (known.span is None)
        assert placeless is (known.box is None)
        assert href == f"s3://noaa-goes19/{name}.nc"
    assert [name for (name,) in near] == ["glm-1", "hrrr-1", "hrrr-2"]
    geo = json.loads(metadata["geo"])
    assert geo["primary_column"] == "geometry"
    assert geo["columns"]["geometry"]["geometry_types"] == ["MultiPolygon", "Point", "Polygon"]
    assert set(json.loads(metadata["stac-geoparquet"])["collections"]) == {
        item.collection for item in MORE
    }


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_items_of_different_forms_fit_into_one_file(backend: Backend) -> None:
    """A property that only some have is null for the others; one of two types is refused."""

    class Odd(Known):
        def document(self) -> dict[str, Any]:
            document = super().document()
            number = int(self.id[-1])
            document["properties"][f"own:{number % 2}"] = number
            document["properties"]["mixed"] = "x" if self.id == "odd-9" else number + 0.5
            return document

    write_catalog(backend, [Odd(id=f"odd-{number}") for number in range(4)])
    with viewed(backend) as view:
        file = io.BytesIO()
        assert write_geoparquet(lambda: view.walk(ItemSearch()), file, collections={}) == 4
    write_catalog(backend, [Odd(id="odd-9")])
    with viewed(backend) as view, pytest.raises(InvalidInput, match="mixed"):
        write_geoparquet(lambda: view.walk(ItemSearch()), io.BytesIO(), collections={})

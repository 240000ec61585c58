"""Each deep dataset: a whole object becomes an item that holds what its dataset must tell."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from shapely.geometry import shape

from tallgrass.bootstrap.schemas import open_validator
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.stac.collections import build_collection
from tallgrass.stac.extent import with_values
from tallgrass.stac.summarised import summarised
from tests.stac import schemas
from tests.stac.deep_objects import OBJECTS
from tests.stac.real_items import item_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Extensions that every item declares.
COMMON = {"alternate-assets", "file", "storage"}
OBSERVED = {"instruments", "platform", "constellation", "start_datetime", "end_datetime"}
FORECAST = {"forecast:reference_datetime", "forecast:horizon"}
GRID = {"proj:wkt2", "proj:shape", "proj:transform", "proj:bbox"}
GOES = {*OBSERVED, "goes:system_environment", "processing:level", "sat:orbit_state"}
RADAR = {"instruments", "constellation", "platform", "processing:level", "nexrad:site"}

#: Dataset → extensions beside the common ones, and properties beside `datetime`.
MUST: dict[str, tuple[set[str], set[str]]] = {
    "goes-abi": (
        {"goes", "processing", "projection", "sat"},
        {*GOES, *GRID, "goes:image_type", "goes:mesoscale_image_number", "goes:orbital_slot"},
    ),
    "goes-glm": ({"goes", "processing", "sat"}, {*GOES, "gsd"}),
    "goes-suvi": ({"goes", "processing", "sat"}, {*GOES, "suvi:line"}),
    "nexrad-l2": ({"processing"}, {*RADAR, "nexrad:vcp", "start_datetime", "end_datetime"}),
    "nexrad-l2-chunks": (
        {"processing"},
        {
            *(*RADAR, "nexrad:vcp", "start_datetime", "end_datetime"),
            *("nexrad:volume", "nexrad:chunk", "nexrad:part"),
        },
    ),
    "nexrad-l3": (
        {"processing"},
        {*RADAR, "nexrad:vcp", "nexrad:product", "nexrad:product_code", "processing:datetime"},
    ),
    "mrms": (
        {"noaa-mrms-qpe", "projection"},
        {
            *(*GRID, "mrms:product", "mrms:accumulation", "noaa_mrms_qpe:pass"),
            *("start_datetime", "end_datetime"),
        },
    ),
    "hrrr": ({"forecast", "projection"}, {*FORECAST, *GRID, "hrrr:product", "gsd"}),
    "gfs": ({"forecast", "projection"}, {*FORECAST, *GRID, "gfs:product"}),
    "gefs": ({"forecast", "projection"}, {*FORECAST, *GRID, "gefs:member"}),
    "rap": ({"forecast", "projection"}, {*FORECAST, *GRID, "rap:product"}),
    "nbm-grib2": ({"forecast", "projection"}, {*FORECAST, *GRID, "nbm:region"}),
    "nwm": ({"forecast"}, {*FORECAST, "nwm:configuration", "nwm:domain"}),
    "jpss-viirs": ({"sat"}, {*OBSERVED, "jpss:product"}),
    "ndfd": (
        {"forecast", "projection"},
        {*GRID, "forecast:reference_datetime", "ndfd:element", "start_datetime", "end_datetime"},
    ),
}
#: They look at the sun.
PLACELESS = {"goes-suvi"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Return what gives the item of a dataset; each is made once."""
    children = Hdf5Children(1)
    folder: Path = tmp_path_factory.mktemp("objects")
    items: dict[str, Any] = {}

    def make(dataset: str) -> Any:
        if dataset not in items:
            place, content = OBJECTS[dataset]
            items[dataset] = item_of(folder, place, content(), children)
        return items[dataset]

    yield make
    children.close()


def test_all_fifteen_are_here() -> None:
    """The deep datasets are those that the catalogue promises in full."""
    assert len(MUST) == 15
    assert set(MUST) == set(OBJECTS)


@pytest.mark.parametrize("dataset", MUST)
def test_an_item_tells_what_its_dataset_must(dataset: str, made: Callable[[str], Any]) -> None:
    """Its extensions are declared and its properties are there, none of them empty."""
    item = made(dataset)
    extensions, properties = MUST[dataset]
    declared = {address.split("/")[3] for address in item["stac_extensions"]}
    assert declared >= COMMON | extensions
    told = item["properties"]
    assert set(told) >= properties | {"datetime"}
    assert all(told[name] not in (None, "", [], {}) for name in properties)
    assert told["kfm:dataset"] == item["collection"] == dataset


@pytest.mark.parametrize("dataset", MUST)
def test_an_item_keeps_core_and_every_extension(dataset: str, made: Callable[[str], Any]) -> None:
    """STAC core and the published schema of each declared extension find nothing."""
    verdict = open_validator([schemas.folder() / "stac"]).judge(made(dataset))
    assert verdict.is_valid, verdict
    assert schemas.core_errors(made(dataset)) == []


@pytest.mark.parametrize("dataset", MUST)
def test_an_items_time_lies_within_its_range(dataset: str, made: Callable[[str], Any]) -> None:
    """Start, time and end are in order; a forecast starts no earlier than its run."""
    told = made(dataset)["properties"]
    first = told.get("start_datetime", told["datetime"])
    last = told.get("end_datetime", told["datetime"])
    assert first <= told["datetime"] <= last
    assert ("start_datetime" in told) == ("end_datetime" in told) == (first < last)


@pytest.mark.parametrize("dataset", MUST)
def test_an_items_box_is_the_box_of_its_geometry(dataset: str, made: Callable[[str], Any]) -> None:
    """The outline is valid and counter-clockwise, and its box is what it spans."""
    item = made(dataset)
    if dataset in PLACELESS:
        assert item["geometry"] is None
        assert "bbox" not in item
        return
    outline = shape(item["geometry"])
    assert outline.is_valid
    assert outline.geom_type == "Polygon"
    assert outline.exterior.is_ccw
    west, south, east, north = item["bbox"]
    assert outline.bounds == pytest.approx((west, south, east, north), abs=1e-9)
    assert west < east
    assert south < north


@pytest.mark.parametrize("dataset", MUST)
def test_an_items_asset_is_the_object(dataset: str, made: Callable[[str], Any]) -> None:
    """Address, size, checksum and store are those of the object."""
    item = made(dataset)
    place, content = OBJECTS[dataset]
    data, asset = content(), item["assets"]["data"]
    assert asset["href"] == f"s3://{place}"
    assert asset["file:size"] == len(data)
    # Multihash: code 0xd5 as a varint, 16 bytes.
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert asset["file:checksum"] == f"d50110{digest}"
    bucket, key = place.split("/", 1)
    https = asset["alternate"]["https"]["href"]
    assert https == f"https://{bucket}.s3.amazonaws.com/{key}"
    scheme = item["properties"]["storage:schemes"]["aws"]
    assert (scheme["bucket"], scheme["region"]) == (bucket, "us-east-1")
    assert all(each["storage:refs"] == ["aws"] for each in item["assets"].values())


@pytest.mark.parametrize("dataset", MUST)
def test_an_item_holds_no_word_of_the_files_own_licence(
    dataset: str, made: Callable[[str], Any]
) -> None:
    """GOES files call themselves restricted, which they are not; the collection has the terms."""
    assert "restricted" not in str(made(dataset)).lower()
    assert "license" not in made(dataset)["properties"]


@pytest.mark.parametrize("dataset", MUST)
def test_a_collection_with_the_values_of_its_items_is_valid(
    dataset: str, made: Callable[[str], Any]
) -> None:
    """Summaries of what items tell keep core and every extension that they call for."""
    own = default_catalogue().named(dataset)
    told = made(dataset)["properties"]
    values = {
        name: [told[name]]
        for name in sorted(summarised(own))
        if isinstance(told.get(name), str | int | float)
    }
    document = json.loads(with_values(build_collection(own), values))
    verdict = open_validator([schemas.folder() / "stac"]).judge(document)
    assert verdict.is_valid, verdict
    assert document["license"] == "other"
    assert [each["href"] for each in document["links"] if each["rel"] == "license"]
    roles = [role for each in document["providers"] for role in each["roles"]]
    assert roles[:3] == ["producer", "licensor", "host"]
    assert dataset in document["keywords"]
    assert document["item_assets"]["data"]["type"]
    if "platform" in told:
        assert told["platform"] in document["summaries"]["platform"]

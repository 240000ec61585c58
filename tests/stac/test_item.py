from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tallgrass.stac.item import PROVENANCE_REL, Description, build_item
from tallgrass.stac.source_object import SourceObject, multihash, plain_etag
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.stac import schemas

ALTERNATE = "https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json"
DECLARED = {
    "goes-glm": ["alternate-assets", "file", "goes", "processing", "storage"],
    "nexrad-l2": ["alternate-assets", "file", "processing", "storage"],
    "hrrr": ["alternate-assets", "file", "forecast", "storage"],
}


def item_of(name: str, **changes: Any) -> Any:
    """Return the item of a dataset's unit as a document."""
    make, key = scene.MATCHES[name]
    match = changes.pop("match", None) or make()
    result = run_chain(
        scene.claim(match, key, **changes.pop("claim", {})),
        match,
        scene.evidence(**changes),
        None,
        scene.context(),
    )
    assert result.effects.item is not None, result.outcome.error_message
    return json.loads(result.effects.item.body)


def check_structure(item: Any) -> None:
    """Check what STAC 1.1 and GeoJSON require of an item, field by field."""
    assert item["type"] == "Feature"
    assert item["stac_version"] == "1.1.0"
    assert set(item) == {
        *("type", "stac_version", "stac_extensions", "id", "collection", "geometry", "bbox"),
        *("properties", "assets", "links"),
    }
    properties = item["properties"]
    times = [properties["datetime"]]
    if "start_datetime" in properties or "end_datetime" in properties:
        times = [properties["start_datetime"], *times, properties["end_datetime"]]
    assert times == sorted(times)
    assert all(datetime.fromisoformat(each).tzinfo == UTC for each in times)
    west, south, east, north = item["bbox"]
    assert south <= north
    assert (item["geometry"]["type"] == "MultiPolygon") == (west > east)
    relations = {each["rel"]: each["href"] for each in item["links"]}
    assert relations["collection"] == relations["parent"] == "../collection.json"
    # STAC allows only a full address as `self`, and where an item is served is not known.
    assert "self" not in relations
    assert relations[PROVENANCE_REL] == f"./{item['id']}.prov.jsonld"
    for asset in item["assets"].values():
        assert asset["href"].startswith("s3://")
        assert asset["alternate"]["https"]["href"].startswith("https://")
        assert asset["storage:refs"] == list(properties["storage:schemes"])


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_item_has_what_stac_requires(name: str) -> None:
    """Required members, times in order, a box that fits the geometry, links and assets."""
    item = item_of(name)
    check_structure(item)
    addresses = [each.split("/")[3] for each in item["stac_extensions"]]
    assert addresses == DECLARED[name]


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_item_passes_the_core_schema(name: str) -> None:
    """STAC 1.1.0 core, with GeoJSON and common metadata, finds nothing."""
    assert schemas.core_errors(item_of(name)) == []


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_item_passes_the_extensions_that_it_declares(name: str) -> None:
    """Each declared extension's published schema, in the declared version, finds nothing."""
    item = item_of(name)
    found = {
        each: schemas.extension_errors(item, each)
        for each in item["stac_extensions"]
        if each != ALTERNATE  # not among the published schemas; its rules are checked above
    }
    assert {each: errors for each, errors in found.items() if errors} == {}
    assert len(found) == len(DECLARED[name]) - 1


def test_the_schemas_find_a_broken_item() -> None:
    """The two tests before this one can fail."""
    item = item_of("hrrr")
    del item["properties"]["datetime"]
    assert schemas.core_errors(item) != []
    del item["properties"]["forecast:reference_datetime"]
    address = "https://stac-extensions.github.io/forecast/v0.2.0/schema.json"
    assert schemas.extension_errors(item, address) != []


def test_an_item_across_the_antimeridian_passes_too() -> None:
    """GOES-18 sees both sides of 180 degrees: west is greater than east in its bbox."""
    item = item_of("goes-glm", match=scene.glm(groups={"satellite": "18", "environment": "OR"}))
    check_structure(item)
    assert item["bbox"] == [156.44, -66.56, -70.44, 66.56]
    assert item["geometry"]["type"] == "MultiPolygon"
    assert schemas.core_errors(item) == []


def test_times_of_an_observation_and_of_a_forecast() -> None:
    """An observation has its middle and its range, a forecast its valid time and its run."""
    glm, hrrr = item_of("goes-glm")["properties"], item_of("hrrr")["properties"]
    assert glm["datetime"] == "2025-04-07T13:00:30.000000Z"
    assert glm["start_datetime"] == "2025-04-07T13:00:20.000000Z"
    assert glm["end_datetime"] == "2025-04-07T13:00:40.000000Z"
    assert hrrr["datetime"] == "2024-05-10T14:00:00.000000Z"
    assert "start_datetime" not in hrrr
    assert hrrr["forecast:reference_datetime"] == "2024-05-10T12:00:00.000000Z"
    assert hrrr["forecast:horizon"] == "PT2H"
    assert "forecast:reference_time" not in hrrr


def test_a_sidecar_follows_the_rule_of_the_dataset() -> None:
    """The index beside every forecast is an asset, whether or not it was seen."""
    index = item_of("hrrr")["assets"]["index"]
    assert index["href"] == f"s3://noaa-hrrr-bdp-pds/{scene.HRRR_KEY}.idx"
    assert index["alternate"]["https"]["href"] == (
        f"https://noaa-hrrr-bdp-pds.s3.amazonaws.com/{scene.HRRR_KEY}.idx"
    )
    assert (index["type"], index["roles"]) == ("text/plain", ["metadata"])
    assert "file:size" not in index


@pytest.mark.parametrize(
    ("etag", "checksum"),
    [
        # multihash: varint of 0xd5 (MD5) is d5 01, then 16 bytes.
        (scene.MD5, "d501109e107d9d372bb6826bd81d3542a419d6"),
        (f'"{scene.MD5.upper()}"', None),
        (f"{scene.MD5}-3", None),
        ("0x8DB369315269B01", None),
        (None, None),
    ],
)
def test_only_an_md5_is_given_as_a_checksum(etag: str | None, checksum: str | None) -> None:
    """An etag of another kind is not the checksum of the content."""
    assert multihash(etag) == checksum


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        (scene.MD5.upper(), scene.MD5),
        ('"abc-3"', "abc-3"),
        ('W/"abc"', "abc"),
        ("0x8DB369315269B01", "0x8DB369315269B01"),
        ("", None),
        (None, None),
        ('""', None),
    ],
)
def test_an_etag_has_one_spelling(raw: str | None, plain: str | None) -> None:
    """Quotes, the weak mark and the case of an MD5 say nothing of the object."""
    assert plain_etag(raw) == plain


def test_a_quoted_etag_gives_the_same_item() -> None:
    """Stores that quote their etags and stores that do not describe the same object."""
    assert item_of("goes-glm", etag=f'"{scene.MD5.upper()}"') == item_of("goes-glm")


def test_what_is_not_known_is_not_claimed() -> None:
    """Without etag and size the asset has no checksum and no size."""
    match = scene.glm()
    data = item_of("goes-glm", match=match, etag=None, size=None)["assets"]["data"]
    assert not {"file:size", "file:checksum"} & set(data)


def test_a_strange_key_stands_encoded_in_its_https_address() -> None:
    """The object URI is kept as the store knows it; the web address is a valid one."""
    body = build_item(
        dataset=scene.dataset(),
        item_id="odd id",
        source=SourceObject(
            uri="s3://my.bucket/a b/ü+%2B?.nc",
            provider="aws",
            bucket="my.bucket",
            key="a b/ü+%2B?.nc",
        ),
        description=Description(
            start=scene.STARTED, end=scene.STARTED, instant=scene.STARTED, box=(0.0, 0.0, 1.0, 1.0)
        ),
    )
    item = json.loads(body)
    data = item["assets"]["data"]
    assert data["href"] == "s3://my.bucket/a b/ü+%2B?.nc"
    assert data["alternate"]["https"]["href"] == (
        "https://s3.amazonaws.com/my.bucket/a%20b/%C3%BC%2B%252B%3F.nc"
    )
    assert {
        "rel": PROVENANCE_REL,
        "href": "./odd%20id.prov.jsonld",
        "type": "application/ld+json",
    } in item["links"]


def test_two_datasets_of_one_name_do_not_mix() -> None:
    """What is kept for a dataset belongs to that very description, not to its id."""
    titles = set()
    for number in range(50):
        match = scene.glm(dataset=scene.dataset(title=f"title {number}"))
        titles.add(item_of("goes-glm", match=match)["assets"]["data"]["title"])
    assert len(titles) == 50

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.stac.collections import build_collection
from tallgrass.stac.extent import Extent, Sides, with_extent
from tallgrass.stac.summarised import summarised
from tests.operators import scene
from tests.stac import schemas

if TYPE_CHECKING:
    from tallgrass.datasets.definition import Dataset


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_collection_passes_core_and_extensions(name: str) -> None:
    """STAC core and each declared extension find nothing in a dataset's collection."""
    collection = json.loads(build_collection(scene.MATCHES[name][0]().dataset))
    assert schemas.core_errors(collection) == []
    assert [
        error
        for address in collection["stac_extensions"]
        for error in schemas.extension_errors(collection, address)
    ] == []


def test_a_collection_says_what_its_dataset_says() -> None:
    """Id, licence, providers, summaries and asset definitions come from the dataset's file."""
    collection = json.loads(build_collection(scene.hrrr().dataset))
    assert (collection["id"], collection["license"]) == ("hrrr", "other")
    terms = [each["href"] for each in collection["links"] if each["rel"] == "license"]
    assert terms == ["https://www.noaa.gov/nodd"]
    assert [each["name"] for each in collection["providers"]] == ["NOAA", "Amazon Web Services"]
    assert collection["summaries"] == {"gsd": [3000]}
    assert set(collection["item_assets"]) == {"data", "index"}
    assert collection["extent"]["spatial"]["bbox"] == [[-134.13, 21.12, -60.89, 52.63]]
    assert collection["extent"]["temporal"]["interval"] == [[None, None]]


def test_places_on_both_sides_of_the_antimeridian_go_all_round() -> None:
    """One box holds every place that the dataset knows."""
    collection = json.loads(build_collection(scene.dataset()))
    assert collection["extent"]["spatial"]["bbox"] == [[-180.0, -66.56, 180.0, 66.56]]


def test_known_extents_are_taken() -> None:
    """Box and interval of the items replace those of the dataset's file, which has no times."""
    plain = build_collection(scene.dataset())
    assert json.loads(plain)["extent"]["temporal"] == {"interval": [[None, None]]}
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    body = with_extent(plain, Extent(items=1, box=(1.0, 2.0, 3.0, 4.0), start=start, end=end))
    extent = json.loads(body)["extent"]
    assert extent["spatial"]["bbox"] == [[1.0, 2.0, 3.0, 4.0]]
    assert extent["temporal"]["interval"] == [
        ["2020-01-01T00:00:00.000000Z", "2020-01-02T00:00:00.000000Z"]
    ]


def licensed(**rules: Any) -> Dataset:
    """Return a dataset under a licence of its own."""
    dataset = scene.dataset()
    return replace(dataset, item=replace(dataset.item, **rules))


def test_a_dataset_may_have_a_licence_of_its_own() -> None:
    """An SPDX id needs no link; another licence has the address where it can be read."""
    spdx = json.loads(build_collection(licensed(license="CC-BY-4.0")))
    assert spdx["license"] == "CC-BY-4.0"
    assert [each for each in spdx["links"] if each["rel"] == "license"] == []
    other = json.loads(
        build_collection(licensed(license="other", license_url="https://example.org/terms"))
    )
    terms = [each["href"] for each in other["links"] if each["rel"] == "license"]
    assert (other["license"], terms) == ("other", ["https://example.org/terms"])
    assert schemas.core_errors(spdx) == schemas.core_errors(other) == []


def test_every_host_of_a_dataset_is_told() -> None:
    """Clouds that keep copies are hosts too."""
    collection = json.loads(build_collection(default_catalogue().named("hrrr")))
    hosts = [each["name"] for each in collection["providers"] if "host" in each["roles"]]
    assert hosts == ["Amazon Web Services", "Google Cloud", "Microsoft Azure"]


def test_a_collection_of_radars_spans_their_circles() -> None:
    """Guam, the Azores and Alaska are in the box before any item is."""
    collection = json.loads(build_collection(default_catalogue().named("nexrad-l2")))
    west, south, east, north = collection["extent"]["spatial"]["bbox"][0]
    # Nome and Guam, 460 km from 165.295 W at 64.51 N and 144.81 E at 13.455 N.
    assert (west, east) == pytest.approx((-174.95, 149.07), abs=0.02)
    assert (south, north) == pytest.approx((9.31, 69.18), abs=0.02)


def test_instruments_of_both_networks_are_told() -> None:
    """What only some items have instead of the common value is in the summary too."""
    collection = json.loads(build_collection(default_catalogue().named("nexrad-l3")))
    assert collection["summaries"]["instruments"] == ["tdwr", "wsr-88d"]


def test_numbers_of_volumes_and_chunks_are_no_summary() -> None:
    """A property with another value in nearly each item is not summarised."""
    names = summarised(default_catalogue().named("nexrad-l2-chunks"))
    assert {"nexrad:part", "nexrad:vcp", "platform"} <= names
    assert not {"nexrad:chunk", "nexrad:volume"} & names


@pytest.mark.parametrize(
    ("sides", "box"),
    [
        # Only crossing ones: the box crosses too.
        ((None, None, 170.0, -170.0), (170.0, -1.0, -170.0, 1.0)),
        # One that crosses and others: the wider gap between them stays outside.
        ((-100.0, -90.0, 170.0, -170.0), (170.0, -1.0, -90.0, 1.0)),
        ((90.0, 100.0, 170.0, -170.0), (90.0, -1.0, -170.0, 1.0)),
        # The lightning seen from west and east; one inside the other; an end inside the other.
        ((-141.56, -8.44, 156.44, -70.44), (156.44, -1.0, -8.44, 1.0)),
        ((-179.0, -175.0, 170.0, -170.0), (170.0, -1.0, -170.0, 1.0)),
        ((175.0, 179.0, 170.0, -170.0), (170.0, -1.0, -170.0, 1.0)),
        ((160.0, 175.0, 170.0, -170.0), (160.0, -1.0, -170.0, 1.0)),
        # Nothing is left outside.
        ((-175.0, 175.0, 170.0, -170.0), (-180.0, -1.0, 180.0, 1.0)),
        ((-100.0, -90.0, 10.0, 20.0), (-180.0, -1.0, 180.0, 1.0)),
        ((-100.0, -90.0, None, None), (-100.0, -1.0, -90.0, 1.0)),
        # Crossing ones that together go all round.
        ((None, None, 10.0, 20.0), (-180.0, -1.0, 180.0, 1.0)),
    ],
)
def test_an_extent_holds_boxes_across_the_antimeridian(
    sides: tuple[float | None, ...], box: tuple[float, ...]
) -> None:
    """The box around all items is the smallest that is sure to hold each of them."""
    west, east, crossing_west, crossing_east = sides
    found = Sides(
        south=-1.0,
        north=1.0,
        west=west,
        east=east,
        crossing_west=crossing_west,
        crossing_east=crossing_east,
    )
    assert found.around() == box


def test_items_without_a_place_widen_time_alone() -> None:
    """The collection keeps the box of its dataset's file, and gets the items' times."""
    times = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    plain = build_collection(scene.dataset())
    body = with_extent(plain, Extent(items=1, box=None, start=times[0], end=times[1]))
    before, after = (json.loads(each)["extent"] for each in (plain, body))
    assert after["spatial"] == before["spatial"]
    assert after["temporal"]["interval"] == [
        ["2020-01-01T00:00:00.000000Z", "2020-01-02T00:00:00.000000Z"]
    ]
    assert schemas.core_errors(json.loads(body)) == []

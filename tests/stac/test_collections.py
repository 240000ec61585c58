from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tallgrass.stac.collections import build_collection
from tests.operators import scene
from tests.stac import schemas


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
    assert (collection["id"], collection["license"]) == ("hrrr", "CC0-1.0")
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
    """Box and interval of the items so far replace those of the dataset's file."""
    body = build_collection(
        scene.dataset(),
        box=(1.0, 2.0, 3.0, 4.0),
        interval=(datetime(2020, 1, 1, tzinfo=UTC), None),
    )
    extent = json.loads(body)["extent"]
    assert extent["spatial"]["bbox"] == [[1.0, 2.0, 3.0, 4.0]]
    assert extent["temporal"]["interval"] == [["2020-01-01T00:00:00.000000Z", None]]

from __future__ import annotations

import json
from typing import Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.stac.collections import build_collection
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.stac import schemas

ALTERNATE = "https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json"
OBJECTS = [
    ("noaa-goes19", scene.GLM_KEY),
    ("noaa-goes18", scene.GLM_KEY.replace("_G19_", "_G18_")),
    ("unidata-nexrad-level2", scene.NEXRAD_KEY),
    ("noaa-nexrad-level2", "1991/06/05/KTLX/KTLX19910605_162126.gz"),
    ("noaa-hrrr-bdp-pds", scene.HRRR_KEY),
    ("noaa-hrrr-bdp-pds", "hrrr.20240228/alaska/hrrr.t18z.wrfprsf48.ak.grib2"),
]


def documents(bucket: str, key: str) -> tuple[Any, Any]:
    """Return item and collection of an object, by the shipped dataset file."""
    match = default_catalogue().route("aws", bucket, key)
    assert isinstance(match, KeyMatch)
    result = run_chain(scene.claim(match, key), match, scene.evidence(), None, scene.context())
    assert result.effects.item is not None, result.outcome.error_message
    return json.loads(result.effects.item.body), json.loads(build_collection(match.dataset))


@pytest.mark.parametrize(("bucket", "key"), OBJECTS)
def test_shipped_datasets_make_items_and_collections_of_stac_core(bucket: str, key: str) -> None:
    """STAC core finds nothing in what the shipped dataset files lead to."""
    for document in documents(bucket, key):
        assert schemas.core_errors(document) == []


@pytest.mark.parametrize(("bucket", "key"), OBJECTS)
def test_shipped_datasets_keep_the_rules_of_their_extensions(bucket: str, key: str) -> None:
    """Each declared extension's published schema finds nothing either."""
    for document in documents(bucket, key):
        for address in document["stac_extensions"]:
            if address != ALTERNATE:
                assert schemas.extension_errors(document, address) == [], address

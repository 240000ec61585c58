"""Each shipped dataset file makes valid STAC of the keys that it gives as examples."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch, read_key
from tallgrass.datasets.loader import load_with_examples
from tallgrass.stac.collections import build_collection
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.stac import schemas

ALTERNATE = "https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json"
GENERIC_KEY = "some folder/file.nc"
IDS = [each.id for each in default_catalogue().datasets]


@cache
def documents(dataset_id: str) -> list[Any]:
    """Return the collection and an item of each example, by the shipped file."""
    file = files("tallgrass.datasets").joinpath("files", f"{dataset_id}.toml")
    dataset, examples = load_with_examples(file.read_text(encoding="utf-8"), file.name)
    keys = [each.key for each in examples if "ignored" not in each.found] or [GENERIC_KEY]
    return [json.loads(build_collection(dataset)), *(item(read_key(dataset, k), k) for k in keys)]


def item(match: Any, key: str, header: dict[str, object] | None = None) -> Any:
    """Return the item of a unit whose header tells nothing, or what is given."""
    assert isinstance(match, KeyMatch)
    read = scene.evidence(header=header or {})
    result = run_chain(scene.claim(match, key), match, read, None, scene.context())
    assert result.effects.item is not None, result.outcome.error_message
    return json.loads(result.effects.item.body)


@pytest.mark.parametrize("dataset_id", IDS)
def test_items_and_collection_keep_stac_core(dataset_id: str) -> None:
    """STAC core finds nothing in collection and items."""
    for document in documents(dataset_id):
        assert schemas.core_errors(document) == []


def test_items_keep_the_rules_of_their_extensions() -> None:
    """Each declared extension's published schema finds nothing in any of them."""
    found = [
        (document["id"], address, errors)
        for dataset_id in IDS
        for document in documents(dataset_id)
        for address in document["stac_extensions"]
        if address != ALTERNATE and (errors := schemas.extension_errors(document, address))
    ]
    assert found == []


def routed(bucket: str, key: str, header: dict[str, object] | None = None) -> Any:
    """Return the item of an object of a shipped dataset."""
    return item(default_catalogue().route("aws", bucket, key), key, header)


def test_a_generic_unit_has_neither_place_nor_time() -> None:
    """Its geometry is null, it has no bbox, and it says that its time stands for none."""
    found = routed("noaa-wod-pds", GENERIC_KEY)
    assert found["geometry"] is None
    assert "bbox" not in found
    assert found["properties"]["datetime"] == "1970-01-01T00:00:00.000000Z"
    assert found["properties"]["kfm:time_in_key"] is False
    assert found["assets"]["data"]["type"] == "application/netcdf"
    assert schemas.core_errors(found) == []


def test_what_the_file_tells_goes_to_a_generic_item() -> None:
    """Times and place that a header gives stand in the item, whatever the key lacks."""
    header: dict[str, object] = {
        "start": "2024-02-29T00:00:00Z",
        "end": "2024-02-29T06:00:00Z",
        "bbox": [-10.0, -5.0, 10.0, 5.0],
    }
    found = routed("noaa-wod-pds", GENERIC_KEY, header)
    assert found["bbox"] == [-10.0, -5.0, 10.0, 5.0]
    assert found["properties"]["datetime"] == "2024-02-29T03:00:00.000000Z"
    assert found["properties"]["start_datetime"] == "2024-02-29T00:00:00.000000Z"


def test_the_ending_of_a_key_decides_the_media_type() -> None:
    """The longest ending that fits; another one has the dataset's own type."""
    types = {
        key: routed("noaa-goes19", key)["assets"]["data"]["type"]
        for key in (
            "SUVI-L1b-Fe171/2025/097/13/OR_SUVI-L1b-Fe171_G19_s20250971300207_e20250971300217_c20250971300412.nc",
            "SUVI-L1b-Fe171/2025/097/13/OR_SUVI-L1b-Fe171_G19_s20250971300207_e20250971300217_c20250971300412.fits",
            "SUVI-L1b-Fe171/2025/097/13/OR_SUVI-L1b-Fe171_G19_s20250971300207_e20250971300217_c20250971300412.fits.gz",
        )
    }
    assert list(types.values()) == ["application/netcdf", "application/fits", "application/gzip"]


def test_a_sum_of_precipitation_spans_the_hours_before_its_stamp() -> None:
    """Its item ends at the stamp and is known by it; the unit itself starts there."""
    found = routed(
        "noaa-mrms-pds",
        "CONUS/MultiSensor_QPE_24H_Pass2_00.00/20220301/"
        "MRMS_MultiSensor_QPE_24H_Pass2_00.00_20220301-110000.grib2.gz",
    )["properties"]
    assert found["datetime"] == found["end_datetime"] == "2022-03-01T11:00:00.000000Z"
    assert found["start_datetime"] == "2022-02-28T11:00:00.000000Z"
    assert (found["mrms:accumulation"], found["noaa_mrms_qpe:pass"]) == ("PT24H", 2)
    assert found["noaa_mrms_qpe:region"] == "CONUS"


def test_a_product_that_is_no_sum_has_one_time() -> None:
    """The stamp of any other mosaic is its time, and it is no precipitation estimate."""
    found = routed(
        "noaa-mrms-pds",
        "CONUS/PrecipFlag_00.00/20260219/MRMS_PrecipFlag_00.00_20260219-042400.grib2.gz",
    )["properties"]
    assert found["datetime"] == "2026-02-19T04:24:00.000000Z"
    assert "start_datetime" not in found
    assert not [name for name in found if name.startswith("noaa_mrms_qpe:")]


def test_an_hour_before_its_run_has_no_horizon() -> None:
    """ISO 8601 knows no negative duration; the run itself is told."""
    found = routed(
        "noaa-nwm-pds",
        "nwm.20250101/analysis_assim/nwm.t00z.analysis_assim.channel_rt.tm02.conus.nc",
    )["properties"]
    assert found["datetime"] == "2024-12-31T22:00:00.000000Z"
    assert found["forecast:reference_datetime"] == "2025-01-01T00:00:00.000000Z"
    assert "forecast:horizon" not in found


def test_sectors_of_abi_are_told_apart() -> None:
    """Scene, sector and mode come from the key, in the words of the extension."""
    tail = "-M6C03_G17_s20192180138575_e20192180139033_c20192180139080.nc"
    meso = routed("noaa-goes17", f"ABI-L1b-RadM/2019/218/01/OR_ABI-L1b-RadM2{tail}")["properties"]
    disk = routed("noaa-goes17", f"ABI-L1b-RadF/2019/218/01/OR_ABI-L1b-RadF{tail}")["properties"]
    assert (meso["goes:image_type"], meso["goes:mesoscale_image_number"]) == ("MESOSCALE", 2)
    assert disk["goes:image_type"] == "FULL DISK"
    assert "goes:mesoscale_image_number" not in disk
    assert (meso["platform"], meso["abi:band"], meso["goes:mode"]) == ("goes-17", "03", "6")

"""Real files under keys that are not theirs: sound in themselves, and found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.metadata_extract import metadata_extract
from tests.evidence.real_files import chunks, content
from tests.operators import scene
from tests.stac.real_items import tried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABI = "goes-abi/OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
GLM = "goes-glm/OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
GLM_KEY = "noaa-goes{0}/GLM-L2-LCFA/{1}/OR_GLM-L2-LCFA_G{0}_s{2}_e{3}_c{3}.nc"
ABI_KEY = "noaa-goes{0}/ABI-L2-{1}/{2}/OR_ABI-L2-{3}-M6_G{0}_s{4}_e{5}_c{5}.nc"
NBM = "nbm/blend.t00z.core.f001.tmp.co.grib2"
NBM_KEY = "noaa-nbm-grib2-pds/blend.20250901/00/core/blend.t00z.core.f{}.grib2"
MRMS = "mrms/CONUS/MRMS_PrecipFlag_00.00_20260219-042400.grib2.gz"
MRMS_KEY = "noaa-mrms-pds/{0}/PrecipFlag_00.00/20260219/MRMS_PrecipFlag_00.00_20260219-{1}.grib2.gz"
LEVEL2 = "nexrad-l2/KDMX20250101_225441_V06"
LEVEL2_KEY = "unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_{}_V06"
LEVEL3 = "nexrad-l3/KOUN_SDUS54_N0QTLX_201305202016"
LEVEL3_KEY = "unidata-nexrad-level3/TLX_{}_2013_05_20_{}"
NWM_KEY = "noaa-nwm-pds/nwm.20220101/short_range/nwm.t00z.short_range.land.f001.conus.nc"

TIME, WHAT = "invalid_time_range", "incomplete_product_metadata"
GLM_TIMES = ("2025/097/13", "20250971300200", "20250971300400")
ABI_TIMES = ("2021/138/17", "20211381700538", "20211381700595")

#: File, key, and the codes of what is wrong with the pair.
PAIRS: list[tuple[str, str, list[str]]] = [
    (GLM, GLM_KEY.format("19", *GLM_TIMES), []),
    (GLM, GLM_KEY.format("18", *GLM_TIMES), [WHAT]),
    (GLM, GLM_KEY.format("16", *GLM_TIMES), [WHAT]),
    (GLM, GLM_KEY.format("19", "2025/097/14", "20250971400200", "20250971400400"), [TIME]),
    (GLM, GLM_KEY.format("19", "2025/097/13", "20250971300200", "20250971300450"), [TIME]),
    (GLM, ABI_KEY.format("19", "LSTM", "2025/097/13", "LSTM2", *GLM_TIMES[1:]), [WHAT]),
    (ABI, ABI_KEY.format("16", "LSTM", "2021/138/17", "LSTM2", *ABI_TIMES[1:]), []),
    (ABI, ABI_KEY.format("16", "ACMM", "2021/138/17", "ACMM2", *ABI_TIMES[1:]), [WHAT]),
    (ABI, ABI_KEY.format("16", "LSTC", "2021/138/17", "LSTC", *ABI_TIMES[1:]), [WHAT]),
    (ABI, GLM_KEY.format("16", *ABI_TIMES), [WHAT]),
    (NBM, NBM_KEY.format("001.co"), []),
    (NBM, NBM_KEY.format("002.co"), [TIME]),
    (NBM, NBM_KEY.format("001.ak"), [WHAT]),
    (MRMS, MRMS_KEY.format("CONUS", "042400"), []),
    (MRMS, MRMS_KEY.format("CONUS", "042559"), []),
    (MRMS, MRMS_KEY.format("CONUS", "043400"), [TIME]),
    (MRMS, MRMS_KEY.format("HAWAII", "042400"), [WHAT]),
    (LEVEL2, LEVEL2_KEY.format("225441"), []),
    (LEVEL2, LEVEL2_KEY.format("235441"), [TIME]),
    (LEVEL2, LEVEL2_KEY.format("225841"), [TIME]),
    (LEVEL3, LEVEL3_KEY.format("N0Q", "20_16_43"), []),
    (LEVEL3, LEVEL3_KEY.format("N0B", "20_16_43"), [WHAT]),
    (LEVEL3, LEVEL3_KEY.format("N0Q", "21_16_43"), [TIME]),
    ("nclimgrid/prcp-202201-grd-scaled.nc", NWM_KEY, [WHAT]),
]


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return processes that read attributes."""
    made = Hdf5Children(1)
    yield made
    made.close()


def codes(trial: Any) -> list[str]:
    """Return what is wrong by the metadata, all of it suspect."""
    assert trial.integrity.status is CheckStatus.OK
    assert {each.severity.value for each in trial.metadata.issues} <= {"suspect"}
    return [each.code for each in trial.metadata.issues]


@pytest.mark.parametrize(("name", "place", "expected"), PAIRS, ids=[each[1] for each in PAIRS])
def test_a_file_under_a_wrong_key_is_found_out(
    tmp_path: Path, children: Hdf5Children, name: str, place: str, expected: list[str]
) -> None:
    """Times, satellite, instrument, product and place of key and file must agree."""
    assert codes(tried(tmp_path, place, content(name), children)) == expected


@pytest.mark.parametrize(
    ("number", "place", "expected"),
    [
        (0, "KLOT/901/20260328-201457-001-S", []),
        (0, "KLOT/902/20260328-201457-001-S", [WHAT]),
        (0, "KLOT/901/20260328-201457-001-I", [WHAT]),
        (1, "KLOT/901/20260328-201457-002-E", [WHAT]),
        (-1, "KLOT/901/20260328-201457-055-E", []),
        (-1, "KLOT/901/20260328-211457-055-E", [TIME]),
        (-1, "KLOT/901/20260328-194457-055-E", [TIME]),
    ],
)
def test_a_chunk_is_of_its_volume(
    tmp_path: Path, number: int, place: str, expected: list[str]
) -> None:
    """Number and time of the volume and the letter of the part stand in both."""
    data = list(chunks().values())[number]
    assert codes(tried(tmp_path, f"unidata-nexrad-level2-chunks/{place}", data)) == expected


@pytest.mark.parametrize(
    ("valid", "ok"),
    [
        ("2024-05-10T14:00:00Z", True),
        # Of steps of a quarter of an hour the last ones may be missing.
        ("2024-05-10T13:15:00Z", True),
        ("2024-05-10T13:00:00Z", False),
        ("2024-05-10T14:15:00Z", False),
        ("2024-05-10T15:00:00Z", False),
    ],
)
def test_a_forecast_is_for_the_step_of_its_key(valid: str, ok: bool) -> None:  # noqa: FBT001
    """The last time that the file is for is that of the key."""
    told = {"start": valid, "end": valid, "reference_time_significance": 1}
    report = metadata_extract(scene.hrrr(), scene.evidence(header=told)).report
    assert [each.code for each in report.issues] == ([] if ok else [TIME])


@pytest.mark.parametrize(
    ("valid", "ok"), [("2022-01-01T01:00:00Z", True), ("2022-01-01T02:00:00Z", False)]
)
def test_a_file_of_the_water_model_is_for_the_step_of_its_key(valid: str, ok: bool) -> None:  # noqa: FBT001
    """What the file calls its valid time is that of the key."""
    match = default_catalogue().route("aws", *NWM_KEY.split("/", 1))
    assert isinstance(match, KeyMatch)
    told = {"start": valid, "end": valid, "attributes": {"model_configuration": "short_range"}}
    report = metadata_extract(match, scene.evidence(header=told)).report
    assert [each.code for each in report.issues] == ([] if ok else [TIME])

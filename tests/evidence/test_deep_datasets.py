"""Real files under keys of their datasets: the shipped formats read them, and the chain passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.integrity_check import integrity_check
from tallgrass.operators.metadata_extract import metadata_extract
from tests.evidence.real_files import chunks, content
from tests.support.placed_objects import place_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The fifteen deep datasets.
FORMATS = {
    "goes-abi": FileFormat.HDF5,
    "goes-glm": FileFormat.NETCDF4_PLACE,
    "goes-suvi": FileFormat.BY_NAME_HEADER,
    "nexrad-l2": FileFormat.NEXRAD_LEVEL2,
    "nexrad-l2-chunks": FileFormat.NEXRAD_CHUNK,
    "nexrad-l3": FileFormat.NEXRAD_LEVEL3,
    "mrms": FileFormat.GRIB2_GRID,
    "hrrr": FileFormat.GRIB2_GRID,
    "gfs": FileFormat.BY_NAME,
    "gefs": FileFormat.GRIB2_GRID,
    "rap": FileFormat.GRIB2_GRID,
    "nbm-grib2": FileFormat.GRIB2_GRID,
    "nwm": FileFormat.HDF5,
    "jpss-viirs": FileFormat.BY_NAME,
    "ndfd": FileFormat.GRIB2_GRID,
}


@pytest.mark.parametrize("dataset", FORMATS)
def test_a_deep_dataset_has_its_format(dataset: str) -> None:
    """Each deep dataset names the format that reads it."""
    found = default_catalogue().dataset(dataset)
    assert found is not None
    assert found.format is FORMATS[dataset]


ABI = "OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
MRMS = "MRMS_MultiSensor_QPE_01H_Pass2_00.00_20220602-120000.grib2.gz"
#: Bucket and key → file, and some of what its evidence must hold: seen by eye, or published.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    f"noaa-goes16/ABI-L2-LSTM/2021/138/17/{ABI}": (
        f"goes-abi/{ABI}",
        {"start": "2021-05-18T17:00:53.800000Z", "bbox": [-109.177, 27.0607, -91.4505, 39.9108]},
    ),
    "unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_225441_V06": (
        "nexrad-l2/KDMX20250101_225441_V06",
        {"volume_time": "2025-01-01T22:54:41.879000Z", "complete": True},
    ),
    "unidata-nexrad-level3/TLX_N0Q_2013_05_20_20_16_43": (
        "nexrad-l3/KOUN_SDUS54_N0QTLX_201305202016",
        {"volume_time": "2013-05-20T20:16:43.000000Z", "message_code": 94},
    ),
    f"noaa-mrms-pds/CONUS/MultiSensor_QPE_01H_Pass2_00.00/20220602/{MRMS}": (
        f"mrms/CONUS/{MRMS}",
        {"compression": "gzip", "reference_time": "2022-06-02T12:00:00.000000Z", "messages": 1},
    ),
    "noaa-hrrr-bdp-pds/hrrr.20230722/conus/hrrr.t06z.wrfsfcf01.grib2": (
        "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
        {"reference_time": "2023-07-22T06:00:00.000000Z", "forecast_time_s": 3600},
    ),
    "noaa-gfs-bdp-pds/gfs.20260605/12/atmos/gfs.t12z.pgrb2.0p25.f023": (
        "gfs/gfs.t12z.pgrb2.0p25.f023-PV-TMP-missing.grib2",
        {"start": "2026-06-06T11:00:00.000000Z", "bbox": [-180.0, -90.0, 180.0, 90.0]},
    ),
    "noaa-gfs-bdp-pds/gfs.20230823/18/wave/gridded/gfswave.t18z.atlocn.0p16.f001.grib2": (
        "gfs/gfswave.t18z.atlocn.0p16.f001.grib2",
        {"messages": 19, "bbox": [-100.0, 0.0, -50.0, 55.0]},
    ),
    "noaa-gefs-pds/gefs.20250101/00/atmos/pgrb2ap5/gec00.t00z.pgrb2a.0p50.f003": (
        "gefs/gec00_20250101_00_soilw.grib",
        {"reference_time": "2025-01-01T00:00:00.000000Z", "forecast_time_s": 10800},
    ),
    "noaa-rap-pds/rap.20230910/rap.t00z.awp130pgrbf01.grib2": (
        "rap/rap.tsoil.gdt32769.grib2",
        {"start": "2023-09-10T01:00:00.000000Z"},
    ),
    "noaa-nbm-grib2-pds/blend.20250901/00/core/blend.t00z.core.f001.co.grib2": (
        "nbm/blend.t00z.core.f001.tmp.co.grib2",
        {"start": "2025-09-01T01:00:00.000000Z"},
    ),
    "noaa-ndfd-pds/wmo/temp/2025/02/06/YEUZ98_KWBN_202502060030": (
        "ndfd/ds.temp.bin",
        {"start": "2025-02-06T01:00:00.000000Z", "end": "2025-02-06T02:00:00.000000Z"},
    ),
    "noaa-ndfd-pds/wmo/mint/2008/02/21/YHAZ98_KWBN_200802211651": (
        "ndfd/ds.mint.bin",
        {"bulletin": "YHAZ98 KWBN 211651", "messages": 2},
    ),
    "unidata-nexrad-level2-chunks/KLOT/901/20260328-201457-001-S": (
        "001-S",
        {"part": "S", "volume_time": "2026-03-28T20:14:57.447000Z"},
    ),
    "unidata-nexrad-level2-chunks/KLOT/901/20260328-201457-055-E": ("055-E", {"part": "E"}),
}


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return one process that reads attributes."""
    made = Hdf5Children(1)
    yield made
    made.close()


@pytest.mark.parametrize("place", CASES)
def test_a_real_object_passes_the_checks(
    place: str, tmp_path: Path, children: Hdf5Children
) -> None:
    """A real file under its key is whole, is told by its header, and contradicts no key."""
    file, expected = CASES[place]
    data = chunks()[f"20260328-201457-{file}"] if file[:2] in {"00", "05"} else content(file)
    match, made, answer = place_object(tmp_path, place, data, children)
    assert isinstance(answer, Evidence)
    assert {name: answer.header.get(name) for name in expected} == expected
    assert integrity_check(made, match.dataset, answer).status is CheckStatus.OK
    assert metadata_extract(match, answer).report.issues == ()


@pytest.mark.parametrize("place", CASES)
@pytest.mark.parametrize("damage", ["cut", "zeroed"])
def test_a_damaged_object_never_passes(
    place: str, damage: str, tmp_path: Path, children: Hdf5Children
) -> None:
    """A real file that is cut or zeroed fails its check of integrity, whatever its dataset."""
    file, _ = CASES[place]
    data = chunks()[f"20260328-201457-{file}"] if file[:2] in {"00", "05"} else content(file)
    data = data[: len(data) * 2 // 3] if damage == "cut" else bytes(len(data))
    match, made, answer = place_object(tmp_path, place, data, children)
    assert integrity_check(made, match.dataset, answer).status is CheckStatus.FAILED

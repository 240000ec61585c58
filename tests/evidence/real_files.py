"""The real files that tests read, each with the format that its dataset names."""

from __future__ import annotations

import functools
import tarfile
from typing import TYPE_CHECKING

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.formats import format_by_name
from tests.datasets.noaa_data import noaa_data

if TYPE_CHECKING:
    from collections.abc import Callable

GRIB2, GRID = FileFormat.GRIB2, FileFormat.GRIB2_GRID
LEVEL2, CHUNK, LEVEL3 = FileFormat.NEXRAD_LEVEL2, FileFormat.NEXRAD_CHUNK, FileFormat.NEXRAD_LEVEL3

#: Folder → dataset, where it is not the folder's name.
DATASETS = {"goes-exis": "goes-space", "nbm": "nbm-grib2"}
#: A record alone, beside the volumes.
RECORD = "nexrad-l2/KDMX20220305_record_00.bin"


def format_of(name: str) -> FileFormat:
    """Return the format that the catalogue names for a file of this folder and name."""
    if name == RECORD:
        return CHUNK
    folder = name.split("/", 1)[0]
    dataset = default_catalogue().dataset(DATASETS.get(folder, folder))
    assert dataset is not None
    named = format_by_name(name) if dataset.format is FileFormat.BY_NAME else dataset.format
    assert named is not None, name
    return named


#: Sound files.
FILES = {
    name: format_of(name)
    for name in (
        "goes-abi/OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc",
        "goes-exis/sci_xrsf-l2-flx1s_g17_d20201016_truncated.nc",
        "goes-glm/OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc",
        "nclimgrid/prcp-202201-grd-scaled.nc",
        "gefs/gec00_20250101_00_soilw.grib",
        "gfs/gfs.t06z.pgrb2.10p0.f010.grib2",
        "gfs/gfs.t12z.pgrb2.0p25.f023-PV-TMP-missing.grib2",
        "gfs/gfswave.t18z.atlocn.0p16.f001.grib2",
        "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
        "hrrr/hrrr.wrfsubhf.sample.grib2",
        "mrms/ALASKA/MRMS_MultiSensor_QPE_01H_Pass1_00.00_20221024-015800.grib2.gz",
        "mrms/CONUS/MRMS_EchoTop_18_00.50_20161015-133230.grib2",
        "mrms/CONUS/MRMS_MultiSensor_QPE_01H_Pass2_00.00_20220602-120000.grib2.gz",
        "mrms/CONUS/MRMS_PrecipFlag_00.00_20260219-042400.grib2.gz",
        "mrms/CONUS/MRMS_ReflectivityAtLowestAltitude_00.50_20230406-120039.grib2.gz",
        "nbm/blend.t00z.core.f001.tmp.co.grib2",
        "ndfd/ds.mint.bin",
        "ndfd/ds.temp.bin",
        "rap/rap.tsoil.gdt32769.grib2",
        "nexrad-l2/KDMX20250101_225441_V06",
        "nexrad-l2/Level2_KFTG_20150430_1419.ar2v",
        "nexrad-l2/KTLX20100501_000444_V03.gz",
        "nexrad-l2/KLTX20050329_100015.gz",
        "nexrad-l2/KTLX19910605_162126.gz",
        "nexrad-l2/KDMX20220305_record_00.bin",
        "nexrad-l2-chunks/Level2_KLBB_single_chunk",
        "nexrad-l3/KOUN_NXUS64_GSMTLX_201305202100",
        "nexrad-l3/KOUN_SDUS34_NVWTLX_201305202016",
        "nexrad-l3/KOUN_SDUS54_N0QTLX_201305202016",
        "nexrad-l3/KOUN_SDUS64_NHITLX_201305202016",
        "nexrad-l3/KOUN_SDUS84_DPRTLX_201305202016",
        "nexrad-l3/Level3_MCI_TZL_20160526_2154.nids",
    )
}


@functools.lru_cache(maxsize=4)
def content(name: str) -> bytes:
    """Return a real file's bytes, or skip."""
    return noaa_data(*name.split("/")).read_bytes()


@functools.lru_cache(maxsize=1)
def chunks() -> dict[str, bytes]:
    """Return the 55 chunks of one volume, by the last part of their key, in order."""
    with tarfile.open(noaa_data("nexrad-l2-chunks", "nexrad_level2_chunks_KLOT.tar.gz")) as archive:
        files = {
            member.name.rsplit("/", 1)[-1]: file.read()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }
    return dict(sorted(files.items()))


def cuts(data: bytes) -> list[int]:
    """Return twenty lengths below that of the file, from nearly nothing to nearly everything."""
    size = len(data)
    near_start = [1, 3, 7, 15, 23, 29, 63]
    between = [size * part // 97 for part in (1, 7, 19, 31, 43, 59, 71, 83, 96)]
    near_end = [size - 1025, size - 12, size - 4, size - 1]
    return sorted({length for length in near_start + between + near_end if 0 < length < size})


def damages(data: bytes) -> dict[str, Callable[[], bytes]]:
    """Return ways to damage a file so that nothing whole is left of it."""
    return {
        "zeroed": lambda: bytes(len(data)),
        "first half zeroed": lambda: bytes(len(data) // 2) + data[len(data) // 2 :],
        "magic inverted": lambda: bytes(byte ^ 0xFF for byte in data[:4]) + data[4:],
        "first byte flipped": lambda: bytes([data[0] ^ 0x01]) + data[1:],
        "second byte flipped": lambda: data[:1] + bytes([data[1] ^ 0x80]) + data[2:],
        "header inverted": lambda: bytes(byte ^ 0xFF for byte in data[:64]) + data[64:],
        "moved by a byte": lambda: b"\n" + data,
        "rubbish behind it": lambda: data + b"rubbish",
        "text": lambda: b"<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>",
    }

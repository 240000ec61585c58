"""An object of each deep dataset: a real file where there is one, else one of its structure."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import h5py

from tests.evidence.real_files import chunks, content

if TYPE_CHECKING:
    from collections.abc import Callable

_ABI = "OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
_GLM = "OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
_SUVI = "OR_SUVI-L1b-Fe171_G19_s20250971300207_e20250971300217_c20250971300412.nc"
_VIIRS = "JRR-CloudMask_v3r2_n21_s202604162301309_e202604162302556_c202604162344501.nc"
_MRMS = "MRMS_MultiSensor_QPE_01H_Pass2_00.00_20220602-120000.grib2.gz"
_NWM = "nwm.t16z.analysis_assim.channel_rt.tm00.conus.nc"


def _hdf5(**attributes: object) -> bytes:
    """Return a file that h5py wrote, with attributes and one variable."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="v108") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        file["numbers"] = list(range(50))
    return buffer.getvalue()


def _viirs() -> bytes:
    return _hdf5(
        time_coverage_start="2026-04-16T23:01:30Z",
        time_coverage_end="2026-04-16T23:02:55Z",
        platform="NOAA-21",
        geospatial_first_scanline_first_fov_lat=10.0,
        geospatial_first_scanline_first_fov_lon=20.0,
        geospatial_first_scanline_last_fov_lat=14.0,
        geospatial_first_scanline_last_fov_lon=-8.0,
        geospatial_last_scanline_last_fov_lat=9.0,
        geospatial_last_scanline_last_fov_lon=-9.0,
        geospatial_last_scanline_first_fov_lat=5.0,
        geospatial_last_scanline_first_fov_lon=18.5,
        geospatial_lat_min=5.0,
        geospatial_lat_max=14.0,
        geospatial_lon_min=-9.0,
        geospatial_lon_max=20.0,
    )


#: Dataset → bucket and key, and what makes the bytes.
OBJECTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "goes-abi": (
        f"noaa-goes16/ABI-L2-LSTM/2021/138/17/{_ABI}",
        lambda: content(f"goes-abi/{_ABI}"),
    ),
    "goes-glm": (
        f"noaa-goes19/GLM-L2-LCFA/2025/097/13/{_GLM}",
        lambda: content(f"goes-glm/{_GLM}"),
    ),
    "goes-suvi": (
        f"noaa-goes19/SUVI-L1b-Fe171/2025/097/13/{_SUVI}",
        lambda: _hdf5(
            DATE_OBS="2025-04-07T13:00:20.7", INSTRUME="GOES-R Series Solar Ultraviolet Imager"
        ),
    ),
    "nexrad-l2": (
        "unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_225441_V06",
        lambda: content("nexrad-l2/KDMX20250101_225441_V06"),
    ),
    "nexrad-l2-chunks": (
        "unidata-nexrad-level2-chunks/KLOT/901/20260328-201457-055-E",
        lambda: chunks()["20260328-201457-055-E"],
    ),
    "nexrad-l3": (
        "unidata-nexrad-level3/TLX_N0Q_2013_05_20_20_16_43",
        lambda: content("nexrad-l3/KOUN_SDUS54_N0QTLX_201305202016"),
    ),
    "mrms": (
        f"noaa-mrms-pds/CONUS/MultiSensor_QPE_01H_Pass2_00.00/20220602/{_MRMS}",
        lambda: content(f"mrms/CONUS/{_MRMS}"),
    ),
    "hrrr": (
        "noaa-hrrr-bdp-pds/hrrr.20230722/conus/hrrr.t06z.wrfsfcf01.grib2",
        lambda: content("hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2"),
    ),
    "gfs": (
        "noaa-gfs-bdp-pds/gfs.20260605/12/atmos/gfs.t12z.pgrb2.0p25.f023",
        lambda: content("gfs/gfs.t12z.pgrb2.0p25.f023-PV-TMP-missing.grib2"),
    ),
    "gefs": (
        "noaa-gefs-pds/gefs.20250101/00/atmos/pgrb2ap5/gec00.t00z.pgrb2a.0p50.f003",
        lambda: content("gefs/gec00_20250101_00_soilw.grib"),
    ),
    "rap": (
        "noaa-rap-pds/rap.20230910/rap.t00z.awp130pgrbf01.grib2",
        lambda: content("rap/rap.tsoil.gdt32769.grib2"),
    ),
    "nbm-grib2": (
        "noaa-nbm-grib2-pds/blend.20250901/00/core/blend.t00z.core.f001.co.grib2",
        lambda: content("nbm/blend.t00z.core.f001.tmp.co.grib2"),
    ),
    "nwm": (
        f"noaa-nwm-pds/nwm.20241029/analysis_assim/{_NWM}",
        lambda: _hdf5(
            TITLE="OUTPUT FROM NWM v3.0",
            model_initialization_time="2024-10-29_16:00:00",
            model_output_valid_time="2024-10-29_16:00:00",
        ),
    ),
    "jpss-viirs": (
        f"noaa-nesdis-n21-pds/VIIRS-JRR-CloudMask/2026/04/16/{_VIIRS}",
        _viirs,
    ),
    "ndfd": (
        "noaa-ndfd-pds/wmo/temp/2025/02/06/YEUZ98_KWBN_202502060030",
        lambda: content("ndfd/ds.temp.bin"),
    ),
}

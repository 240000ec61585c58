"""What a name and first bytes tell where a dataset has several formats, or none."""

from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.formats import format_by_name, read_seen
from tallgrass.evidence.header import Seen
from tests.evidence.samples import SOUND, grib2, hdf5, read


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("SUVI-L1b-Fe171/2026/152/00/OR_SUVI-L1b-Fe171_G19_s1_e2_c3.nc", "hdf5"),
        ("SUVI-L1b-Fe171/2026/152/00/OR_SUVI-L1b-Fe171_G19_s1_e2_c3.fits.gz", "fits"),
        ("VIIRS-M1-SDR/2020/09/11/SVM01_j01_d1_t2_e3_b4_c5_cspp_dev.h5", "hdf5"),
        ("gfs.20210607/12/atmos/gfs.t12z.pgrb2.0p25.f001", "grib2-grid"),
        ("gdas.20240229/00/atmos/gdas.t00z.pgrb2.0p25.anl", "grib2-grid"),
        ("gfs.20210607/12/atmos/gfs.t12z.pgrb2full.0p50.f384", "grib2-grid"),
        ("gfs.20230823/18/wave/gridded/gfswave.t18z.atlocn.0p16.f001.grib2", "grib2-grid"),
        ("rtma2p5.20240101/rtma2p5.t00z.2dvaranl_ndfd.grb2_wexp", "grib2-grid"),
        ("gfs.20210607/12/atmos/gfs.t12z.atmf003.nc", "hdf5"),
        ("blendv5.0/conus/a_2026-06-06T19:00.tif", "tiff"),
        ("gfs.20210607/12/atmos/gfs.t12z.syndata.tcvitals.tm00", None),
        ("gfs.20210607/12/atmos/gfs.t12z.prepbufr.nr", None),
        ("docs/nc", None),
        ("notes.ncml", None),
    ],
)
def test_a_name_tells_the_format(key: str, expected: str | None) -> None:
    """The end of a key names the format, also behind that of a wrapping."""
    assert format_by_name(f"s3://bucket/{key}") == expected


def test_a_name_that_tells_nothing_leaves_it_to_the_bytes() -> None:
    """By the first bytes a known format is read as such, anything else is only named."""
    by_name = FileFormat.BY_NAME
    assert read(by_name, hdf5()) == read(FileFormat.HDF5, hdf5())
    assert read(by_name, grib2()) == read(FileFormat.GRIB2_GRID, grib2())
    assert read(by_name, grib2()[:-1])[1] == ("size_too_small",)
    assert read(by_name, b"BUFR" + bytes(40)) == ({"magic": "bufr"}, ())
    assert read(by_name, b"no format at all") == ({}, ())


@pytest.mark.parametrize("name", sorted(SOUND))
def test_the_first_bytes_tell_what_a_file_is(name: str) -> None:
    """Without a format the kind of file is named, and nothing is judged, whole or not."""
    kinds = {"hdf5": "hdf5", "grib2": "grib2", "nexrad": "nexrad-level2", "tiff": "tiff"}
    kinds |= {"fits": "fits", "first chunk": "nexrad-level2", "old nexrad": "nexrad-level2"}
    data = SOUND[name][1]
    expected = next((kind for start, kind in kinds.items() if name.startswith(start)), None)
    if "gzipped" in name or "bzip2" in name:
        expected = "gzip" if "gzipped" in name else "bzip2"
    if "user block" in name or "bulletins" in name:
        expected = None
    if name in {"big tiff", "tiff of the other order"}:
        expected = "tiff"
    for part in (data, data[:40]):
        found = read_seen(None, Seen(part, part, len(part)))
        assert found == ({} if expected is None else {"magic": expected}, ())


def test_the_first_edition_of_grib_is_told_apart() -> None:
    """GRIB of edition 1 is another format."""
    assert read(FileFormat.BY_NAME, b"GRIB\0\1\2\1" + bytes(60)) == ({"magic": "grib1"}, ())

"""Real NOAA files, where they are to be had; h5py and ecCodes say what is in them."""

from __future__ import annotations

import eccodes
import h5py
import pytest

from tallgrass.datasets.definition import FileFormat
from tests.datasets.noaa_data import noaa_data
from tests.evidence.samples import read


def test_glm_files_end_where_h5py_says() -> None:
    """Each real lightning file is complete, with h5py's version and size."""
    for path in sorted(noaa_data("goes-glm").glob("*.nc")):
        with h5py.File(path) as file:
            version = file.id.get_create_plist().get_version()[0]
            size = file.id.get_filesize()
        assert read(FileFormat.NETCDF4, path.read_bytes()) == (
            {
                "format": "netcdf4",
                "superblock_version": version,
                "end_of_file": size,
                "complete": True,
            },
            (),
        )


#: name → volume number, volume time, site, compression, complete, issues; the times and which
#: volumes are complete are those of the published ground truth, the rest is seen by eye.
VOLUMES = {
    "KDMX20250101_225441_V06": (
        ("AR2V0006", 292, "2025-01-01T22:54:41.879000Z", "KDMX", "bzip2", True),
        (),
    ),
    "Level2_KFTG_20150430_1419.ar2v": (
        ("AR2V0006", 244, "2015-04-30T14:19:11.000000Z", "KFTG", "bzip2", True),
        (),
    ),
    "KJKL_20240227_102059": (
        ("AR2V0006", 160, "2024-02-27T10:20:59.293000Z", "KJKL", "bzip2", False),
        ("size_too_small",),
    ),
    "example_nexrad_archive_msg31_compressed.ar2v": (
        ("AR2V0006", 501, "2013-07-17T19:50:24.000000Z", "KATX", "bzip2", False),
        ("size_too_small",),
    ),
    "KTLX20100501_000444_V03.gz": (
        ("AR2V0003", 681, "2010-05-01T00:04:44.000000Z", "KTLX", "gzip", None),
        (),
    ),
    "KLTX20050329_100015.gz": (
        ("AR2V0001", 131, "2005-03-29T10:00:15.000000Z", "KLTX", "gzip", True),
        (),
    ),
    "KTLX19910605_162126.gz": (
        ("ARCHIVE2", 1, "1991-06-05T16:21:26.355000Z", None, "gzip", True),
        (),
    ),
}
FIELDS = ("version", "volume_number", "volume_time", "site", "compression", "complete")


@pytest.mark.parametrize("name", sorted(VOLUMES))
def test_radar_volumes_are_told(name: str) -> None:
    """Real radar volumes of four decades are read; the two that were cut are found."""
    data = noaa_data("nexrad-l2", name).read_bytes()
    header, issues = read(FileFormat.NEXRAD_LEVEL2, data)
    assert (tuple(header[field] for field in FIELDS), issues) == VOLUMES[name]


def test_a_record_without_a_volume_header_is_no_volume() -> None:
    """One record alone, as the chunks bucket has it, is not a volume."""
    data = noaa_data("nexrad-l2", "KDMX20220305_record_00.bin").read_bytes()
    assert read(FileFormat.NEXRAD_LEVEL2, data) == ({}, ("content_type_invalid",))


GRIB_KEYS = {
    "discipline": "discipline",
    "production_status": "productionStatusOfProcessedData",
    "reference_time_significance": "significanceOfReferenceTime",
}


@pytest.mark.parametrize(
    ("folder", "name", "issues"),
    [
        ("hrrr", "hrrr.t06z.wrfsfcf01-TMP.grib2", ()),
        ("hrrr", "hrrr.wrfsubhf.sample.grib2", ()),
        # Its messages were cut out one byte too long.
        ("hrrr", "hrrr_srad.grib2", ("size_too_large",)),
        ("gfs", "gfswave.t18z.atlocn.0p16.f001.grib2", ()),
        ("gfs", "gfs.t06z.pgrb2.10p0.f010.grib2", ()),
    ],
)
def test_forecasts_are_told_as_eccodes_does(
    folder: str, name: str, issues: tuple[str, ...]
) -> None:
    """The first message of a real forecast is described as ecCodes describes it."""
    path = noaa_data(folder, name)
    header, found = read(FileFormat.GRIB2, path.read_bytes())
    with path.open("rb") as file:
        many = eccodes.codes_count_in_file(file)
    with path.open("rb") as file:
        message = eccodes.codes_grib_new_from_file(file)

    def told(key: str, kind: type = int) -> object:
        return eccodes.codes_get(message, key, ktype=kind)

    for ours, theirs in GRIB_KEYS.items():
        assert header[ours] == told(theirs)
    assert header["centre"] == 7
    assert header["grid"] == {
        "template": told("gridDefinitionTemplateNumber"),
        "points": told("numberOfDataPoints"),
        "nx": told("Ni" if told("gridDefinitionTemplateNumber") == 0 else "Nx"),
        "ny": told("Nj" if told("gridDefinitionTemplateNumber") == 0 else "Ny"),
    }
    assert header["product"] == {
        "template": told("productDefinitionTemplateNumber"),
        "category": told("parameterCategory"),
        "number": told("parameterNumber"),
    }
    for ours, day, time in (
        ("reference_time", "dataDate", "dataTime"),
        ("valid_end", "validityDate", "validityTime"),
    ):
        date, clock = f"{told(day)}", f"{told(time):04}"
        expected = f"{date[:4]}-{date[4:6]}-{date[6:]}T{clock[:2]}:{clock[2:]}:00.000000Z"
        assert header[ours] == expected
    assert issues or header["messages"] in {many, None}
    assert found == issues
    eccodes.codes_release(message)

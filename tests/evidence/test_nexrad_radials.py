from __future__ import annotations

import bz2

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.real_files import content
from tests.evidence.samples import nexrad, read, read_near

RADIALS = FileFormat.NEXRAD_LEVEL2_RADIALS

#: The published ground truth: first radial, last radial, radials, pattern, latitude, longitude.
TRUTH = {
    "KDMX20250101_225441_V06": (
        "2025-01-01T22:54:41.879000Z", "2025-01-01T23:04:15.816000Z", 5040, 31, 41.7312, -93.7229,
    ),
    "Level2_KFTG_20150430_1419.ar2v": (
        "2015-04-30T14:19:10.269000Z", "2015-04-30T14:22:32.333000Z", 6480, 212, 39.7866, -104.5458,
    ),
    "KTLX20100501_000444_V03.gz": (
        "2010-05-01T00:04:41.440000Z", "2010-05-01T00:14:11.876000Z", 3960, 32, 35.3331, -97.2775,
    ),
    "KLTX20050329_100015.gz": (
        "2005-03-29T10:00:09.597000Z", "2005-03-29T10:05:51.357000Z", 4028, None, None, None,
    ),
    "KTLX19910605_162126.gz": (
        "1991-06-05T16:21:26.826000Z", "1991-06-05T16:27:08.346000Z", 4017, None, None, None,
    ),
}  # fmt: skip
FIELDS = ("start", "end", "radials", "pattern", "latitude", "longitude")


@pytest.mark.parametrize("name", TRUTH)
def test_radials_are_those_that_are_published(name: str) -> None:
    """First and last radial, their number, pattern and place are the known ones."""
    header, issues = read_near(RADIALS, content(f"nexrad-l2/{name}"))
    assert tuple(header.get(field) for field in FIELDS) == TRUTH[name]
    assert issues == ()


def test_from_afar_no_radial_is_read() -> None:
    """A volume that is not near is told by its header alone."""
    data = nexrad()
    header, issues = read(RADIALS, data)
    assert (header, issues) == read(FileFormat.NEXRAD_LEVEL2, data)
    assert "radials" not in header


def test_a_volume_that_is_not_whole_is_not_decompressed() -> None:
    """What is cut off is judged by its sizes, not by its radials."""
    header, issues = read_near(RADIALS, nexrad()[:-3])
    assert ("radials" in header, issues) == (False, ("size_too_small",))


def test_a_damaged_record_is_found() -> None:
    """A record whose block cannot be decompressed makes the volume no sound one."""
    data = bytearray(nexrad())
    data[50] ^= 0xFF
    with pytest.raises(OSError, match="Invalid data"):
        bz2.decompress(bytes(data[28 : 28 + int.from_bytes(data[24:28], "big")]))
    header, issues = read_near(RADIALS, bytes(data))
    assert (header["complete"], issues) == (False, ("content_type_invalid",))


def test_a_volume_without_radials_says_so() -> None:
    """A volume of metadata alone has no times but that of its header."""
    header, issues = read_near(RADIALS, nexrad())
    assert (header["radials"], "start" in header, issues) == (0, False, ())

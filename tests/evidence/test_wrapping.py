"""Files inside gzip and bzip2."""

from __future__ import annotations

import bz2
import gzip
import random
from typing import TYPE_CHECKING

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.samples import fits, grib2, hdf5, level3, read, read_near
from tests.evidence.test_grib2 import large

if TYPE_CHECKING:
    from collections.abc import Callable

GRIB2 = FileFormat.GRIB2
INSIDE = {
    "grib2": (FileFormat.GRIB2, grib2()),
    "hdf5": (FileFormat.HDF5, hdf5()),
    "level 3": (FileFormat.NEXRAD_LEVEL3, level3()),
    "fits": (FileFormat.FITS, fits()),
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize(
    ("pack", "compression"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2")]
)
def test_a_wrapped_file_is_told_as_it_is(
    name: str, pack: Callable[[bytes], bytes], compression: str
) -> None:
    """A file inside gzip or bzip2 is described as outside, and says what it was in."""
    file_format, data = INSIDE[name]
    header, issues = read(file_format, data)
    assert read(file_format, pack(data)) == ({**header, "compression": compression}, issues)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_wrapped_file_that_is_cut_inside_is_found(pack: Callable[[bytes], bytes]) -> None:
    """A whole wrapping around a file that is not whole is no sound file."""
    header, issues = read(GRIB2, pack(grib2()[:-1]))
    assert (header["complete"], issues) == (False, ("size_too_small",))


def test_several_messages_in_gzip_are_counted_when_near() -> None:
    """From afar one message must fill a gzip file; of one that is near all are seen."""
    packed = gzip.compress(large(1) + large(2))
    assert read(GRIB2, packed)[1] == ("size_too_small",)
    header, issues = read_near(GRIB2, packed)
    assert (header["messages"], header["steps_s"], issues) == (2, [[3600, 3600], [7200, 7200]], ())


def test_bytes_behind_gzip_are_found() -> None:
    """Rubbish behind the end of a gzip file makes it too large, where it can be read to there."""
    packed = gzip.compress(grib2()) + b"rubbish"
    assert read_near(GRIB2, packed)[1] == ("size_too_large",)
    assert read(GRIB2, packed)[1] == ("size_too_small",)


def test_a_long_bzip2_file_is_judged_by_its_ends() -> None:
    """Of a bzip2 file that is not short only the start and the mark at its end are looked at."""
    noise = random.Random(5).randbytes(300_000)
    packed = bz2.compress(noise)
    assert read_near(GRIB2, packed) == ({"compression": "bzip2", "complete": None}, ())
    assert read_near(GRIB2, packed[:-9])[1] == ("size_too_small",)


def test_something_else_in_a_wrapping_is_another_format() -> None:
    """What is inside decides, not the wrapping."""
    for pack in (gzip.compress, bz2.compress):
        assert read(GRIB2, pack(b"something else" * 50)) == ({}, ("content_type_invalid",))

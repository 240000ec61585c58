"""TIFF and FITS."""

from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.samples import fits, read, read_near, tiff

TIFF, FITS = FileFormat.TIFF, FileFormat.FITS


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("optimised", [False, True])
def test_an_image_is_told(order: str, *, big: bool, optimised: bool) -> None:
    """Size, bands and reference system are read in both byte orders, of both sizes of offsets."""
    assert read(TIFF, tiff(order=order, big=big, optimised=optimised)) == (
        {
            "format": "tiff",
            "cloud_optimised": optimised,
            "width": 64,
            "height": 48,
            "bands": 1,
            "epsg": 4326,
            "complete": True,
        },
        (),
    )


def test_tiles_beyond_the_head_are_looked_for_when_near() -> None:
    """A list of tiles that the head does not show leaves it open from afar, and is read if near."""
    data = tiff(tiles=700)
    assert read(TIFF, data)[0]["complete"] is None
    assert read_near(TIFF, data)[0]["complete"] is True
    assert read_near(TIFF, data[:-1])[1] == ("size_too_small",)


def test_a_directory_without_fields_is_damage() -> None:
    """A directory of no fields, or an image without width, is no image."""
    data = bytearray(tiff())
    data[8:10] = b"\0\0"
    assert read(TIFF, bytes(data))[1] == ("content_type_invalid",)
    data = bytearray(tiff())
    data[18:22] = bytes(4)
    assert read(TIFF, bytes(data))[1] == ("content_type_invalid",)


def test_an_image_of_the_sun_is_told() -> None:
    """Shape, times and instrument come from the cards; of two starts the first convention wins."""
    data = fits(
        "DATE-OBS= '2026-06-01T12:00:00.5' / start",
        "DATE-END= '2026-06-01T12:00:01.5'",
        "TELESCOP= 'GOES-19 '",
        "INSTRUME= 'GOES-R Series Solar Ultraviolet Imager'",
    )
    assert read(FITS, data) == (
        {
            "format": "fits",
            "shape": [30, 40],
            "telescope": "GOES-19",
            "instrument": "GOES-R Series Solar Ultraviolet Imager",
            "start": "2026-06-01T12:00:00.500000Z",
            "end": "2026-06-01T12:00:01.500000Z",
            "complete": True,
        },
        (),
    )


def test_a_long_header_is_read_to_its_end() -> None:
    """A header of several blocks is followed when near, and left open from afar."""
    data = fits(*(f"KEY{number:05}= {number:20}" for number in range(150)))
    assert read(FITS, data)[0]["complete"] is None
    assert read_near(FITS, data)[0]["complete"] is True
    assert read_near(FITS, data[:-2880])[1] == ("size_too_small",)


def test_impossible_numbers_are_no_image() -> None:
    """A header that does not say how long its data are is none."""
    for old, new in ((b"16", b"17"), (b"NAXIS2 ", b"NAXIS9 ")):
        assert read(FITS, fits().replace(old, new, 1)) == ({}, ("content_type_invalid",))

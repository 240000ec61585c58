"""The feed's files are what they claim to be: other tools read them."""

from __future__ import annotations

import bz2
import io
import struct
from datetime import UTC, datetime, timedelta
from random import Random

import eccodes
import h5py
import pytest

from tallgrass.simulate.grib2_writer import grib2_message
from tallgrass.simulate.hdf5_writer import hdf5_file
from tallgrass.simulate.nexrad_writer import nexrad_volume

START = datetime(2026, 6, 1, 12, 3, 4, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("length", [1, 255, 4000])
def test_h5py_opens_the_hdf5_files(length: int) -> None:
    """h5py, which checks every checksum, finds the attributes and the array."""
    array = Random(length).randbytes(length)
    data = hdf5_file({"title": "a title", "time_coverage_start": "2026", "empty": ""}, array)
    with h5py.File(io.BytesIO(data)) as file:
        assert {name: value.decode() for name, value in file.attrs.items()} == {
            "title": "a title",
            "time_coverage_start": "2026",
            "empty": "",
        }
        assert bytes(file["event_energy"][...]) == array
        assert file.id.get_filesize() == len(data)


def test_h5py_refuses_a_cut_file() -> None:
    """The end that the file names is its end: h5py calls a shorter one truncated."""
    data = hdf5_file({"title": "a title"}, b"array")
    with pytest.raises(OSError, match="truncated"):
        h5py.File(io.BytesIO(data[:-1]))


@pytest.mark.parametrize("hours", [0, 1, 18])
def test_eccodes_reads_the_grib2_files(hours: int) -> None:
    """EcCodes finds run, forecast hour, grid, parameter and values."""
    reference = START.replace(second=0, microsecond=0)
    values = list(Random(hours).randbytes(27))
    data = grib2_message(reference=reference, forecast_hours=hours, nx=9, values=values)
    message = eccodes.codes_new_from_message(data)
    expected = {
        "totalLength": len(data),
        "centre": "kwbc",
        "dataDate": 20260601,
        "dataTime": 1203,
        "forecastTime": hours,
        "stepUnits": 1,
        "shortName": "2t",
        "gridType": "lambert",
        "Nx": 9,
        "Ny": 3,
        "DxInMetres": 3000.0,
        "latitudeOfFirstGridPointInDegrees": 21.138123,
        "longitudeOfFirstGridPointInDegrees": 237.280472,
        "LoVInDegrees": 262.5,
        "Latin1InDegrees": 38.5,
    }
    assert {name: eccodes.codes_get(message, name) for name in expected} == expected
    found = eccodes.codes_get_values(message)
    assert [round(value, 4) for value in found] == [round(250 + value / 10, 4) for value in values]
    eccodes.codes_release(message)


def test_rows_must_be_full() -> None:
    """Values that do not fill a grid are refused."""
    with pytest.raises(ValueError, match="do not fill"):
        grib2_message(reference=START, forecast_hours=0, nx=9, values=[0] * 10)


def test_a_volume_decodes() -> None:
    """Header, records and messages of a volume decode by the layout of the ICD."""
    data = nexrad_volume(site="KTWX", start=START, volume_number=7, records=3, random=Random(1))
    assert data[:12] == b"AR2V0006.007"
    day, milliseconds = struct.unpack_from(">II", data, 12)
    since = timedelta(days=day - 1, milliseconds=milliseconds)
    assert datetime(1970, 1, 1, tzinfo=UTC) + since == START
    assert data[20:24] == b"KTWX"

    position, signs, blocks = 24, [], []
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        blocks.append(bz2.decompress(data[position + 4 : position + 4 + abs(size)]))
        signs.append(size < 0)
        position += 4 + abs(size)
    assert position == len(data)
    assert signs == [False, False, False, True]

    assert len(blocks[0]) == 2 * 2432
    assert [blocks[0][at + 15] for at in (0, 2432)] == [2, 5]
    radials = []
    for block in blocks[1:]:
        at = 0
        while at < len(block):
            half_words, _, kind = struct.unpack_from(">HBB", block, at + 12)
            assert kind == 31
            radials.append(block[at + 28 : at + 12 + 2 * half_words])
            at += 12 + 2 * half_words
    assert len(radials) == 18
    assert {radial[:4] for radial in radials} == {b"KTWX"}
    assert [radial[21] for radial in radials] == [3, *[1] * 16, 4]

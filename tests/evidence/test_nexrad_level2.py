from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.datasets.noaa_data import noaa_data
from tests.evidence.samples import (
    gzipped,
    ldm,
    nexrad,
    plain_nexrad,
    read,
    read_near,
    volume_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LEVEL2 = FileFormat.NEXRAD_LEVEL2


def long_block(seed: int, length: int = 3000) -> bytes:
    """Return bytes that compress to more than a head."""
    return random.Random(seed).randbytes(length)


def test_a_complete_volume_is_told() -> None:
    """Version, volume number, time and site come from the volume header."""
    assert read(LEVEL2, nexrad()) == (
        {
            "format": "nexrad-level2",
            "version": "AR2V0006",
            "volume_number": 292,
            "volume_time": "2026-06-01T12:03:04.500000Z",
            "site": "KTWX",
            "compression": "bzip2",
            "complete": True,
        },
        (),
    )


def test_a_volume_is_complete_by_its_tail() -> None:
    """The negative size of the last record is found in the tail, far behind the head."""
    data = nexrad(*(long_block(number) for number in range(9)))
    header, issues = read(LEVEL2, data)
    assert (header["complete"], issues) == (True, ())


def test_a_volume_cut_between_records_is_not_complete() -> None:
    """Records that all end well, without one that says it is the last, are too few."""
    for blocks in (
        [b"metadata"],
        [long_block(number) for number in range(9)],
        [long_block(number, 30_000) for number in range(9)],
    ):
        data = volume_header() + b"".join(ldm(block) for block in blocks)
        header, issues = read(LEVEL2, data)
        assert (header["complete"], issues) == (False, ("size_too_small",))


def test_a_last_record_longer_than_the_tail_leaves_it_open() -> None:
    """Where the size of the last record cannot be seen, nothing is claimed."""
    data = nexrad(b"metadata", long_block(1), long_block(2), long_block(3, 200_000))
    header, issues = read(LEVEL2, data)
    assert (header["complete"], issues) == (None, ())


def test_a_cut_last_record_is_seen_whatever_its_length() -> None:
    """A file that does not end where a bzip2 block ends is cut off."""
    data = nexrad(b"metadata", long_block(1), long_block(2), long_block(3, 200_000))
    for cut in (1, 2, 5, 11, 12, 100, 50_000):
        header, issues = read(LEVEL2, data[:-cut])
        assert (header["complete"], issues) == (False, ("size_too_small",)), cut


def test_bytes_behind_the_last_record_are_seen() -> None:
    """A volume that goes on behind its last record is too large."""
    assert read(LEVEL2, nexrad() + b"\0" * 9)[1] == ("size_too_large",)


@pytest.mark.parametrize(
    "header",
    [
        volume_header(day=0),
        volume_header(day=70_000),
        volume_header(milliseconds=86_400_000),
        volume_header(site=b"\xff\xff\xff\xff"),
        volume_header(start=b"AR2V0006.2x2"),
        volume_header(start=b"AR2V00x6.292"),
    ],
)
def test_an_impossible_volume_header_is_no_volume(header: bytes) -> None:
    """A volume header whose parts cannot be is not read as one."""
    assert read(LEVEL2, nexrad(header=header)) == ({}, ("content_type_invalid",))


def test_a_record_of_no_length_is_damage() -> None:
    """A record without a block, or a size of 0, is not the format."""
    data = nexrad()
    for damaged in (data[:24] + bytes(4) + data[28:], data[:28] + b"XXX" + data[31:]):
        assert read(LEVEL2, damaged)[1] == ("content_type_invalid",)


@pytest.mark.parametrize("start", [b"ARCHIVE2.001", b"AR2V0001.131"])
@pytest.mark.parametrize("pack", [bytes, gzipped])
def test_an_old_volume_has_messages_of_one_length(
    start: bytes, pack: Callable[[bytes], bytes]
) -> None:
    """Files of before message 31 are whole messages of 2,432 bytes, plain or gzipped."""
    header, issues = read(LEVEL2, pack(plain_nexrad(start)))
    assert (header["version"], header["site"]) == (start[:8].decode(), None)
    assert (header["complete"], issues) == (True, ())
    header, issues = read(LEVEL2, pack(plain_nexrad(start)[:-1]))
    assert (header["complete"], issues) == (False, ("size_too_small",))


def test_a_gzipped_volume_of_today_is_recognised() -> None:
    """The volume header is read through gzip; whether the volume is complete cannot be seen."""
    message = bytes(12) + struct.pack(">HBB", 100, 8, 31) + bytes(300)
    header, issues = read(LEVEL2, gzipped(volume_header(b"AR2V0003.681") + message))
    assert (header["site"], header["compression"]) == ("KTWX", "gzip")
    assert (header["complete"], issues) == (None, ())


def test_gzip_around_something_else_is_no_volume() -> None:
    """A gzip file is a volume only if there is one in it."""
    assert read(LEVEL2, gzipped(b"something else" * 200)) == ({}, ("content_type_invalid",))


@pytest.mark.parametrize("name", ["KDMX20250101_225441_V06", "Level2_KFTG_20150430_1419.ar2v"])
def test_a_damaged_start_of_a_record_is_seen(name: str) -> None:
    """Mark, level and block mark of a real volume's first, second and last record are looked at."""
    data = noaa_data("nexrad-l2", name).read_bytes()
    assert read_near(LEVEL2, data)[1] == ()
    starts, at = [], 24
    while at < len(data):
        starts.append(at)
        at += 4 + abs(int.from_bytes(data[at : at + 4], "big", signed=True))
    for start in (*starts[:2], starts[-1]):
        for place in range(start + 4, start + 14):
            damaged = data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]
            assert read_near(LEVEL2, damaged)[1] == ("content_type_invalid",), place - start


@pytest.mark.parametrize("name", ["KDMX20250101_225441_V06", "Level2_KFTG_20150430_1419.ar2v"])
def test_metadata_that_do_not_decompress_are_seen(name: str) -> None:
    """A changed checksum or byte inside the first record of a real volume is found."""
    data = noaa_data("nexrad-l2", name).read_bytes()
    length = int.from_bytes(data[24:28], "big")
    for place in (38, 39, 41, 28 + length // 2, 28 + length - 2):
        damaged = data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]
        header, issues = read_near(LEVEL2, damaged)
        assert (header["complete"], issues) == (False, ("content_type_invalid",)), place


def test_first_radials_that_do_not_decompress_are_seen() -> None:
    """A volume whose header tells whole seconds is asked for its first radials: they must be so."""
    data = noaa_data("nexrad-l2", "Level2_KFTG_20150430_1419.ar2v").read_bytes()
    second = 28 + int.from_bytes(data[24:28], "big")
    damaged = data[: second + 400] + b"\0" * 9 + data[second + 409 :]
    assert read_near(LEVEL2, damaged)[1] == ("content_type_invalid",)

"""The sections of a GRIB2 message follow one another to its end, or it is no such message."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.real_files import FILES, GRID, content
from tests.evidence.samples import grib2, read, read_near

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_THE_FORMAT = ("content_type_invalid",)
FORECASTS = [name for name in FILES if FILES[name] is GRID]
#: The first bytes of a file that a store shows.
HEAD_BYTES = 4096


def messages(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each message, found by the marks that it begins and ends with."""
    at = data.find(b"GRIB")
    while at >= 0:
        end = at + int.from_bytes(data[at + 8 : at + 16], "big")
        assert data[end - 4 : end] == b"7777"
        yield at, end
        at = data.find(b"GRIB", end)


def sections(data: bytes, begin: int, end: int) -> Iterator[int]:
    """Yield where the sections of a message begin."""
    at = begin + 16
    while at < end - 4:
        yield at
        at += int.from_bytes(data[at : at + 4], "big")
    assert at == end - 4


def flipped(data: bytes, at: int, mask: int) -> bytes:
    """Return the bytes with some bits of one of them changed."""
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


@pytest.mark.parametrize("name", FORECASTS)
def test_a_changed_length_or_number_of_any_section_is_seen(name: str) -> None:
    """In the first, second and last message, near, and from afar wherever head or tail show it."""
    stored = content(name)
    data = gzip.decompress(stored) if name.endswith(".gz") else stored
    found = list(messages(data))
    for begin, end in {*found[:2], found[-1]}:
        for section in sections(data, begin, end):
            for at, mask in ((section, 0x80), (section + 3, 0x01), (section + 4, 0x08)):
                damaged = flipped(data, at, mask)
                assert read_near(GRID, damaged)[1] == NOT_THE_FORMAT, (section - begin, at)
                # From afar a length is held against the message's; the next section is not seen.
                if begin == found[0][0] and at < HEAD_BYTES and at != section + 3:
                    assert read(GRID, damaged)[1] == NOT_THE_FORMAT, (section - begin, at)


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("mask", [0x01, 0x02, 0x04, 0x08])
def test_sections_have_an_order(number: int, mask: int) -> None:
    """A section whose number is another's is none, in the first message and in a later one."""
    one = grib2()
    starts = {one[at + 4]: at for at in sections(one, 0, len(one))}
    bad = flipped(one, starts[number] + 4, mask)
    for data in (bad, bad + one, one + bad, one + bad + one):
        assert read(FileFormat.GRIB2, data)[1] == NOT_THE_FORMAT
        assert read_near(FileFormat.GRIB2, data)[1] == NOT_THE_FORMAT


def test_the_last_message_is_looked_at_from_afar() -> None:
    """A damaged last message that the tail shows is seen, though those between are not."""
    one = grib2()
    many = one * 40
    assert read(FileFormat.GRIB2, many)[1] == ()
    for section in sections(one, 0, len(one)):
        at = len(many) - len(one) + section
        assert read(FileFormat.GRIB2, flipped(many, at, 0x80))[1] == NOT_THE_FORMAT


def test_several_fields_in_one_message_are_sound() -> None:
    """Behind the data of a field the grid or the product of the next may follow."""
    one = grib2()
    starts = {one[at + 4]: at for at in sections(one, 0, len(one))}
    for again in (3, 4):
        data = one[:-4] + one[starts[again] : -4] + b"7777"
        data = data[:8] + len(data).to_bytes(8, "big") + data[16:]
        header, issues = read(FileFormat.GRIB2, data)
        assert (header["messages"], issues) == (1, ())


def test_a_message_ends_behind_its_data() -> None:
    """A message whose sections stop before the data is none, and one without any neither."""
    one = grib2()
    for section in sections(one, 0, len(one)):
        data = one[:section] + b"7777"
        data = data[:8] + len(data).to_bytes(8, "big") + data[16:]
        assert read(FileFormat.GRIB2, data)[1] == NOT_THE_FORMAT

from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.real_files import chunks
from tests.evidence.samples import chunk, read, read_near

CHUNK = FileFormat.NEXRAD_CHUNK


@pytest.mark.parametrize("part", ["S", "I", "E"])
def test_the_part_is_seen(part: str) -> None:
    """The first chunk has the volume header, the last one a negative size."""
    header, issues = read(CHUNK, chunk(part))
    assert (header["format"], header["part"], header["complete"]) == ("nexrad-chunk", part, True)
    assert issues == ()
    assert header.get("site") == ("KTWX" if part == "S" else None)


def test_a_first_chunk_tells_its_volume() -> None:
    """Time, number and site of the volume stand in its first chunk."""
    header, _ = read(CHUNK, chunk("S"))
    assert header["volume_time"] == "2026-06-01T12:03:04.500000Z"
    assert header["volume_number"] == 292


def test_two_records_are_no_chunk() -> None:
    """A chunk is exactly one record."""
    assert read(CHUNK, chunk("I") + chunk("I"))[1] == ("size_too_large",)


def test_a_record_without_the_end_of_its_block_is_damaged() -> None:
    """A record of the right length must end as bzip2 does."""
    assert read(CHUNK, chunk("I")[:-12] + bytes(12))[1] == ("content_type_invalid",)


def test_the_parts_of_a_real_volume_are_those_of_its_keys() -> None:
    """All 55 chunks of a volume are told apart as their keys do."""
    found = {name: str(read(CHUNK, data)[0]["part"]) for name, data in chunks().items()}
    assert len(found) == 55
    assert found == {name: name[-1] for name in found}


def test_the_chunks_of_a_volume_in_order_are_the_volume() -> None:
    """Joined they are a complete volume, with the published times and number of radials."""
    header, issues = read_near(FileFormat.NEXRAD_LEVEL2_RADIALS, b"".join(chunks().values()))
    assert (header["complete"], issues) == (True, ())
    assert (header["start"], header["end"]) == (
        "2026-03-28T20:14:57.447000Z",
        "2026-03-28T20:21:33.131000Z",
    )
    assert (header["radials"], header["pattern"]) == (6480, 35)
    assert (header["latitude"], header["longitude"]) == (41.6044, -88.0844)

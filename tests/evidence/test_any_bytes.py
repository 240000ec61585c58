"""Whatever the bytes are, a reader answers."""

from __future__ import annotations

import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.reading import Evidence
from tests.evidence.samples import SOUND, of_other_families, read, read_near

ISSUES = {"content_type_invalid", "size_too_small", "size_too_large", "size_zero"}
EVIDENCE_BYTES_MAX = 8192

names = st.sampled_from(sorted(SOUND))
formats = st.sampled_from(list(FileFormat))


def judged(file_format: FileFormat, data: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
    """Read the bytes and check the form of the answer."""
    header, issues = read(file_format, data)
    assert isinstance(issues, tuple)
    assert set(issues) <= ISSUES
    assert len(set(issues)) == len(issues)
    assert not (issues and header.get("complete"))
    evidence = Evidence(
        etag="0" * 32, size=len(data), source="object", header=header, issues=issues
    )
    stored = evidence.to_bytes()
    assert len(stored) <= EVIDENCE_BYTES_MAX
    assert orjson.loads(stored)["header"] == header
    return header, issues


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_files_have_no_issue(name: str) -> None:
    """A whole file of its format has no issue."""
    assert judged(*SOUND[name])[1] == ()


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_file_cut_anywhere_has_an_issue(name: str) -> None:
    """A file that was cut at any byte has an issue, unless all that is left is whole."""
    file_format, data = SOUND[name]
    whole = {
        "old nexrad": set(range(24 + 2432, len(data), 2432)),
        "grib2, two messages": {len(data) // 2},
    }.get(name, set())
    for length in range(len(data)):
        issues = judged(file_format, data[:length])[1]
        assert bool(issues) is (length not in whole), length


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_file_that_goes_on_behind_its_end_has_an_issue(name: str) -> None:
    """Bytes behind the end of a file are found, but of images, which may hold anything there."""
    file_format, data = SOUND[name]
    for rubbish in (b"\0", b"rubbish", data[:50]):
        assert bool(judged(file_format, data + rubbish)[1]) is (file_format is not FileFormat.TIFF)


@pytest.mark.parametrize("name", sorted(SOUND))
def test_what_is_near_is_judged_as_what_is_far(name: str) -> None:
    """Of a small file everything is in head and tail: looking further changes no issue."""
    file_format, data = SOUND[name]
    for length in {0, 1, 7, 20, 60, len(data) // 2, len(data) - 5, len(data) - 1, len(data)}:
        assert bool(read_near(file_format, data[:length])[1]) is bool(
            read(file_format, data[:length])[1]
        ), length


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_cut_file_is_too_small(name: str) -> None:
    """What a cut leaves of a file is called too small, not another format."""
    file_format, data = SOUND[name]
    if name in {"hdf5 behind a user block", "grib2 in bulletins"} or "zip" in name:
        # Less than the user block shows nothing of HDF5, less than a gzip header nothing at all.
        assert judged(file_format, data[: len(data) - 9])[1] == ("size_too_small",)
        return
    for length in range(1, len(data)):
        assert judged(file_format, data[:length])[1] in {("size_too_small",), ()}, length


@pytest.mark.parametrize("name", sorted(SOUND))
def test_flipped_bits_never_raise(name: str) -> None:
    """A file with any of its bits flipped gets an answer."""
    file_format, data = SOUND[name]
    chance = random.Random(name)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            near_start = chance.random() < 0.7
            place = chance.randrange(min(len(data), 200) if near_start else len(data))
            damaged[place] ^= 1 << chance.randrange(8)
        judged(file_format, bytes(damaged))


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_zeroed_file_is_no_such_file(name: str) -> None:
    """A file of zeros is not of any format."""
    file_format, data = SOUND[name]
    assert judged(file_format, bytes(len(data))) == ({}, ("content_type_invalid",))


@pytest.mark.parametrize("name", sorted(SOUND))
def test_another_format_is_told_apart(name: str) -> None:
    """A sound file of one format is not of another."""
    file_format, data = SOUND[name]
    for other in of_other_families(file_format):
        assert judged(other, data) == ({}, ("content_type_invalid",)), other


@pytest.mark.parametrize("file_format", list(FileFormat))
def test_no_bytes_are_told(file_format: FileFormat) -> None:
    """An empty object has the issue of having no bytes, and nothing else."""
    assert judged(file_format, b"") == ({}, ("size_zero",))


@given(file_format=formats, data=st.binary(max_size=300))
def test_random_bytes_get_an_answer(file_format: FileFormat, data: bytes) -> None:
    """No bytes make a reader raise."""
    judged(file_format, data)


@given(name=names, start=st.integers(4, 64), junk=st.binary(max_size=200))
def test_a_true_start_with_anything_behind_it_gets_an_answer(
    name: str, start: int, junk: bytes
) -> None:
    """A file that only begins as its format does gets an answer."""
    file_format, data = SOUND[name]
    judged(file_format, data[:start] + junk)

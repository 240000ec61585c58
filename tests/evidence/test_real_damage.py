"""Every real file, cut, zeroed, flipped or under another's name: a verdict, never `ok`."""

from __future__ import annotations

import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.reading import Evidence
from tests.evidence.real_files import FILES, chunks, content, cuts, damages
from tests.evidence.samples import of_other_families, read, read_near

ISSUES = {"content_type_invalid", "size_too_small", "size_too_large", "size_zero"}

#: A volume of 2010 whose gzip file has nothing at its end that could be checked from afar.
UNSEEN_FROM_AFAR = "nexrad-l2/KTLX20100501_000444_V03.gz"


def judged(name: str, file_format: FileFormat, data: bytes) -> set[bool]:
    """Read as of a folder and as of a cloud; return whether there is an issue, of each."""
    verdicts = [read_near(file_format, data)]
    if name != UNSEEN_FROM_AFAR:
        verdicts.append(read(file_format, data))
    for header, issues in verdicts:
        assert set(issues) <= ISSUES
        assert not (issues and header.get("complete"))
        evidence = Evidence(etag="0" * 32, size=1, source="object", header=header, issues=issues)
        assert len(evidence.to_bytes()) <= 8192
    return {bool(issues) for _, issues in verdicts}


@pytest.mark.parametrize("name", FILES)
def test_a_sound_file_has_no_issue(name: str) -> None:
    """Each real file is whole, as it is known to be."""
    data = content(name)
    assert judged(name, FILES[name], data) == {False}
    assert read_near(FILES[name], data)[0]["complete"] is True


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_never_sound(name: str) -> None:
    """A real file that breaks off anywhere has an issue."""
    data = content(name)
    for length in cuts(data):
        assert judged(name, FILES[name], data[:length]) == {True}, length


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_never_sound(name: str) -> None:
    """A real file that is zeroed, flipped, moved, longer or another has an issue."""
    for kind, damage in damages(content(name)).items():
        assert judged(name, FILES[name], damage()) == {True}, kind


@pytest.mark.parametrize("name", FILES)
def test_a_file_under_anothers_name_is_never_sound(name: str) -> None:
    """A real file of one format is not taken for one of another."""
    for other in of_other_families(FILES[name]):
        assert read_near(other, content(name)) == ({}, ("content_type_invalid",)), other


def test_a_gzipped_volume_of_2010_is_left_open_from_afar() -> None:
    """Where only the whole file could tell, and it is far, nothing is claimed."""
    data = content(UNSEEN_FROM_AFAR)
    assert read(FileFormat.NEXRAD_LEVEL2, data)[0]["complete"] is None


def test_every_chunk_is_never_sound_when_cut() -> None:
    """Each of the 55 chunks is whole, and none is when its end is missing."""
    for name, data in chunks().items():
        assert judged(name, FileFormat.NEXRAD_CHUNK, data) == {False}, name
        for length in (2, 30, len(data) // 2, len(data) - 1):
            assert judged(name, FileFormat.NEXRAD_CHUNK, data[:length]) == {True}, name

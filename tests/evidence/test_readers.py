from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.definition import FileFormat
from tallgrass.error_codes import is_unit_code
from tallgrass.evidence.object_store import LocalObjects, ObjectBytes, RangeUnread
from tallgrass.evidence.readers import EventEvidenceReader, ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.unit import ObjectReference
from tests.evidence.samples import grib2, hdf5, nexrad
from tests.evidence.test_grib2 import large
from tests.support.builders import unit, units

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.ledger.unit import IngestUnit

FORMATS = {
    "goes-glm": FileFormat.NETCDF4,
    "nexrad-l2": FileFormat.NEXRAD_LEVEL2,
    "hrrr": FileFormat.GRIB2,
}


def format_of(each: IngestUnit) -> FileFormat | None:
    """Return the format of a unit's object."""
    return FORMATS.get(each.dataset)


FILES = {"goes-glm": hdf5(), "nexrad-l2": nexrad(), "hrrr": grib2()}


class MadeUp:
    """Objects that answer, or raise, as their number says."""

    def __init__(self, faults: dict[int, BaseException | ReadFailure]) -> None:
        self.faults = faults
        self.threads: set[int] = set()

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Answer for `…/000017.nc`."""
        self.threads.add(threading.get_ident())
        number = int(object_uri[-9:-3])
        fault = self.faults.get(number)
        if isinstance(fault, ReadFailure):
            return fault
        if fault is not None:
            raise fault
        content = FILES["goes-glm"]
        return ObjectBytes(
            head=content[:4096], tail=content[-tail_bytes:], size=len(content), etag=f"{number}"
        )


@pytest.fixture(params=[1, 2, 8])
def threads(request: pytest.FixtureRequest) -> int:
    """Return a number of threads."""
    return int(request.param)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[IngestUnit]]:
    """Write sixty objects of three datasets; return their folder and units."""
    made = []
    for number in range(60):
        dataset = sorted(FILES)[number % 3]
        each = unit(number, dataset=dataset)
        path = tmp_path / each.object_uri.removeprefix("s3://")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[dataset])
        made.append(each)
    return tmp_path, made


def test_every_unit_has_its_own_answer(
    written: tuple[Path, list[IngestUnit]], threads: int
) -> None:
    """Answers stand in the order of the units, whatever thread gave them."""
    folder, made = written
    reader = ObjectEvidenceReader(LocalObjects(folder), format_of, threads=threads)
    answers = reader.read(made)
    reader.close()
    for each, answer in zip(made, answers, strict=True):
        assert isinstance(answer, Evidence)
        assert answer.source == "object"
        assert answer.size == len(FILES[each.dataset])
        assert answer.header["format"] == FORMATS[each.dataset].value
        assert answer.issues == ()


def test_two_reads_give_the_same_bytes(written: tuple[Path, list[IngestUnit]]) -> None:
    """Evidence is a function of the object alone: number of threads and run do not show."""
    folder, made = written
    bodies = []
    for threads in (1, 8, 8):
        reader = ObjectEvidenceReader(LocalObjects(folder), format_of, threads=threads)
        answers = reader.read(made)
        reader.close()
        bodies.append([each.to_bytes() for each in answers if isinstance(each, Evidence)])
    assert len(bodies[0]) == 60
    assert bodies[0] == bodies[1] == bodies[2]


class NativePanic(BaseException):
    """As native code raises it: no Exception."""


@pytest.mark.parametrize(
    "fault", [RuntimeError("odd"), NativePanic("panicked"), MemoryError(), RecursionError()]
)
def test_a_fault_of_one_object_harms_no_neighbour(fault: BaseException, threads: int) -> None:
    """Whatever reading one object raises, it fails alone, with a code and a message."""
    reader = ObjectEvidenceReader(MadeUp({7: fault}), format_of, threads=threads)
    answers = reader.read(units(30))
    reader.close()
    failed = answers[7]
    assert isinstance(failed, ReadFailure)
    assert failed.code == "operator_error"
    assert type(fault).__name__ in failed.message
    assert units(30)[7].object_uri in failed.message
    others = [*answers[:7], *answers[8:]]
    assert [each.etag for each in others if isinstance(each, Evidence)] == [
        str(number) for number in range(30) if number != 7
    ]


def test_a_refused_object_is_passed_on(threads: int) -> None:
    """What the store says of an object is what the reader says."""
    refused = ReadFailure(code="access_denied", message="closed")
    reader = ObjectEvidenceReader(MadeUp({3: refused}), format_of, threads=threads)
    answers = reader.read(units(5))
    reader.close()
    assert answers[3] == refused


def test_an_interrupt_is_not_swallowed(threads: int) -> None:
    """Ctrl-C ends the read; it is no fault of an object."""
    reader = ObjectEvidenceReader(MadeUp({3: KeyboardInterrupt()}), format_of, threads=threads)
    with pytest.raises(KeyboardInterrupt):
        reader.read(units(5))
    reader.close()


def test_one_thread_is_the_callers() -> None:
    """With one thread nothing is read elsewhere, so that a simulation stays in order."""
    objects = MadeUp({})
    ObjectEvidenceReader(objects, format_of, threads=1).read(units(20))
    assert objects.threads == {threading.get_ident()}


def test_a_reader_can_be_used_after_its_end() -> None:
    """Closing twice, and reading afterwards, is allowed; no unit is no work."""
    reader = ObjectEvidenceReader(MadeUp({}), format_of, threads=4)
    assert len(reader.read(units(9))) == 9
    reader.close()
    reader.close()
    assert len(reader.read(units(9))) == 9
    assert list(reader.read([])) == []
    reader.close()


def test_a_dataset_without_a_format_tells_what_the_first_bytes_are() -> None:
    """Where no format is known, size, etag and kind of file are read and nothing is judged."""
    (answer,) = ObjectEvidenceReader(MadeUp({}), lambda _: None, threads=1).read(units(1))
    assert isinstance(answer, Evidence)
    assert (answer.etag, dict(answer.header), answer.issues) == ("0", {"magic": "hdf5"}, ())


def test_a_zero_byte_object_is_evidence(tmp_path: Path) -> None:
    """An empty object was read: its size is 0 and its issue says so."""
    each = unit(0)
    path = tmp_path / each.object_uri.removeprefix("s3://")
    path.parent.mkdir(parents=True)
    path.touch()
    (answer,) = ObjectEvidenceReader(LocalObjects(tmp_path), format_of).read([each])
    assert answer == Evidence(
        # MD5 of nothing.
        etag="d41d8cd98f00b204e9800998ecf8427e",
        size=0,
        source="object",
        header={},
        issues=("size_zero",),
    )


def test_the_event_is_believed() -> None:
    """Without reading, etag and size are those of the announcement."""
    each = unit(0, object_ref=ObjectReference(etag="abc", size=5))
    unknown = unit(1, object_ref=ObjectReference())
    assert EventEvidenceReader().read([each, unknown]) == [
        Evidence(etag="abc", size=5, source="event", header={}),
        Evidence(etag=None, size=None, source="event", header={}),
    ]


def test_no_code_is_unheard_of() -> None:
    """Each code that a reader can give may stand on a unit."""
    codes = ["missing_object", "access_denied", "io_error", "operator_error", "etag_mismatch"]
    codes += ["content_type_invalid", "size_too_small", "size_too_large", "size_zero"]
    assert all(map(is_unit_code, codes))


@given(
    etag=st.text(st.characters(exclude_categories=["Cs"]), max_size=3000),
    size=st.integers(0, 2**63),
)
def test_evidence_of_an_event_is_never_too_long(etag: str, size: int) -> None:
    """Evidence has at most 8,192 bytes; an etag that would not fit is refused."""
    each = unit(0, object_ref=ObjectReference(etag=etag, size=size))
    (answer,) = EventEvidenceReader().read([each])
    if isinstance(answer, Evidence):
        assert len(answer.to_bytes()) <= 8192
    else:
        assert len(etag) > 1024


def test_an_etag_beyond_reason_is_refused() -> None:
    """The longest etag that is kept fits in its longest spelling; a longer one is refused."""
    kept, refused = (
        unit(0, object_ref=ObjectReference(etag="\x01" * length, size=2**63))
        for length in (1024, 1025)
    )
    fits, failed = EventEvidenceReader().read([kept, refused])
    assert isinstance(fits, Evidence)
    assert 6 * 1024 < len(fits.to_bytes()) <= 8192
    assert isinstance(failed, ReadFailure)
    assert failed.code == "etag_mismatch"


class Far:
    """One object of a cloud; further requests are counted."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.requests: list[tuple[int, int]] = []

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes:
        """Return head and tail, and a way to more."""
        content = self.content
        return ObjectBytes(
            head=content[:4096],
            tail=content[-tail_bytes:],
            size=len(content),
            etag="0",
            more=self.more,
        )

    def more(self, start: int, length: int) -> bytes:
        """Return further bytes."""
        self.requests.append((start, length))
        return self.content[start : start + length]


def test_the_last_message_of_a_far_file_takes_one_request() -> None:
    """Where only the file tells its times, its last message is looked for by one request."""
    objects = Far(large(1) + large(5) + large(9))
    (answer,) = ObjectEvidenceReader(objects, lambda _: FileFormat.GRIB2_GRID).read(units(1))
    assert isinstance(answer, Evidence)
    assert (answer.header["messages"], len(objects.requests)) == (None, 1)
    assert answer.header["steps_s"] == [[3600, 3600], [32400, 32400]]
    assert objects.requests[0][1] < 2 * len(large(1))


@pytest.mark.parametrize(
    ("content", "file_format"),
    [
        (large(1) + large(5), FileFormat.GRIB2),
        (large(1), FileFormat.GRIB2_GRID),
        ((large(1) + large(5))[:-1], FileFormat.GRIB2_GRID),
        (nexrad(), FileFormat.NEXRAD_LEVEL2_RADIALS),
    ],
)
def test_a_far_file_is_read_by_head_and_tail(content: bytes, file_format: FileFormat) -> None:
    """Where the key tells the times, and where all is seen or broken, nothing more is asked for."""
    objects = Far(content)
    ObjectEvidenceReader(objects, lambda _: file_format).read(units(1))
    assert objects.requests == []


def test_a_range_that_cannot_be_read_is_passed_on() -> None:
    """What the store says of a further request is what the reader says."""
    objects = Far(large(1) + large(5) + large(9))
    refused = ReadFailure(code="transient_network_error", message="gone")

    def more(start: int, length: int) -> bytes:
        raise RangeUnread(refused)

    objects.more = more  # type: ignore[method-assign]
    reader = ObjectEvidenceReader(objects, lambda _: FileFormat.GRIB2_GRID)
    assert reader.read(units(1)) == [refused]


def test_the_name_chooses_the_format() -> None:
    """Of a dataset of several formats the key's end says which it is."""
    names = {"a/x.nc": "hdf5", "a/gfs.t12z.pgrb2.0p25.f001": "grib2-grid", "a/unknown": None}
    for key, expected in names.items():
        each = replace(unit(0), object_uri=f"s3://noaa-goes19/{key}")
        (answer,) = ObjectEvidenceReader(Far(bytes(500)), lambda _: FileFormat.BY_NAME).read([each])
        assert isinstance(answer, Evidence)
        assert answer.issues == ("content_type_invalid",), key
        text = Far(b"neither the one nor the other")
        (answer,) = ObjectEvidenceReader(text, lambda _: FileFormat.BY_NAME).read([each])
        assert isinstance(answer, Evidence)
        assert answer.issues == (() if expected is None else ("content_type_invalid",)), key

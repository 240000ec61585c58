"""Attributes of HDF5 files: read by processes of their own, which may crash."""

from __future__ import annotations

import gc
import io
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.error_codes import is_unit_code
from tallgrass.evidence import hdf5_children
from tallgrass.evidence.hdf5_attributes import with_attributes
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.header import Seen
from tallgrass.evidence.object_store import LocalObjects, ObjectBytes
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence, ReadFailure
from tests.evidence.real_files import content
from tests.evidence.samples import gzipped, hdf5
from tests.support.builders import unit

if TYPE_CHECKING:
    from collections.abc import Iterator

ABI = "goes-abi/OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
CRASHING = Path(__file__).with_name("crashing_child.py")


def seen(data: bytes) -> Seen:
    """Return a file of which every byte can be looked at."""
    return Seen(data[:4096], data[-1024:], len(data), lambda at, length: data[at : at + length])


def written(**groups: dict[str, Any]) -> bytes:
    """Return a file with attributes: those of `root`, and of groups by their path."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="v108") as file:
        for path, attributes in groups.items():
            holder = file if path == "root" else file.require_group(path.replace("__", "/"))
            holder.attrs.update(attributes)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return one process that reads."""
    made = Hdf5Children(1)
    yield made
    made.close()


def told(children: Hdf5Children, data: bytes) -> dict[str, object]:
    """Return what the attributes of a file say."""
    answer = children.read(seen(data), near=True)
    assert isinstance(answer, dict)
    header, issues = with_attributes({}, answer)
    assert issues == ()
    return header


def test_an_image_of_a_satellite_is_told(children: Hdf5Children) -> None:
    """Times, place and scene of a real image are those that h5py reads here."""
    header = told(children, content(ABI))
    with h5py.File(io.BytesIO(content(ABI))) as file:
        extent = file["geospatial_lat_lon_extent"].attrs
        sides = ("westbound_longitude", "southbound_latitude", "eastbound_longitude")
        expected = [float(extent[f"geospatial_{side}"][0]) for side in sides]
        expected.append(float(extent["geospatial_northbound_latitude"][0]))
        start = file.attrs["time_coverage_start"].decode()
    assert start == "2021-05-18T17:00:53.8Z"
    assert (header["start"], header["end"]) == (
        "2021-05-18T17:00:53.800000Z",
        "2021-05-18T17:00:59.500000Z",
    )
    assert header["bbox"] == pytest.approx(expected, abs=1e-4)
    assert header["attributes"] == {
        "platform_ID": "G16",
        "dataset_name": ABI.rpartition("/")[2],
        "orbital_slot": "GOES-East",
        "scene_id": "Mesoscale",
        "timeline_id": "ABI Mode 6",
        "production_environment": "OE",
    }


def test_a_field_of_view_is_a_place(children: Hdf5Children) -> None:
    """A real lightning file lies where its field of view does."""
    name = "OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
    with h5py.File(io.BytesIO(content(f"goes-glm/{name}"))) as file:
        north, south = file["lat_field_of_view_bounds"][:]
        west, east = file["lon_field_of_view_bounds"][:]
    box = told(children, content(f"goes-glm/{name}"))["bbox"]
    assert box == pytest.approx([west, south, east, north], abs=1e-4)


CORNERS = {
    "geospatial_first_scanline_first_fov_lat": 60.0,
    "geospatial_first_scanline_first_fov_lon": 175.0,
    "geospatial_first_scanline_last_fov_lat": 58.0,
    "geospatial_first_scanline_last_fov_lon": -150.0,
    "geospatial_last_scanline_first_fov_lat": 66.0,
    "geospatial_last_scanline_first_fov_lon": 171.0,
    "geospatial_last_scanline_last_fov_lat": 64.0,
    "geospatial_last_scanline_last_fov_lon": -145.0,
}
GRANULE = {
    "West_Bounding_Coordinate": [[-110.5]],
    "South_Bounding_Coordinate": [[20.25]],
    "East_Bounding_Coordinate": [[-80.0]],
    "North_Bounding_Coordinate": [[41.0]],
}
DISCOVERY = {
    "geospatial_lon_min": -124.6875,
    "geospatial_lat_min": 24.5625,
    "geospatial_lon_max": -67.02,
    "geospatial_lat_max": 49.35,
}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (written(root=DISCOVERY), [-124.6875, 24.5625, -67.02, 49.35]),
        (written(root=CORNERS), [171.0, 58.0, -145.0, 66.0]),
        (
            written(**{"Data_Products__VIIRS-M1-SDR__VIIRS-M1-SDR_Gran_0": GRANULE}),
            [-110.5, 20.25, -80.0, 41.0],
        ),
        (written(root={**DISCOVERY, "geospatial_lat_max": 9.96921e36}), None),
        (written(root={}), None),
    ],
)
def test_places_are_written_in_several_ways(
    children: Hdf5Children, data: bytes, expected: list[float] | None
) -> None:
    """The conventions of grids, swaths and granules are understood; fill values are no place."""
    assert told(children, data).get("bbox") == expected


def test_a_time_of_no_known_form_is_left_out(children: Hdf5Children) -> None:
    """Makers write times in many ways; one that cannot be read says nothing."""
    data = written(root={"time_coverage_start": "yesterday", "time_coverage_end": "2026-06-01"})
    assert "start" not in told(children, data)


def test_a_file_that_cannot_be_opened_is_no_such_file(children: Hdf5Children) -> None:
    """What h5py refuses is an issue of the file, and the process goes on."""
    data = bytearray(hdf5("v108"))
    data[48:200] = bytes(152)
    answer = children.read(seen(bytes(data)), near=True)
    assert isinstance(answer, dict)
    header, issues = with_attributes({"format": "hdf5", "complete": True}, answer)
    assert (header["complete"], issues) == (False, ("content_type_invalid",))
    assert told(children, written(root=DISCOVERY))["bbox"]


def test_a_far_file_takes_few_requests(
    children: Hdf5Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that would take too many requests is left unread, not refused."""
    data = content(ABI)
    asked = []

    def more(at: int, length: int) -> bytes:
        asked.append(at)
        return data[at : at + length]

    answer = children.read(Seen(data[:4096], data[-1024:], len(data), more), near=False)
    assert isinstance(answer, dict)
    assert 0 < len(asked) <= 3
    assert answer["bbox"]
    monkeypatch.setattr(hdf5_children, "FAR_BLOCKS_MAX", 1)
    far = Seen(data[:4096], data[-1024:], len(data), more)
    assert children.read(far, near=False) == {"attributes": {}}
    assert children.read(far, near=True) == answer


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "said"),
    [(1, "was ended by SIGSEGV"), (2, "did not answer in time"), (3, "ended with 7"), (4, "bytes")],
)
def test_a_crash_is_a_failure_with_a_code(size: int, said: str) -> None:
    """A process that crashes, hangs, leaves or raves costs one file, and the next one is read."""
    children = Hdf5Children(1, program=CRASHING, answer_s_max=1.0 if size == 2 else 60.0)
    failed = children.read(Seen(b"", b"", size), near=True)
    assert isinstance(failed, ReadFailure)
    assert failed.code == "reader_crashed"
    assert is_unit_code(failed.code)
    assert said in failed.message
    children._answer_s_max = 60.0
    answer = children.read(Seen(b"", b"", 10), near=True)
    children.close()
    assert answer == {"attributes": {"platform_ID": "G19"}}


def test_a_slow_store_is_no_fault_of_the_reader() -> None:
    """Only the process's own time counts, not that of the ranges it asks for."""

    def slowly(_at: int, length: int) -> bytes:
        time.sleep(1.5)
        return b"x" * length

    children = Hdf5Children(1, program=CRASHING, answer_s_max=60.0)
    children.read(Seen(b"", b"", 10), near=True)  # it has begun
    children._answer_s_max = 1.0
    answer = children.read(Seen(b"", b"", 5, slowly), near=True)
    children.close()
    assert answer == {"attributes": {"platform_ID": "G19"}}


def test_threads_share_the_processes() -> None:
    """Many threads get each its own answer from two processes, crashes between them or not."""
    children = Hdf5Children(2, program=CRASHING)
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        answers[number] = children.read(Seen(b"", b"", number), near=True)

    threads = [threading.Thread(target=ask, args=(number,)) for number in (10, 11, 20, 30, 41, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    children.close()
    assert {number for number, answer in answers.items() if isinstance(answer, ReadFailure)} == {
        11,
        41,
    }


def pid_of(children: Hdf5Children) -> int:
    """Return the process behind."""
    (child,) = children._started
    return int(child._process.pid)


def test_what_was_closed_can_be_used_again() -> None:
    """Closing ends the process; a later read starts another."""
    children = Hdf5Children(1, program=CRASHING)
    pids = []
    for _ in range(2):
        assert children.read(Seen(b"", b"", 10), near=True) == {
            "attributes": {"platform_ID": "G19"}
        }
        pids.append(pid_of(children))
        children.close()
        children.close()
        assert not children._started
    assert pids[0] != pids[1]


def test_forgotten_processes_end() -> None:
    """Nobody need close what reads: its processes go with it."""
    children = Hdf5Children(1, program=CRASHING)
    children.read(Seen(b"", b"", 10), near=True)
    pid = pid_of(children)
    del children
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Far:
    """Objects of a cloud: more of them can be read, at a price."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes:
        """Return head and tail."""
        return ObjectBytes(
            head=self.data[:4096],
            tail=self.data[-tail_bytes:],
            size=len(self.data),
            etag="0",
            more=self.more,
        )

    def more(self, start: int, length: int) -> bytes:
        """Count and return."""
        self.requests.append((start, length))
        return self.data[start : start + length]


def read_one(objects: Any, children: Any, file_format: FileFormat) -> Any:
    """Read one object as the worker does."""
    reader = ObjectEvidenceReader(objects, lambda _: file_format, threads=1, attributes=children)
    return reader.read([unit(0)])[0]


def test_a_worker_reads_attributes(tmp_path: Path) -> None:
    """Evidence of an object of a folder, or of a cloud, holds what its attributes say."""
    data = written(root={"time_coverage_start": "2026-06-01T12:00:00Z", **DISCOVERY})
    path = tmp_path / unit(0).object_uri.removeprefix("s3://")
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    children = Hdf5Children(1)
    near = read_one(LocalObjects(tmp_path), children, FileFormat.HDF5)
    far = read_one(Far(data), children, FileFormat.HDF5)
    without = read_one(Far(data), None, FileFormat.HDF5)
    children.close()
    assert isinstance(near, Evidence)
    assert near.header == far.header
    assert near.header["start"] == "2026-06-01T12:00:00.000000Z"
    assert near.header["bbox"] == [-124.6875, 24.5625, -67.02, 49.35]
    told = ("format", "superblock_version", "end_of_file", "complete")
    assert without.header == {
        **{name: near.header[name] for name in told},
        "unread": "attributes",
    }


@pytest.mark.parametrize(
    ("data", "file_format"),
    [
        (hdf5()[:-1], FileFormat.HDF5),
        (b"no such file", FileFormat.HDF5),
        (b"", FileFormat.HDF5),
        (gzipped(hdf5()), FileFormat.HDF5),
        (hdf5(), FileFormat.NETCDF4),
    ],
)
def test_no_process_is_asked_where_the_bytes_tell(data: bytes, file_format: FileFormat) -> None:
    """A file that its first bytes judge, or whose attributes nobody wants, is not opened."""
    asked: list[Seen] = []

    class Asked:
        def read(self, seen: Seen, *, near: bool) -> dict[str, Any]:
            asked.append(seen)
            return {"attributes": {}}

        def close(self) -> None:
            """Nothing was started."""

    read_one(Far(data), Asked(), file_format)
    assert asked == []
    read_one(Far(hdf5()), Asked(), FileFormat.HDF5)
    assert len(asked) == 1


def test_a_crash_costs_one_unit(tmp_path: Path) -> None:
    """Where one file crashes its reader, it fails with a code and its neighbours are read."""
    units = [unit(number) for number in range(12)]
    for number, each in enumerate(units):
        path = tmp_path / each.object_uri.removeprefix("s3://")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The size of a file decides: one that ends with 1 crashes.
        data = hdf5(values=40)
        room = (1 if number == 5 else 0) - len(data) % 10
        path.write_bytes(padded(data, len(data) + room % 10))
    reader = ObjectEvidenceReader(
        LocalObjects(tmp_path),
        lambda _: FileFormat.HDF5,
        threads=4,
        attributes=Hdf5Children(2, program=CRASHING),
    )
    answers = reader.read(units)
    reader.close()
    failed = answers[5]
    assert isinstance(failed, ReadFailure)
    assert failed.code == "reader_crashed"
    assert failed.message.startswith(units[5].object_uri)
    assert sum(isinstance(answer, Evidence) for answer in answers) == 11


def padded(data: bytes, length: int) -> bytes:
    """Return a file of that length, whose superblock says so: version 2, checked."""
    from tallgrass.evidence.lookup3 import lookup3  # noqa: PLC0415 - to forge, not to check

    block = data[:28] + length.to_bytes(8, "little") + data[36:44]
    block += lookup3(block).to_bytes(4, "little")
    return (block + data[48:]).ljust(length, b"\0")

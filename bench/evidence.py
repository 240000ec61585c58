"""Evidence of local objects beside obstore's own read of the same objects.

The floor is what no reader of an object can leave out: obstore opens the file and returns its
bytes. Evidence is all that a worker does in its place: it reads, takes the MD5 that is a local
object's etag, makes sure that the file did not change, and judges the header. Objects are those of
the feed, and forecasts of one megabyte. MD5 takes 1.5 ms of those, ten times what reading from the
system's memory does, so that for them it is left out of the ratio, and shown in another row. All
sides alternate, part by part, in one run and one thread, with the pipeline's own setting of the
garbage collector. Attributes of HDF5, which processes of their own read, are shown in milliseconds,
and so is a real radar volume, of which a record is decompressed for its last time (without the
folder that TALLGRASS_TEST_DATA names it is left out).
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
from obstore.store import LocalStore

from bench.report import Row, row
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence
from tallgrass.garbage import rare_collections
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.simulate.feed import Feed
from tallgrass.simulate.grib2_writer import grib2_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Objects of a part: many enough for the clock, few enough that a busy machine slows both sides.
PART = 50
RATIO_MAX = 2.0
ATTRIBUTES_MS_MAX = 5.0
#: MD5 takes 2 of them, bzip2 5; neither holds the interpreter's lock.
VOLUME_MS_MAX = 15.0
LARGE_BYTES = 1_000_000
_TIME = datetime(2026, 6, 1, tzinfo=UTC)


def benchmarks(folder: Path, *, quick: bool) -> list[Row]:
    """Return the cost of evidence beside that of reading."""
    with rare_collections():
        return [
            *_small(folder / "small", 1_000 if quick else 4_000),
            *_large(folder / "large", 100 if quick else 400),
            _attributes(folder / "attributes", 40 if quick else 150),
            *_volume(folder / "volume", 20 if quick else 60),
        ]


def _small(folder: Path, count: int) -> list[Row]:
    feed = Feed(seed=7, units=count)
    feed.write(folder)
    units = [
        _unit(each.dataset, each.object_uri)
        for each in feed.manifest().units
        if each.fate == "plain"
    ]
    reader = _reader(folder)
    ours, floor, _ = _compare(folder, units, lambda part: _judge(reader, part))
    return [
        row(
            "evidence: small object / obstore's own read",
            [one / bare for one, bare in zip(ours, floor, strict=True)],
            at_most=RATIO_MAX,
        )
    ]


def _large(folder: Path, count: int) -> list[Row]:
    units = [_unit("hrrr", f"s3://noaa-hrrr-bdp-pds/large/{number}") for number in range(count)]
    chance = random.Random(7)
    for each in units:
        _write(folder, each, _forecast(chance))
    reader = _reader(folder)
    ours, floor, hashing = _compare(folder, units, lambda part: _judge(reader, part))
    return [
        row(
            "evidence: object of 1 MB without its MD5 / obstore's own read",
            [
                max(one - digest, 0.0) / bare
                for one, digest, bare in zip(ours, hashing, floor, strict=True)
            ],
            at_most=RATIO_MAX,
        ),
        row(
            "evidence: object of 1 MB with its MD5 / obstore's own read",
            [one / bare for one, bare in zip(ours, floor, strict=True)],
        ),
    ]


def _attributes(folder: Path, count: int) -> Row:
    units = [_unit("goes-abi", f"s3://noaa-goes19/ABI/{number}.nc") for number in range(count)]
    for number, each in enumerate(units):
        _write(folder, each, _image(folder.with_name("image.nc"), number))
    reader = ObjectEvidenceReader(
        LocalObjects(folder), lambda _: FileFormat.HDF5, attributes=Hdf5Children()
    )
    try:
        reader.read(units[:10])  # starts the processes
        times = []
        for at in range(0, count - 9, 10):
            began = time.perf_counter()
            _judge(reader, units[at : at + 10])
            times.append((time.perf_counter() - began) / 10 * 1e3)
    finally:
        reader.close()
    return row("evidence: attributes of HDF5 by processes, in ms", times, at_most=ATTRIBUTES_MS_MAX)


def _volume(folder: Path, count: int) -> list[Row]:
    data = os.environ.get("TALLGRASS_TEST_DATA")
    root = Path(data) if data else Path(__file__).resolve().parents[2] / "shared" / "data"
    file = root / "nexrad-l2" / "KDMX20250101_225441_V06"
    if not file.is_file():
        print("no real radar volume: its evidence is not measured")
        return []
    unit = _unit("nexrad-l2", "s3://unidata-nexrad-level2/volume")
    _write(folder, unit, file.read_bytes())
    reader = _reader(folder)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        _judge(reader, [unit])
        times.append((time.perf_counter() - began) * 1e3)
    name = "evidence: radar volume of 1.4 MB with the time of its last radial, in ms"
    return [row(name, times, at_most=VOLUME_MS_MAX)]


def _compare(
    folder: Path, units: Sequence[IngestUnit], judge: Callable[[Sequence[IngestUnit]], None]
) -> tuple[list[float], list[float], list[float]]:
    """Return the times of each part: evidence, obstore's read, MD5."""
    store = LocalStore(folder)
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    judge(units[:PART])
    for number, at in enumerate(range(0, len(units) - PART + 1, PART)):
        part = units[at : at + PART]
        paths = [each.object_uri.removeprefix("s3://") for each in part]
        contents = [(folder / path).read_bytes() for path in paths]
        sides: list[Callable[[], object]] = [
            lambda part=part: judge(part),  # type: ignore[misc]
            lambda paths=paths: _obstore(store, paths),  # type: ignore[misc]
            lambda contents=contents: [hashlib.md5(c).hexdigest() for c in contents],  # type: ignore[misc]  # noqa: S324
        ]
        # Who comes first meets the files cold: they take turns.
        for turn in range(len(sides)):
            side = (number + turn) % len(sides)
            began = time.perf_counter()
            sides[side]()
            times[side].append(time.perf_counter() - began)
    return times


def _obstore(store: LocalStore, paths: Sequence[str]) -> int:
    return sum(len(bytes(store.get(path).bytes())) for path in paths)


def _reader(folder: Path) -> ObjectEvidenceReader:
    catalogue = default_catalogue()

    def format_of(unit: IngestUnit) -> FileFormat | None:
        dataset = catalogue.dataset(unit.dataset)
        return None if dataset is None else dataset.format

    return ObjectEvidenceReader(LocalObjects(folder), format_of, threads=1)


def _judge(reader: ObjectEvidenceReader, units: Sequence[IngestUnit]) -> None:
    answers = reader.read(units)
    assert all(isinstance(each, Evidence) and not each.issues for each in answers)


def _unit(dataset: str, uri: str) -> IngestUnit:
    return IngestUnit.of(
        dataset=dataset,
        object_uri=uri,
        provider="aws",
        queue="bench",
        time_range_start=_TIME,
        time_range_end=None,
        event=EventMetadata(event_time=_TIME),
        object_ref=ObjectReference(),
    )


def _write(folder: Path, unit: IngestUnit, content: bytes) -> None:
    path = folder / unit.object_uri.removeprefix("s3://")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _forecast(chance: random.Random) -> bytes:
    return grib2_message(
        reference=_TIME, forecast_hours=1, nx=1000, values=chance.randbytes(LARGE_BYTES)
    )


def _image(scratch: Path, number: int) -> bytes:
    """Return a file of the form and size of a satellite's image of a small sector."""
    with h5py.File(scratch, "w", libver="v108") as file:
        for name in range(25):
            file.attrs[f"attribute_{name}"] = "some text " * 8
        file.attrs["time_coverage_start"] = "2026-06-01T12:00:00.0Z"
        file.attrs["time_coverage_end"] = f"2026-06-01T12:00:{number % 60:02}.0Z"
        extent = file.create_dataset("geospatial_lat_lon_extent", data=0.0)
        extent.attrs["geospatial_westbound_longitude"] = -100.0
        extent.attrs["geospatial_southbound_latitude"] = 30.0
        extent.attrs["geospatial_eastbound_longitude"] = -90.0
        extent.attrs["geospatial_northbound_latitude"] = 40.0
        for name in range(36):
            file.create_dataset(f"variable_{name}", data=list(range(50)))
        file.create_dataset("image", data=[[number % 250] * 500] * 500, dtype="i2")
    return scratch.read_bytes()

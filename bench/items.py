"""Geometry and item of a unit: a share of 60 µs, over the fifteen deep datasets in turn.

Measured is what the operators do once evidence is read: `metadata_extract`, which makes times,
outline and properties, and `build_item`, which makes the item's bytes. Evidence is that of whole
objects (real files, in the folder that TALLGRASS_TEST_DATA names; without it there is no figure).
Those of radars and models repeat, as in feeds. The products of one scan of ABI (34 and more) or of
one granule of VIIRS (some 80) share an outline: theirs is moved a little after each 20 units, so
that no cache knows it. The figure is CPU time: nothing is waited for.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report import Row, row
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.item_ids import item_id
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence
from tallgrass.garbage import rare_collections
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.operators.metadata_extract import metadata_extract
from tallgrass.stac.item import build_item
from tallgrass.stac.source_object import SourceObject
from tests.stac.deep_objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_US = 60.0
ROUNDS = 9
#: Of each dataset in a round.
UNITS = 200
#: Units of an imager that share an outline.
SHARED = 20

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class _Unit:
    match: KeyMatch
    source: SourceObject
    item_id: str
    read: Evidence


def benchmarks() -> list[Row]:
    """Return the mean of all, and the dearest dataset for information."""
    data = os.environ.get("TALLGRASS_TEST_DATA")
    if not (Path(data) if data else _ROOT.parent / "shared" / "data").is_dir():
        print("no real files: geometry and item are not measured")
        return []
    units = _units()
    shares: dict[str, list[float]] = {name: [] for name in units}
    with rare_collections():
        for number in range(ROUNDS + 1):
            for name, unit in units.items():
                moved = [_moved(unit, (number * UNITS + each) // SHARED) for each in range(UNITS)]
                began = time.process_time()
                made = _make(moved)
                spent = (time.process_time() - began) / UNITS * 1e6
                assert len(made) == UNITS
                if number:  # The first round meets cold caches.
                    shares[name].append(spent / LIMIT_US)
    mean = [sum(of_round) / len(units) for of_round in zip(*shares.values(), strict=True)]
    dearest = max(shares, key=lambda name: sorted(shares[name])[ROUNDS // 2])
    name = f"geometry and item, a unit of 15 datasets / {LIMIT_US:g} µs"
    return [
        row(name, mean, at_most=1.0),
        row(f"geometry and item, the dearest ({dearest}) / {LIMIT_US:g} µs", shares[dearest]),
    ]


def _make(units: Sequence[_Unit]) -> list[bytes]:
    """Make items as the pipeline does: one operator after the other."""
    described = [metadata_extract(unit.match, unit.read).description for unit in units]
    return [
        build_item(
            dataset=unit.match.dataset,
            item_id=unit.item_id,
            source=unit.source,
            description=description,
        )
        for unit, description in zip(units, described, strict=True)
        if description is not None
    ]


def _moved(unit: _Unit, number: int) -> _Unit:
    """Move the outline of a swath, and the sector of an imager, by some metres."""
    header = dict(unit.read.header)
    points, grid = header.get("footprint"), header.get("grid")
    if unit.match.dataset.id == "jpss-viirs" and isinstance(points, list):
        header["footprint"] = [[x, round(y - number * 1e-5, 6)] for x, y in points]
    elif unit.match.dataset.id == "goes-abi" and isinstance(grid, dict):
        header["grid"] = {**grid, "x": [round(x + number * 1e-6, 6) for x in grid["x"]]}
    else:
        return unit
    return replace(unit, read=replace(unit.read, header=header))


def _units() -> dict[str, _Unit]:
    children = Hdf5Children(1)
    try:
        with tempfile.TemporaryDirectory(prefix="tallgrass-bench-") as folder:
            return {
                name: _unit(Path(folder), place, content(), children)
                for name, (place, content) in OBJECTS.items()
            }
    finally:
        children.close()


def _unit(folder: Path, place: str, content: bytes, children: Hdf5Children) -> _Unit:
    bucket, key = place.split("/", 1)
    match = default_catalogue().route("aws", bucket, key)
    assert isinstance(match, KeyMatch)
    path = folder / place
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    unit = IngestUnit.of(
        dataset=match.dataset.id,
        object_uri=f"s3://{place}",
        provider="aws",
        queue="bench",
        time_range_start=match.start,
        time_range_end=match.end,
        event=EventMetadata(event_time=match.start),
        object_ref=ObjectReference(),
    )
    reader = ObjectEvidenceReader(
        LocalObjects(folder), lambda _: match.dataset.format, threads=1, attributes=children
    )
    (read,) = reader.read([unit])
    assert isinstance(read, Evidence), read
    source = SourceObject(
        uri=unit.object_uri, provider="aws", bucket=bucket, key=key, etag=read.etag, size=read.size
    )
    return _Unit(match=match, source=source, item_id=item_id("aws", bucket, key), read=read)

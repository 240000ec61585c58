"""Objects of any dataset, put into a folder and read as a worker reads them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tests.support.builders import unit

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.evidence.hdf5_children import Hdf5Children
    from tallgrass.evidence.reading import Evidence, ReadFailure


class PlacedObject(NamedTuple):
    """What its key tells, its unit, and what was read of it."""

    match: KeyMatch
    unit: IngestUnit
    answer: Evidence | ReadFailure


def place_object(
    folder: Path, place: str, data: bytes, children: Hdf5Children | None = None
) -> PlacedObject:
    """Put an object at bucket and key into a folder, and read it."""
    bucket, key = place.split("/", 1)
    match = default_catalogue().route("aws", bucket, key)
    assert isinstance(match, KeyMatch), match
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
    made = IngestUnit.of(
        dataset=match.dataset.id,
        object_uri=f"s3://{place}",
        provider="aws",
        queue="tests",
        time_range_start=match.start,
        time_range_end=match.end,
        event=EventMetadata(event_time=unit(0).event.event_time),
        object_ref=ObjectReference(etag=etag, size=len(data)),
    )
    reader = ObjectEvidenceReader(
        LocalObjects(folder), lambda _: match.dataset.format, threads=1, attributes=children
    )
    return PlacedObject(match, made, reader.read([made])[0])

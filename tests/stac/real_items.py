"""Items of whole objects, read as a worker reads them and made by the chain's own operators."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.operators.trial import Trial, try_unit
from tests.support.builders import unit

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.evidence.hdf5_children import Hdf5Children


def tried(folder: Path, place: str, data: bytes, children: Hdf5Children | None = None) -> Trial:
    """Put an object at bucket and key into a folder; return what the operators say of it."""
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
    return try_unit(made, match, reader.read([made])[0], LedgerRules())


def item_of(folder: Path, place: str, data: bytes, children: Hdf5Children | None = None) -> Any:
    """Return the item of an object that passes all checks."""
    trial = tried(folder, place, data, children)
    assert trial.item is not None, (trial.integrity.issues, trial.metadata.issues)
    assert (trial.integrity.issues, trial.metadata.issues) == ((), ())
    return json.loads(trial.item)

"""Evidence read back from the ledger is as good as the object: the same outputs, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.errors import InvalidInput
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import Intent
from tallgrass.operators.run_unit import run_unit
from tallgrass.replay.recompute import AppliedAttempt, Recomputer
from tests.operators import scene
from tests.pipeline.scene import things
from tests.stac.deep_objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.operators.effects import ItemEffect, ProvenanceEffect

WHEN = datetime(2026, 6, 1, tzinfo=UTC)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)
EVIDENCE = st.builds(
    Evidence,
    etag=st.none() | st.text(st.characters(codec="utf-8")),
    size=st.none() | st.integers(0, 2**63 - 1),
    source=st.sampled_from(["object", "event"]),
    header=st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES),
    issues=st.lists(st.text(st.characters(codec="utf-8"))).map(tuple),
)


@given(EVIDENCE)
def test_evidence_comes_back_from_its_bytes(evidence: Evidence) -> None:
    """Read from its canonical bytes it is the same value, and gives the same bytes again."""
    again = Evidence.from_bytes(evidence.to_bytes())
    assert again == evidence
    assert again.to_bytes() == evidence.to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"etag":null,"header":{},"issues":[],"size":1}',
        b'{"etag":null,"header":[],"issues":[],"size":1,"source":"object"}',
        b'{"etag":null,"header":{},"issues":"ab","size":1,"source":"object"}',
        b'{"etag":null,"header":{},"issues":[],"size":1,"source":"object","when":1}',
        b'{"etag": null,"header":{},"issues":[],"size":1,"source":"object"}',
        b'{"header":{},"etag":null,"issues":[],"size":1,"source":"object"}',
        b'{"etag":null,"header":{},"issues":[],"size":1,"size":1,"source":"object"}',
    ],
)
def test_anything_but_canonical_evidence_is_refused(data: bytes) -> None:
    """Other forms of the same value are refused too: outputs name the hash of the bytes."""
    with pytest.raises(InvalidInput, match="the kept evidence"):
        Evidence.from_bytes(data)


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """The process that reads attributes."""
    made = Hdf5Children()
    yield made
    made.close()


def read_unit(
    folder: Path, place: str, data: bytes, children: Hdf5Children
) -> tuple[IngestUnit, Evidence]:
    """Put an object into a folder and read it as a worker does."""
    bucket, key = place.split("/", 1)
    match = default_catalogue().route("aws", bucket, key)
    assert isinstance(match, KeyMatch)
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    unit = IngestUnit.of(
        dataset=match.dataset.id,
        object_uri=f"s3://{place}",
        provider="aws",
        queue="q",
        time_range_start=match.start,
        time_range_end=match.end,
        event=EventMetadata(event_time=WHEN),
        object_ref=ObjectReference(size=len(data)),
    )
    reader = ObjectEvidenceReader(
        LocalObjects(folder), lambda _: match.dataset.format, threads=1, attributes=children
    )
    (reading,) = reader.read([unit])
    assert isinstance(reading, Evidence)
    return unit, reading


def first_outputs(unit: IngestUnit, reading: Evidence) -> tuple[Any, Any]:
    """Return what an ingest with fresh evidence makes."""
    claim = scene.claim(scene.glm())
    claim = type(claim)(
        unit=unit,
        attempt_no=1,
        version=2,
        intent=claim.intent,
        claimed_from=claim.claimed_from,
        budget_from=0,
        replay_run_id=None,
        has_message=True,
    )
    context = scene.context(code_version="1.2.3", config_version="abc")
    effects = run_unit(claim, reading, default_catalogue(), context).effects
    return effects.item, effects.provenance


def applied(unit: IngestUnit, evidence: bytes | None, **changes: Any) -> AppliedAttempt:
    """Return what the ledger would keep."""
    values: dict[str, Any] = {
        "unit": unit,
        "attempt_no": 7,
        "intent": Intent.REPAIR,
        "replay_run_id": "r-1",
        "evidence": evidence,
        "code_version": "1.2.3",
        "config_version": "abc",
    }
    return AppliedAttempt(**{**values, **changes})


def assert_same(
    unit: IngestUnit, reading: Evidence, item: ItemEffect | None, document: ProvenanceEffect | None
) -> None:
    """The outputs of kept evidence are those of the fresh one."""
    again = Recomputer(default_catalogue(), LedgerRules()).recompute(
        applied(unit, reading.to_bytes())
    )
    assert again.failure is None
    assert item is not None
    assert again.item == item
    assert document is not None
    assert again.provenance is not None
    assert (again.provenance.body, again.provenance.activity_id) == (
        document.body,
        document.activity_id,
    )


@pytest.mark.parametrize("name", list(OBJECTS))
def test_kept_evidence_of_a_real_object_makes_the_same_outputs(
    name: str, tmp_path: Path, children: Hdf5Children
) -> None:
    """Grids, footprints, times and numbers of every format survive the way through the ledger."""
    place, make = OBJECTS[name]
    unit, reading = read_unit(tmp_path, place, make(), children)
    assert_same(unit, reading, *first_outputs(unit, reading))


@pytest.mark.conformance("RP-1.2")
@pytest.mark.parametrize("number", range(3))
def test_kept_evidence_of_the_feed_makes_the_same_outputs(
    number: int, tmp_path: Path, children: Hdf5Children
) -> None:
    """The same for each kind of object that the simulated feed has."""
    given_thing = things(3)[number]
    place = f"{given_thing.place.bucket}/{given_thing.place.key}"
    unit, reading = read_unit(tmp_path, place, given_thing.content, children)
    assert reading.header
    assert_same(unit, reading, *first_outputs(unit, reading))


def test_a_new_run_would_name_its_own_versions(tmp_path: Path, children: Hdf5Children) -> None:
    """With versions given, provenance names those; the item holds none and stays the same."""
    one = things(1)[0]
    unit, reading = read_unit(
        tmp_path, f"{one.place.bucket}/{one.place.key}", one.content, children
    )
    kept = applied(unit, reading.to_bytes())
    rules = LedgerRules()
    then = Recomputer(default_catalogue(), rules).recompute(kept)
    now = Recomputer(default_catalogue(), rules, versions=("2.0.0", "def")).recompute(kept)
    assert then.item == now.item
    assert then.provenance is not None
    assert now.provenance is not None
    assert b'"kfm:codeVersion":"1.2.3"' in then.provenance.body
    assert b'"kfm:codeVersion":"2.0.0"' in now.provenance.body
    assert b'"kfm:configDigest":"def"' in now.provenance.body
    assert then.provenance.activity_id != now.provenance.activity_id


def test_what_cannot_be_made_again_says_why(tmp_path: Path, children: Hdf5Children) -> None:
    """No evidence, odd evidence and a failing operator are told by their codes."""
    one = things(1)[0]
    unit, reading = read_unit(
        tmp_path, f"{one.place.bucket}/{one.place.key}", one.content, children
    )
    recomputer = Recomputer(default_catalogue(), LedgerRules())
    empty = Evidence(etag="x", size=0, source="object", header={})
    codes = [
        recomputer.recompute(applied(unit, data)).failure
        for data in (None, b"{}", empty.to_bytes(), reading.to_bytes())
    ]
    assert [code and code[0] for code in codes] == [
        "evidence_missing",
        "evidence_unreadable",
        "size_zero",
        None,
    ]

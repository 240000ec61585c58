from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import Intent
from tallgrass.operators.chain import run_chain
from tallgrass.operators.events import idempotency_key
from tests.operators import scene

PARTS: dict[str, Any] = {
    "pipeline_id": "kfm-nodd-ingest",
    "event_name": "nodd.item.created",
    "dataset": "goes-glm",
    "object_uri": "s3://noaa-goes19/a.nc",
    "reference": ObjectReference(etag="e1", sequencer="00A1"),
    "content_hash": "f" * 64,
}
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


def prefixed(*parts: str) -> bytes:
    """Join parts with their lengths, as the contract of the key says."""
    return b"".join(len(each.encode()).to_bytes(4, "big") + each.encode() for each in parts)


@pytest.mark.conformance("RP-7.1")
def test_the_key_is_the_hash_of_its_five_parts() -> None:
    """A reader with a hash function and the contract computes the same key."""
    object_ref = "21:s3://noaa-goes19/a.nc,-4:00A1,2:e1,"
    expected = hashlib.sha256(
        prefixed("kfm-nodd-ingest", "nodd.item.created", "goes-glm", object_ref, "f" * 64)
    ).hexdigest()
    assert idempotency_key(**PARTS) == f"sha256:{expected}"


@pytest.mark.conformance("RP-7.1")
@given(
    left=st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
    right=st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT, TEXT),
    moved=st.integers(0, 4),
)
def test_different_parts_never_share_a_key(
    left: tuple[str, ...], right: tuple[str, ...], moved: int
) -> None:
    """Equal keys mean equal parts, also where a character moves from one part to the next."""

    def key(parts: tuple[str, ...]) -> str:
        pipeline, event, dataset, uri, etag, content = parts
        return idempotency_key(
            pipeline_id=pipeline,
            event_name=event,
            dataset=dataset,
            object_uri=uri,
            reference=ObjectReference(etag=etag),
            content_hash=content,
        )

    assert (key(left) == key(right)) == (left == right)
    shifted = list(left)
    shifted[moved], shifted[moved + 1] = left[moved] + "x", left[moved + 1]
    other = list(left)
    other[moved], other[moved + 1] = left[moved], "x" + left[moved + 1]
    assert key(tuple(shifted)) != key(tuple(other))


@pytest.mark.conformance("RP-7.1")
def test_a_replay_repeats_the_key_of_ingest() -> None:
    """Attempt, time, worker, message, intent and code version do not enter the key."""
    match = scene.glm()
    first = run_chain(scene.claim(match), match, scene.evidence(), None, scene.context())
    replayed = run_chain(
        scene.claim(match, attempt_no=7, intent=Intent.BACKFILL, replay_run_id="replay-1"),
        match,
        scene.evidence(),
        None,
        scene.context(worker_id="worker-b", code_version="9.9.9", ingest_run_id="run-2"),
    )
    assert replayed.effects.events[0].idempotency_key == first.effects.events[0].idempotency_key


def test_an_overwrite_is_a_new_event_even_with_old_content() -> None:
    """Two overwrites that bring back the same bytes are two events."""
    other = ObjectReference(etag="e1", sequencer="00A2")
    assert idempotency_key(**{**PARTS, "reference": other}) != idempotency_key(**PARTS)


def test_the_payload_names_item_object_and_activity() -> None:
    """A consumer finds what was made, from what, and how, without another question."""
    match = scene.glm()
    result = run_chain(scene.claim(match), match, scene.evidence(), None, scene.context())
    event, outcome = result.effects.events[0], result.outcome
    payload = json.loads(event.payload)
    assert payload == {
        "event": "nodd.item.created",
        "schema_version": "1.0.0",
        "idempotency_key": event.idempotency_key,
        "pipeline_id": "kfm-nodd-ingest",
        "dataset": "goes-glm",
        "wal_id": outcome.wal_id,
        "collection_id": "goes-glm",
        "item_id": outcome.stac_item_id,
        "item_href": outcome.stac_item_href,
        "item_sha256": outcome.item_sha256,
        "object": {
            "uri": f"s3://noaa-goes19/{scene.GLM_KEY}",
            "etag": scene.MD5,
            "size": 343_897,
            "version_id": None,
        },
        "prov_activity_id": outcome.prov_activity_id,
        "care_label": "public",
    }
    assert outcome.item_sha256 is not None
    assert event.version == f"1.0.0+{outcome.item_sha256[:16]}"


def test_lineage_events_are_made_where_a_target_wants_them() -> None:
    """START and COMPLETE of one run, each under its own key; a no-op has them too."""
    match = scene.glm()
    result = run_chain(
        scene.claim(match), match, scene.evidence(), None, scene.context(lineage_target="marquez")
    )
    names = [event.event_name for event in result.effects.events]
    assert names == ["nodd.item.created", "openlineage.start", "openlineage.complete"]
    assert len({event.idempotency_key for event in result.effects.events}) == 3

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.item_ids import item_id
from tallgrass.governance.policy import GovernanceDefaults
from tallgrass.ledger.claim import OwnedItem
from tallgrass.ledger.vocabulary import Intent
from tests.operators import scene
from tests.operators.scene import run_chain

if TYPE_CHECKING:
    from tallgrass.operators.effects import ChainResult


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


@pytest.mark.conformance("RP-7.1", "C-34")
def test_each_change_of_an_item_has_a_key_of_its_own() -> None:
    """The attempt is in the key of a change: the same attempt repeats it, a later one does not."""
    match = scene.glm()
    owned = OwnedItem(
        collection_id="goes-glm", item_id=item_id("aws", "noaa-goes19", scene.GLM_KEY), sha256="0"
    )

    def key(attempt_no: int, worker_id: str) -> str:
        claim = scene.claim(match, attempt_no=attempt_no)
        context = scene.context(worker_id=worker_id)
        (event,) = run_chain(claim, match, scene.evidence(), owned, context).effects.events
        assert event.event_name == "nodd.item.updated"
        assert json.loads(event.payload)["idempotency_key"] == event.idempotency_key
        return event.idempotency_key

    assert key(2, "worker-a") == key(2, "worker-b")
    assert len({key(2, "worker-a"), key(3, "worker-a"), key(23, "worker-a")}) == 3


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


def governed(**changes: Any) -> ChainResult:
    """Run the chain on a unit of a dataset that is governed as given."""
    values = {"care_label": "public", "sensitivity": "low", **changes}
    match = scene.glm(dataset=scene.dataset(governance=GovernanceDefaults(**values)))
    context = scene.context(lineage_target="marquez")
    return run_chain(scene.claim(match), match, scene.evidence(), None, context)


@pytest.mark.conformance("OB-6.4")
def test_restricted_data_are_told_of_only_with_a_reference() -> None:
    """Without one the unit is refused and no event is made; with one all its events carry it."""
    refused = governed(care_label="restricted")
    assert refused.outcome.error_code == "governance_hard_fail"
    assert refused.effects.events == ()
    events = governed(care_label="restricted", governance_ref="CR-7").effects.events
    assert [event.governance_ref for event in events] == ["CR-7"] * 3
    assert json.loads(events[0].payload)["governance_ref"] == "CR-7"


@pytest.mark.conformance("OB-6.3")
def test_sovereignty_travels_where_the_dataset_declares_it() -> None:
    """It is there as it was declared, and absent otherwise."""
    declared = {"tribal_authority": "Kaw Nation", "review_status": "approved"}
    assert json.loads(governed(sovereignty=declared).effects.events[0].payload)["sovereignty"] == (
        declared
    )
    assert "sovereignty" not in json.loads(governed().effects.events[0].payload)


@pytest.mark.conformance("OB-6.2")
@pytest.mark.parametrize("label", ["public", "sensitive", "restricted"])
def test_the_label_of_every_event_can_be_had(label: str) -> None:
    """Item events embed it; every row has it, so sinks pass it on with lineage events, too."""
    events = governed(care_label=label, governance_ref="CR-7").effects.events
    assert {event.care_label for event in events} == {label}
    assert json.loads(events[0].payload)["care_label"] == label

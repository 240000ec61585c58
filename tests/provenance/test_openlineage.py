from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.operators.effects import OwnedItem
from tallgrass.provenance.openlineage import EventType, LineageRun, build_event
from tallgrass.stac.source_object import SourceObject
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.stac import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator


def events_of(name: str, owned: OwnedItem | None = None) -> tuple[Any, list[Any]]:
    """Return the outcome and the two lineage events of a dataset's unit."""
    make, key = scene.MATCHES[name]
    match = make()
    result = run_chain(
        scene.claim(match, key),
        match,
        scene.evidence(),
        owned,
        scene.context(lineage_target="marquez"),
    )
    lineage = [each for each in result.effects.events if each.event_name.startswith("openlineage")]
    return result.outcome, [json.loads(each.payload) for each in lineage]


def facets(event: Any) -> Iterator[Any]:
    """Yield every facet of an event."""
    yield from event["run"]["facets"].values()
    yield from event["job"]["facets"].values()
    for each in (*event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from each.get(kind, {}).values()


def of_a_local_build() -> Any:
    """Return the event of a replay by a version that is no word of an address."""
    run = LineageRun(
        run_id="e2cb05c5-7c7c-5164-a0d8-081fa0f22e70",
        wal_id="3a192283-3ea0-8e34-9bfa-f20e8ae00627",
        attempt_no=1,
        dataset="goes-glm",
        activity_id="urn:prov:activity:x",
        code_version="0.1.0+local build",
        config_version="cfg",
        replay_run_id="replay-1",
        nominal_start=scene.STARTED,
        nominal_end=scene.ENDED,
        source=SourceObject(uri="s3://b/k", provider="aws", bucket="b", key="k"),
    )
    return json.loads(build_event(EventType.COMPLETE, scene.ENDED, run))


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_event_and_facet_passes_its_published_schema(name: str) -> None:
    """Schema 2-0-2 for the events, and for each facet the schema that it names."""
    for event in (*events_of(name)[1], of_a_local_build()):
        assert schemas.openlineage_errors(event, event["schemaURL"]) == []
        for facet in facets(event):
            assert schemas.openlineage_errors(facet, facet["_schemaURL"]) == []


def test_the_schemas_find_a_broken_event() -> None:
    """The test before this one can fail, for events and for facets."""
    event = events_of("goes-glm")[1][0]
    event["run"]["runId"] = "not a uuid"
    assert schemas.openlineage_errors(event, event["schemaURL"]) != []
    facet = event["run"]["facets"]["nominalTime"]
    del facet["nominalStartTime"]
    assert schemas.openlineage_errors(facet, facet["_schemaURL"]) != []


def test_a_run_has_a_start_and_an_end_of_one_run_and_job() -> None:
    """Both events name the run of the attempt, the job of the dataset, and schema 2-0-2."""
    outcome, (start, complete) = events_of("goes-glm")
    assert [start["eventType"], complete["eventType"]] == ["START", "COMPLETE"]
    for event in (start, complete):
        assert event["run"]["runId"] == outcome.openlineage_run_id
        assert event["job"]["namespace"] == "kfm-nodd"
        assert event["job"]["name"] == "kfm.nodd.ingest.goes-glm"
        assert event["schemaURL"].startswith("https://openlineage.io/spec/2-0-2/")
        assert event["run"]["facets"]["kfm_wal"]["walId"] == outcome.wal_id
        assert all({"_producer", "_schemaURL"} <= set(facet) for facet in facets(event))
        assert event["inputs"][0]["namespace"] == "s3://noaa-goes19"
        assert event["inputs"][0]["name"] == scene.GLM_KEY
    assert start["eventTime"] == "2026-01-02T03:05:00.000000Z"
    assert complete["eventTime"] == "2026-01-02T03:05:01.000000Z"
    assert start["outputs"] == []


@pytest.mark.parametrize(("sha256", "change"), [("0" * 64, "OVERWRITE"), (None, None)])
def test_the_output_says_what_became_of_the_item(sha256: str | None, change: str | None) -> None:
    """A new item is created, a changed one overwritten, an unchanged one neither."""
    first, (_, created) = events_of("goes-glm")
    assert _change(created) == "CREATE"
    owned = OwnedItem(
        collection_id="goes-glm", item_id=first.stac_item_id, sha256=sha256 or first.item_sha256
    )
    again, (_, complete) = events_of("goes-glm", owned)
    assert _change(complete) == change
    assert complete["outputs"][0]["name"] == f"goes-glm/{again.stac_item_id}"


def _change(event: Any) -> str | None:
    facet = event["outputs"][0]["facets"].get("lifecycleStateChange")
    return None if facet is None else facet["lifecycleStateChange"]


def test_a_producer_is_an_address_whatever_the_version() -> None:
    """What an address cannot hold is escaped, and the facets tell of the replay."""
    event = of_a_local_build()
    assert event["run"]["facets"]["kfm_wal"]["replayRunId"] == "replay-1"
    assert event["producer"] == "urn:tallgrass:0.1.0%2Blocal%20build"

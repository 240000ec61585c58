from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyshacl
import pytest
from rdflib import RDF, BNode, Graph, Namespace, URIRef

from tallgrass.provenance.ids import activity_id, netstrings, run_id, uuid5
from tallgrass.provenance.prov import RUN_FIELDS, RUN_KEY
from tallgrass.stac.source_object import SourceObject
from tests.operators import scene
from tests.operators.scene import run_chain

# rdflib's own JSON-LD reader and pySHACL use names that rdflib itself calls outdated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(Graph|Dataset).* is deprecated:DeprecationWarning"
)

SHAPES = Path(__file__).resolve().parents[1] / "shapes" / "prov.ttl"
PROV = Namespace("http://www.w3.org/ns/prov#")
KFM = Namespace("urn:kfm:ns:")
WAL_ID = "3a192283-3ea0-8e34-9bfa-f20e8ae00627"
SOURCE = SourceObject(
    uri="s3://b/k", provider="aws", bucket="b", key="k", etag="e", size=5, version_id=None
)


def provenance_of(name: str, **changes: Any) -> tuple[Any, Any]:
    """Return outcome and staged provenance of a dataset's unit."""
    make, key = scene.MATCHES[name]
    match = make()
    result = run_chain(
        scene.claim(match, key), match, scene.evidence(), None, scene.context(**changes)
    )
    return result.outcome, result.effects.provenance


def graph_of(body: bytes | str) -> Graph:
    """Return the RDF graph that a JSON-LD document is, as rdflib reads it."""
    return Graph().parse(data=body, format="json-ld")


def conforms(graph: Graph) -> bool:
    """Tell whether a graph passes the shapes."""
    result, _, _ = pyshacl.validate(graph, shacl_graph=str(SHAPES))
    return bool(result)


@pytest.mark.parametrize("name", list(scene.MATCHES))
def test_each_body_is_a_graph_of_iris_that_passes_the_shapes(name: str) -> None:
    """Another program's reader finds every relation, no blank node, and the shapes hold."""
    outcome, provenance = provenance_of(name)
    graph = graph_of(provenance.body)
    assert not [each for triple in graph for each in triple if isinstance(each, BNode)]
    activity = URIRef(outcome.prov_activity_id)
    assert (activity, RDF.type, PROV.Activity) in graph
    source, item = graph.value(activity, PROV.used), graph.value(activity, PROV.generated)
    assert (item, PROV.wasDerivedFrom, source) in graph
    assert (item, PROV.wasGeneratedBy, activity) in graph
    assert str(graph.value(item, KFM.sha256)) == outcome.item_sha256
    assert str(graph.value(item, KFM.stacItemId)) == outcome.stac_item_id
    assert str(graph.value(activity, KFM.walId)) == outcome.wal_id
    assert len(graph) == 9 + 2 + 6 + 8  # activity, agent, source, item: nothing else
    assert conforms(graph)


@pytest.mark.parametrize("term", ["used", "generated", "wasAssociatedWith", "kfm:walId", "@type"])
def test_a_broken_document_does_not_pass(term: str) -> None:
    """Each thing that an activity must say is missed when it is gone."""
    _, provenance = provenance_of("goes-glm")
    document = json.loads(provenance.body)
    del document["@graph"][0][term]
    assert not conforms(graph_of(json.dumps(document)))


@pytest.mark.parametrize("term", ["wasDerivedFrom", "wasGeneratedBy", "kfm:sha256"])
def test_an_item_without_its_origin_does_not_pass(term: str) -> None:
    """Each thing that an item's entity must say is missed when it is gone."""
    _, provenance = provenance_of("goes-glm")
    document = json.loads(provenance.body)
    del document["@graph"][3][term]
    assert not conforms(graph_of(json.dumps(document)))


def test_a_time_in_the_body_does_not_pass() -> None:
    """What differs from run to run may not stand in the body."""
    _, provenance = provenance_of("goes-glm")
    document = json.loads(provenance.body)
    document["@graph"][0]["prov:startedAtTime"] = "2026-01-01T00:00:00Z"
    assert not conforms(graph_of(json.dumps(document)))


def test_the_run_part_is_tagged_and_holds_the_declared_fields() -> None:
    """All that may differ stands below one key, and the declared list is complete."""
    outcome, provenance = provenance_of("goes-glm")
    run = json.loads(provenance.run)
    assert set(run) == {"activity", RUN_KEY}
    assert tuple(sorted(run[RUN_KEY])) == RUN_FIELDS
    assert run["activity"] == outcome.prov_activity_id
    assert run[RUN_KEY] == {
        "attempt": 1,
        "endedAtTime": "2026-01-02T03:05:01.000000Z",
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "ingestRunId": "run-1",
        "intent": "ingest",
        "openlineageRunId": outcome.openlineage_run_id,
        "queue": "nodd-primary",
        "replayRunId": None,
        "snsMessageId": "sns-1",
        "sqsMessageId": "sqs-1",
        "startedAtTime": "2026-01-02T03:05:00.000000Z",
        "wasInformedBy": None,
        "wasRevisionOf": None,
        "workerId": "worker-a",
    }


def test_ids_are_those_of_the_uuid_standard() -> None:
    """Python's own uuid module gives the same UUIDv5 of the same namespace and name."""
    namespace = uuid.UUID(WAL_ID)
    made = uuid.uuid5(namespace, "8:activity,-1:e,1:5,5:0.1.0,3:cfg,")
    assert activity_id(WAL_ID, SOURCE, "0.1.0", "cfg") == f"urn:prov:activity:{made}"
    assert run_id(WAL_ID, 12) == str(uuid.uuid5(namespace, "3:run,2:12,"))
    for number in range(100):
        assert uuid5(WAL_ID, number) == str(uuid.uuid5(namespace, netstrings(number)))


def test_parts_of_a_name_cannot_be_confused() -> None:
    """Absent, empty, moved and multi-byte parts all give different names."""
    names = [
        netstrings("ab", "c"),
        netstrings("a", "bc"),
        netstrings("abc", ""),
        netstrings("abc", None),
        netstrings("abc"),
        netstrings("3:abc,"),
        netstrings("äbc"),
    ]
    assert len(set(names)) == len(names)
    assert netstrings("ä") == "2:ä,"


@pytest.mark.parametrize("changes", [{"code_version": "0.2.0"}, {"config_version": "cfg-2"}])
def test_another_program_is_another_activity_with_the_same_item(changes: dict[str, str]) -> None:
    """Versions are in provenance alone: the item's bytes do not change with them."""
    before, after = provenance_of("goes-glm")[0], provenance_of("goes-glm", **changes)[0]
    assert before.prov_activity_id != after.prov_activity_id
    assert before.item_sha256 == after.item_sha256
    assert before.openlineage_run_id == after.openlineage_run_id

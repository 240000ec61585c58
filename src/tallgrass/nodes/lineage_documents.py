"""Lineage of a node's task as documents: OpenLineage run events and PROV-O, from its journal alone.

Every time, count and name stands in the journal, so a document that is made again, after a crash
or from the journal when all else is lost, has the same bytes and the same key. Of sensitive data
neither hashes nor texts of errors are told: a hash of a place can be undone by trying all places.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tallgrass.canonical_json import canonical_bytes
from tallgrass.nodes.gatekeeper import NO_DATASET
from tallgrass.nodes.lineage_facts import NodeLineage
from tallgrass.nodes.lineage_prov import address_of, provenance_of
from tallgrass.outbox.keys import idempotency_key
from tallgrass.provenance.ids import netstrings
from tallgrass.provenance.openlineage import (
    BASE_RUN_FACET,
    NAMESPACE,
    SCHEMA_URL,
    EventType,
    facet,
)

#: Jobs of nodes.
JOB_NAMESPACE: Final = "kfm-nodes"
PROVENANCE_EVENT: Final = "node.provenance"
#: Version of the OpenLineage schema, and of the form of our provenance.
OPENLINEAGE_VERSION: Final = "2.0.2"
PROVENANCE_VERSION: Final = "1.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDocument:
    """One document, under a key that depends on the call alone."""

    run_id: str
    event_name: str
    version: str
    key: str
    #: Names what it is about, for who keeps order.
    subject: str
    body: Mapping[str, Any]
    pipeline: str
    dataset_id: str
    care_label: str
    governance_ref: str | None
    sovereignty: Mapping[str, Any]

    @property
    def line(self) -> bytes:
        """Its canonical bytes."""
        return canonical_bytes(dict(self.body))


def documents_of(lineage: NodeLineage) -> list[LineageDocument]:
    """Return START and COMPLETE or FAIL of OpenLineage, and the provenance."""
    return [
        _document(lineage, f"openlineage.{each.value.lower()}", at, _event(lineage, each, at))
        for each, at in (
            (EventType.START, lineage.started_at),
            (lineage.ended, lineage.ended_at),
        )
    ] + [_document(lineage, PROVENANCE_EVENT, lineage.ended_at, provenance_of(lineage))]


def _document(
    lineage: NodeLineage, event_name: str, at: str, body: Mapping[str, Any]
) -> LineageDocument:
    said, task = lineage.said, lineage.task
    dataset_id = said["dataset"] or NO_DATASET
    is_provenance = event_name == PROVENANCE_EVENT
    return LineageDocument(
        run_id=lineage.run_id,
        event_name=event_name,
        version=PROVENANCE_VERSION if is_provenance else OPENLINEAGE_VERSION,
        key=idempotency_key(
            pipeline_id=said["pipeline"],
            event_name=event_name,
            dataset_id=dataset_id,
            object_ref=netstrings(lineage.run_id, task.node_id, lineage.sealed(task.task_id)),
            content_hash=netstrings(lineage.sealed(lineage.identity), at),
        ),
        subject=f"node/{lineage.openlineage_run_id}",
        body=body,
        pipeline=said["pipeline"],
        dataset_id=dataset_id,
        care_label=said["care_label"],
        governance_ref=said["governance_ref"],
        sovereignty=said["sovereignty"],
    )


# --- OpenLineage ----------------------------------------------------------------------------------


def _event(lineage: NodeLineage, event_type: EventType, at: str) -> dict[str, Any]:
    said = lineage.said
    producer = _producer(said)
    is_complete = event_type is EventType.COMPLETE
    return {
        "eventType": event_type.value,
        "eventTime": at,
        "producer": producer,
        "schemaURL": SCHEMA_URL,
        "run": {
            "runId": lineage.openlineage_run_id,
            "facets": _run_facets(producer, lineage, event_type),
        },
        "job": {
            "namespace": JOB_NAMESPACE,
            "name": f"{said['pipeline']}.{lineage.task.node_id}",
            "facets": {
                "jobType": facet(
                    producer,
                    "2-0-4/JobTypeJobFacet",
                    processingType="BATCH",
                    integration="TALLGRASS",
                    jobType="NODE",
                )
            },
        },
        "inputs": [dataset_name(name) for name in lineage.reads],
        "outputs": [_output(producer, lineage, name) for name in said["writes"] if is_complete],
    }


def _run_facets(
    producer: str, lineage: NodeLineage, event_type: EventType
) -> dict[str, dict[str, Any]]:
    said = lineage.said
    parent = {"namespace": JOB_NAMESPACE, "name": said["pipeline"]}
    facets: dict[str, dict[str, Any]] = {
        "parent": facet(
            producer,
            "1-2-0/ParentRunFacet",
            run={"runId": lineage.parent_run_id},
            job=parent,
        ),
        "processing_engine": facet(
            producer,
            "1-1-1/ProcessingEngineRunFacet",
            name="tallgrass",
            version=said["environment"]["tallgrass"],
        ),
        "kfm_node": _own_facet(
            producer,
            runId=lineage.run_id,
            nodeId=lineage.task.node_id,
            taskId=lineage.told(lineage.task.task_id),
            env=said["env"],
            codeVersion=said["code_version"],
            provActivityId=lineage.activity_id,
        ),
        **_governance_facets(producer, said),
    }
    if event_type is not EventType.START:
        facets["kfm_node"] |= {"attempts": lineage.attempts, "fromCache": lineage.from_cache}
    if event_type is EventType.FAIL:
        facets["errorMessage"] = facet(
            producer,
            "1-0-1/ErrorMessageRunFacet",
            message=lineage.failure or "",
            programmingLanguage="PYTHON",
        )
    return facets


def _governance_facets(producer: str, said: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what governs the data; each stands on every event, also where nothing is declared."""
    return {
        "kfm_care": _own_facet(
            producer, careLabel=said["care_label"], governanceRef=said["governance_ref"]
        ),
        "kfm_sovereignty": _own_facet(
            producer, declared=bool(said["sovereignty"]), sovereignty=dict(said["sovereignty"])
        ),
        "kfm_policy": _own_facet(producer, policyId=said["policy_ref"]),
        "kfm_data_contract": _own_facet(
            producer, dataset=said["dataset"], dataVersion=said["data_version"]
        ),
    }


def _own_facet(producer: str, **fields: object) -> dict[str, Any]:
    return {"_producer": producer, "_schemaURL": BASE_RUN_FACET, **fields}


def _output(producer: str, lineage: NodeLineage, name: str) -> dict[str, Any]:
    described: dict[str, Any] = dataset_name(name)
    version = lineage.told(lineage.result_hash)
    if version is not None:
        described["facets"] = {
            "version": facet(producer, "1-0-1/DatasetVersionDatasetFacet", datasetVersion=version)
        }
    return described


def dataset_name(name: str) -> dict[str, Any]:
    """Name a dataset as OpenLineage does: an address by its place, an id within the catalog."""
    parts = address_of(name)
    if parts is not None and parts.netloc:
        namespace = f"{parts.scheme}://{parts.netloc}"
        return {"namespace": namespace, "name": name[len(namespace) :].lstrip("/") or "/"}
    return {"namespace": NAMESPACE, "name": name}


def _producer(said: Mapping[str, Any]) -> str:
    return f"urn:tallgrass:{quote(said['environment']['tallgrass'], safe='')}"

"""Provenance of one execution of a node: PROV-O as JSON-LD.

Times stand in it: it tells of this execution, and is the same whenever it is made again.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlsplit

from tallgrass.nodes.lineage_facts import NodeLineage
from tallgrass.provenance.ids import agent_id, uuid5
from tallgrass.provenance.prov import CONTEXT

_INSTANT: Final = "http://www.w3.org/2001/XMLSchema#dateTime"


def provenance_of(lineage: NodeLineage) -> dict[str, Any]:
    """Return the document: the activity, who did it, what it used, what it made."""
    agent = agent_id(quote(lineage.said["pipeline"], safe=""))
    used = [_input_entity(lineage), *(_dataset_entity(name) for name in lineage.reads)]
    made = _made(lineage, agent, [each["@id"] for each in used])
    targets = [_dataset_entity(name) for name in lineage.said["writes"] if made]
    activity = {
        "@id": lineage.activity_id,
        "@type": ["prov:Activity", "kfm:nodeActivity"],
        "used": [each["@id"] for each in used],
        **({"generated": [each["@id"] for each in made]} if made else {}),
        "wasAssociatedWith": agent,
        "prov:startedAtTime": {"@type": _INSTANT, "@value": lineage.started_at},
        "prov:endedAtTime": {"@type": _INSTANT, "@value": lineage.ended_at},
        **_activity_facts(lineage),
    }
    known = {each["@id"]: each for each in (*used, *targets)}
    agent_node = {"@id": agent, "@type": ["prov:Agent", "prov:SoftwareAgent"]}
    return {"@context": CONTEXT, "@graph": [activity, agent_node, *known.values(), *made]}


def _activity_facts(lineage: NodeLineage) -> dict[str, Any]:
    said = lineage.said
    facts = {
        "kfm:pipeline": said["pipeline"],
        "kfm:env": said["env"],
        "kfm:runId": lineage.run_id,
        "kfm:nodeId": lineage.task.node_id,
        "kfm:taskId": lineage.told(lineage.task.task_id),
        "kfm:openlineageRunId": lineage.openlineage_run_id,
        "kfm:codeVersion": said["code_version"],
        "kfm:dataVersion": said["data_version"],
        "kfm:attempts": lineage.attempts,
        "kfm:fromCache": lineage.from_cache,
        "kfm:succeeded": lineage.failure is None,
        **_governed_by(said),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _governed_by(said: Mapping[str, Any]) -> dict[str, Any]:
    facts = {
        "kfm:careLabel": said["care_label"],
        "kfm:governanceRef": said["governance_ref"],
        "kfm:policyRef": said["policy_ref"],
        "kfm:sovereignty": [f"{name}: {each}" for name, each in said["sovereignty"].items()],
    }
    return {name: value for name, value in facts.items() if value}


def _input_entity(lineage: NodeLineage) -> dict[str, Any]:
    digest = lineage.told(lineage.said["inputs_hash"])
    return {
        "@id": f"urn:prov:entity:node-input:{uuid5(lineage.openlineage_run_id, 'input', digest)}",
        "@type": ["prov:Entity", "kfm:nodeInput"],
        "kfm:careLabel": lineage.said["care_label"],
        **({} if digest is None else {"kfm:sha256": digest}),
    }


def _dataset_entity(name: str) -> dict[str, Any]:
    return {"@id": _dataset_iri(name), "@type": ["prov:Entity", "kfm:dataset"], "kfm:id": name}


def _made(lineage: NodeLineage, agent: str, sources: list[str]) -> list[dict[str, Any]]:
    """Return the result, and each dataset in the version that it wrote; nothing if it failed.

    Each is this execution's own: no entity is made twice.
    """
    if lineage.failure is not None:
        return []
    activity = lineage.activity_id.removeprefix("urn:prov:activity:")
    digest = lineage.told(lineage.result_hash)
    common = {
        "wasDerivedFrom": sources,
        "wasGeneratedBy": lineage.activity_id,
        "wasAttributedTo": agent,
        **_governed_by(lineage.said),
        **({} if digest is None else {"kfm:sha256": digest}),
    }
    result = {
        "@id": f"urn:prov:entity:node-result:{uuid5(activity, 'result')}",
        "@type": ["prov:Entity", "kfm:nodeResult"],
        **common,
    }
    versions = [
        {
            "@id": f"urn:prov:entity:dataset-version:{uuid5(activity, 'writes', name)}",
            "@type": ["prov:Entity", "kfm:datasetVersion"],
            "prov:specializationOf": {"@id": _dataset_iri(name)},
            **common,
        }
        for name in lineage.said["writes"]
    ]
    return [result, *versions]


def address_of(name: str) -> SplitResult | None:
    """Return the parts of a dataset's address; None of what is an id of the catalog."""
    try:
        parts = urlsplit(name)
    except ValueError:
        return None
    return parts if parts.scheme and (parts.netloc or parts.scheme == "urn") else None


def _dataset_iri(name: str) -> str:
    """Return an address as it is, and an id of the catalog as a name."""
    if address_of(name) is not None:
        return quote(name, safe="%/:?#[]@!$&'()*+,;=~")
    return f"urn:kfm:dataset:{quote(name, safe='/')}"

"""PROV-O as JSON-LD: how an item came to be.

The `body` is a function of the unit, the object version, the evidence and the versions of code and
configuration. What differs from run to run stands apart, in the `run` part, below one key that says
so; `RUN_FIELDS` is the whole list.
"""

from dataclasses import dataclass
from typing import Protocol

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.unit import IngestUnit
from tallgrass.provenance.ids import item_entity_id, source_entity_id
from tallgrass.stac.source_object import SourceObject

#: Every term is an IRI; nothing is fetched to read a document.
CONTEXT = {
    "prov": "http://www.w3.org/ns/prov#",
    "kfm": "urn:kfm:ns:",
    "used": {"@id": "prov:used", "@type": "@id"},
    "generated": {"@id": "prov:generated", "@type": "@id"},
    "wasAssociatedWith": {"@id": "prov:wasAssociatedWith", "@type": "@id"},
    "wasAttributedTo": {"@id": "prov:wasAttributedTo", "@type": "@id"},
    "wasDerivedFrom": {"@id": "prov:wasDerivedFrom", "@type": "@id"},
    "wasGeneratedBy": {"@id": "prov:wasGeneratedBy", "@type": "@id"},
}

#: All documents begin with the same bytes.
_CONTEXT_WRITTEN = orjson.Fragment(canonical_bytes(CONTEXT))

#: Tags the part of a provenance record that may differ between two runs.
RUN_KEY = "nonDeterministic"
#: All that may differ between two runs with the same object, code and configuration.
RUN_FIELDS = (
    "attempt",
    "endedAtTime",
    "eventTime",
    "ingestRunId",
    "intent",
    "openlineageRunId",
    "queue",
    "replayRunId",
    "snsMessageId",
    "sqsMessageId",
    "startedAtTime",
    "wasInformedBy",
    "wasRevisionOf",
    "workerId",
)


class ItemName(Protocol):
    """Which item was made."""

    @property
    def collection_id(self) -> str:
        """The collection that it is in."""

    @property
    def item_id(self) -> str:
        """Its id there."""

    @property
    def sha256(self) -> str:
        """That of its stored bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Which program makes items, in which version."""

    agent_id: str
    code_version: str
    config_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """By whom and when attempts are made; the times as text, written once for a batch."""

    worker_id: str
    ingest_run_id: str
    started_at: str
    ended_at: str


def build_body(
    *,
    unit: IngestUnit,
    activity_id: str,
    source: SourceObject,
    evidence_sha256: str,
    item: ItemName,
    program: Program,
    policy_ref: str | None = None,
) -> bytes:
    """Return the canonical bytes of the PROV-O document."""
    agent = program.agent_id
    used = source_entity_id(source)
    made = item_entity_id(item.sha256)
    entity: dict[str, object] = {
        "@id": used,
        "@type": ["prov:Entity", "kfm:sourceObject"],
        "kfm:objectUri": source.uri,
        "kfm:evidenceSha256": evidence_sha256,
    }
    known = (
        ("kfm:etag", source.etag),
        ("kfm:sizeBytes", source.size),
        ("kfm:versionId", source.version_id),
    )
    entity |= {name: value for name, value in known if value is not None}
    return canonical_bytes(
        {
            "@context": _CONTEXT_WRITTEN,
            "@graph": [
                {
                    "@id": activity_id,
                    "@type": ["prov:Activity", "kfm:noddIngestActivity"],
                    "used": used,
                    "generated": made,
                    "wasAssociatedWith": agent,
                    "kfm:walId": unit.wal_id,
                    "kfm:dataset": unit.dataset,
                    "kfm:codeVersion": program.code_version,
                    "kfm:configDigest": program.config_version,
                    **({} if policy_ref is None else {"kfm:policyRef": policy_ref}),
                },
                {"@id": agent, "@type": ["prov:Agent", "prov:SoftwareAgent"]},
                entity,
                {
                    "@id": made,
                    "@type": ["prov:Entity", "kfm:stacItem"],
                    "wasDerivedFrom": used,
                    "wasGeneratedBy": activity_id,
                    "wasAttributedTo": agent,
                    "kfm:stacCollectionId": item.collection_id,
                    "kfm:stacItemId": item.item_id,
                    "kfm:sha256": item.sha256,
                },
            ],
        }
    )


def build_run(
    *,
    claim: Claim,
    run: Run,
    activity_id: str,
    run_id: str,
    replaced_sha256: str | None,
    informed_by: str | None = None,
) -> bytes:
    """Return the canonical bytes of the part that differs from run to run.

    `replaced_sha256` is that of the item which this one replaces, if it does; `informed_by` the
    activity that made what the unit has in the catalog, if another did.
    """
    unit = claim.unit
    return canonical_bytes(
        {
            "activity": activity_id,
            RUN_KEY: {
                "attempt": claim.attempt_no,
                "endedAtTime": run.ended_at,
                "eventTime": format_instant(unit.event.event_time),
                "ingestRunId": run.ingest_run_id,
                "intent": claim.intent.value,
                "openlineageRunId": run_id,
                "queue": unit.queue,
                "replayRunId": claim.replay_run_id,
                "snsMessageId": unit.event.sns_message_id,
                "sqsMessageId": unit.event.sqs_message_id,
                "startedAtTime": run.started_at,
                "wasInformedBy": None if informed_by == activity_id else informed_by,
                "wasRevisionOf": None
                if replaced_sha256 is None
                else item_entity_id(replaced_sha256),
                "workerId": run.worker_id,
            },
        }
    )

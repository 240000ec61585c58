"""Outgoing events: what consumers hear of, each under a key that a repetition repeats."""

from tallgrass.canonical_json import canonical_bytes
from tallgrass.governance.gate import Admission
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import EventEffect, ItemEffect
from tallgrass.outbox.keys import idempotency_key, object_version_ref
from tallgrass.outbox.payload_rules import (
    GOVERNANCE_REF,
    MASKING,
    POLICY_REF,
    SOVEREIGNTY,
    masking_note,
)
from tallgrass.stac.source_object import SourceObject

CREATED = "nodd.item.created"
UPDATED = "nodd.item.updated"

_NAMES = {StacStatus.CREATED: CREATED, StacStatus.UPDATED: UPDATED}
#: Form of the payload; the item's own version follows it as build metadata.
_PAYLOAD_VERSION = "1.0.0"


def item_event(
    *,
    claim: Claim,
    status: StacStatus,
    item: ItemEffect,
    href: str,
    source: SourceObject,
    activity_id: str,
    admission: Admission,
    context: ChainContext,
) -> EventEffect | None:
    """Return the event of a new or changed item; an item that stays the same has none."""
    name = _NAMES.get(status)
    if name is None:
        return None
    unit = claim.unit
    key = idempotency_key(
        pipeline_id=context.pipeline_id,
        event_name=name,
        dataset_id=unit.dataset,
        object_ref=announced_version(unit),
        content_hash=_told_content(status, item, claim),
    )
    return EventEffect(
        event_name=name,
        dataset_id=unit.dataset,
        version=f"{_PAYLOAD_VERSION}+{item.sha256[:16]}",
        idempotency_key=key,
        payload=canonical_bytes(
            {
                "event": name,
                "schema_version": _PAYLOAD_VERSION,
                "idempotency_key": key,
                "pipeline_id": context.pipeline_id,
                "dataset": unit.dataset,
                "wal_id": unit.wal_id,
                "collection_id": item.collection_id,
                "item_id": item.item_id,
                "item_href": href,
                "item_sha256": item.sha256,
                "object": {
                    "uri": source.uri,
                    "etag": source.etag,
                    "size": source.size,
                    "version_id": source.version_id,
                },
                "prov_activity_id": activity_id,
                "care_label": admission.care_label,
                **_governed_by(admission),
            }
        ),
        care_label=admission.care_label,
        governance_ref=admission.governance_ref,
        targets=context.routing.targets_for(name, unit.dataset, admission.care_label),
    )


def _told_content(status: StacStatus, item: ItemEffect, claim: Claim) -> str:
    """Return the content as the key names it.

    An item is created once. It can change to the same content more than once, by going back in
    between (a release that is rolled back and then returns), so a change is told by the attempt
    that made it: a second change under the key of the first would never be told.
    """
    if status is StacStatus.CREATED:
        return item.sha256
    return f"{item.sha256}:{claim.attempt_no}"


def _governed_by(admission: Admission) -> dict[str, object]:
    """Return what travels along where the dataset declares it."""
    fields: dict[str, object] = {}
    if admission.governance_ref is not None:
        fields[GOVERNANCE_REF] = admission.governance_ref
    if admission.sovereignty:
        fields[SOVEREIGNTY] = dict(admission.sovereignty)
    if admission.policy_ref is not None:
        fields[POLICY_REF] = admission.policy_ref
    if admission.masking_degrees:
        fields[MASKING] = masking_note(admission.masking_degrees)
    return fields


def announced_version(unit: IngestUnit) -> str:
    """Return the object in the version that was announced, as event keys name it."""
    reference = unit.object_ref
    return object_version_ref(
        unit.object_uri,
        version_id=reference.version_id,
        sequencer=reference.sequencer,
        etag=reference.etag,
    )

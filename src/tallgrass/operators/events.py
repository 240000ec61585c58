"""Outgoing events: what consumers hear of, each under a key that a repetition repeats."""

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.governance.gate import Admission
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import EventEffect, OwnedItem
from tallgrass.operators.stac_register import Registration
from tallgrass.outbox.keys import idempotency_key, object_version_ref
from tallgrass.outbox.payload_rules import (
    GOVERNANCE_REF,
    MASKING,
    POLICY_REF,
    REPLACES,
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
    registration: Registration,
    source: SourceObject,
    activity_id: str,
    admission: Admission,
    context: ChainContext,
) -> EventEffect | None:
    """Return the event of a new or changed item; an item that stays the same has none."""
    name = _NAMES.get(registration.status)
    if name is None:
        return None
    unit, item, replaces = claim.unit, registration.item, registration.replaces
    key = idempotency_key(
        pipeline_id=context.pipeline_id,
        event_name=name,
        dataset_id=unit.dataset,
        object_ref=announced_version(unit),
        content_hash=_told_content(registration, claim),
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
                "item_href": registration.href,
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
                **({} if replaces is None else {REPLACES: _replaced(replaces, admission)}),
            }
        ),
        care_label=admission.care_label,
        governance_ref=admission.governance_ref,
        targets=context.routing.targets_for(name, unit.dataset, admission.care_label),
    )


def _told_content(registration: Registration, claim: Claim) -> str:
    """Return the content as the key names it.

    An item is created once. It can change to the same content more than once, by going back in
    between (a release that is rolled back and then returns), so a change is told by the attempt
    that made it: a second change under the key of the first would never be told.
    """
    sha256 = registration.item.sha256
    if registration.status is StacStatus.CREATED:
        return sha256
    return f"{sha256}:{claim.attempt_no}"


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


def _replaced(former: OwnedItem, admission: Admission) -> dict[str, object]:
    """Return which item went when this one came.

    Under a policy that masks places the former id may tell an exact one. Whoever holds that item
    finds it by the hash of its id, or by the hash of its bytes that its own event told.
    """
    told: dict[str, object] = {"collection_id": former.collection_id, "item_sha256": former.sha256}
    if admission.masking_degrees:
        return {**told, "item_id_sha256": sha256_hex(former.item_id.encode())}
    return {**told, "item_id": former.item_id}


def announced_version(unit: IngestUnit) -> str:
    """Return the object in the version that was announced, as event keys name it."""
    reference = unit.object_ref
    return object_version_ref(
        unit.object_uri,
        version_id=reference.version_id,
        sequencer=reference.sequencer,
        etag=reference.etag,
    )

"""Outgoing events: what consumers hear of, each under a key that a repetition repeats."""

import hashlib

from tallgrass.canonical_json import canonical_bytes
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.effects import EventEffect, ItemEffect
from tallgrass.provenance.ids import netstrings
from tallgrass.stac.source_object import SourceObject

CREATED = "nodd.item.created"
UPDATED = "nodd.item.updated"

_NAMES = {StacStatus.CREATED: CREATED, StacStatus.UPDATED: UPDATED}
#: Form of the payload; the item's own version follows it as build metadata.
_PAYLOAD_VERSION = "1.0.0"


def item_event(
    *,
    claim: Claim,
    pipeline_id: str,
    status: StacStatus,
    item: ItemEffect,
    href: str,
    source: SourceObject,
    activity_id: str,
    care_label: str,
) -> EventEffect | None:
    """Return the event of a new or changed item; an item that stays the same has none."""
    name = _NAMES.get(status)
    if name is None:
        return None
    unit = claim.unit
    key = idempotency_key(
        pipeline_id=pipeline_id,
        event_name=name,
        dataset=unit.dataset,
        object_uri=unit.object_uri,
        reference=unit.object_ref,
        content_hash=item.sha256,
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
                "pipeline_id": pipeline_id,
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
                "care_label": care_label,
            }
        ),
        care_label=care_label,
    )


def idempotency_key(
    *,
    pipeline_id: str,
    event_name: str,
    dataset: str,
    object_uri: str,
    reference: ObjectReference,
    content_hash: str,
) -> str:
    """Return ``sha256:`` and the hash of the parts, each prefixed by its length.

    The content is that of what is published: a replay that changes nothing repeats the key, one
    that changes the item makes another. The version announced tells apart two overwrites that bring
    back an old content.
    """
    object_ref = netstrings(object_uri, reference.version_id, reference.sequencer, reference.etag)
    digest = hashlib.sha256()
    for part in (pipeline_id, event_name, dataset, object_ref, content_hash):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return f"sha256:{digest.hexdigest()}"

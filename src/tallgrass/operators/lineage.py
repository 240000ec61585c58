"""The OpenLineage events of a unit's success, where a target wants them."""

from tallgrass.ledger.claim import Claim
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import EventEffect
from tallgrass.operators.events import idempotency_key
from tallgrass.operators.provenance_emit import Emission
from tallgrass.operators.stac_register import Registration
from tallgrass.provenance.openlineage import (
    Change,
    EventType,
    LineageRun,
    Output,
    build_event,
)
from tallgrass.stac.source_object import SourceObject

#: Version of the OpenLineage schema.
_VERSION = "2.0.2"
_CHANGES = {StacStatus.CREATED: Change.CREATE, StacStatus.UPDATED: Change.OVERWRITE}


def lineage_events(
    *,
    target: str,
    claim: Claim,
    source: SourceObject,
    registration: Registration,
    emission: Emission,
    care_label: str,
    context: ChainContext,
) -> tuple[EventEffect, EventEffect]:
    """Return the START and COMPLETE events of the attempt."""
    unit, item = claim.unit, registration.item
    run = LineageRun(
        run_id=emission.openlineage_run_id,
        wal_id=unit.wal_id,
        attempt_no=claim.attempt_no,
        dataset=unit.dataset,
        activity_id=emission.provenance.activity_id,
        code_version=context.code_version,
        config_version=context.config_version,
        replay_run_id=claim.replay_run_id,
        nominal_start=unit.time_range_start,
        nominal_end=unit.time_range_end,
        source=source,
    )
    output = Output(
        collection_id=item.collection_id,
        item_id=item.item_id,
        sha256=item.sha256,
        size=len(item.body),
        change=_CHANGES.get(registration.status),
    )
    start = build_event(EventType.START, context.started_at, run)
    complete = build_event(EventType.COMPLETE, context.ended_at, run, output=output)
    return (
        _effect(claim, context, run.run_id, EventType.START, start, care_label, target),
        _effect(claim, context, run.run_id, EventType.COMPLETE, complete, care_label, target),
    )


def _effect(
    claim: Claim,
    context: ChainContext,
    run_id: str,
    event_type: EventType,
    payload: bytes,
    care_label: str,
    target: str,
) -> EventEffect:
    name = f"openlineage.{event_type.value.lower()}"
    return EventEffect(
        event_name=name,
        dataset_id=claim.unit.dataset,
        version=_VERSION,
        idempotency_key=idempotency_key(
            pipeline_id=context.pipeline_id,
            event_name=name,
            dataset=claim.unit.dataset,
            object_uri=claim.unit.object_uri,
            reference=claim.unit.object_ref,
            content_hash=f"{run_id}:{event_type.value}",
        ),
        payload=payload,
        care_label=care_label,
        target=target,
    )

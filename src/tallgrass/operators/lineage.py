"""The OpenLineage events of a unit's success, where a route wants them."""

from tallgrass.governance.gate import Admission
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import EventEffect
from tallgrass.operators.events import announced_version
from tallgrass.operators.provenance_emit import Emission
from tallgrass.operators.stac_register import Registration
from tallgrass.outbox.keys import idempotency_key
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
_NAMES = {each: f"openlineage.{each.value.lower()}" for each in EventType}
_CHANGES = {StacStatus.CREATED: Change.CREATE, StacStatus.UPDATED: Change.OVERWRITE}


def lineage_events(
    *,
    claim: Claim,
    source: SourceObject,
    registration: Registration,
    emission: Emission,
    admission: Admission,
    context: ChainContext,
) -> tuple[EventEffect, ...]:
    """Return the START and COMPLETE events of the attempt, those that some target wants."""
    dataset, label = claim.unit.dataset, admission.care_label
    wanted = {
        each: targets
        for each in (EventType.START, EventType.COMPLETE)
        if (targets := context.routing.targets_for(_NAMES[each], dataset, label))
    }
    if not wanted:
        return ()
    run = _run(claim, source, emission, context)
    return tuple(
        EventEffect(
            event_name=_NAMES[each],
            dataset_id=dataset,
            version=_VERSION,
            idempotency_key=_key(claim, context, run.run_id, each),
            payload=_payload(each, run, registration, context),
            care_label=label,
            governance_ref=admission.governance_ref,
            targets=targets,
        )
        for each, targets in wanted.items()
    )


def _run(
    claim: Claim, source: SourceObject, emission: Emission, context: ChainContext
) -> LineageRun:
    unit = claim.unit
    return LineageRun(
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


def _payload(
    event_type: EventType, run: LineageRun, registration: Registration, context: ChainContext
) -> bytes:
    if event_type is EventType.START:
        return build_event(EventType.START, context.started_at, run)
    item = registration.item
    output = Output(
        collection_id=item.collection_id,
        item_id=item.item_id,
        sha256=item.sha256,
        size=len(item.body),
        # Under another id it is another dataset to OpenLineage.
        change=_CHANGES.get(registration.status)
        if registration.replaces is None
        else Change.CREATE,
    )
    return build_event(EventType.COMPLETE, context.ended_at, run, output=output)


def _key(claim: Claim, context: ChainContext, run_id: str, event_type: EventType) -> str:
    return idempotency_key(
        pipeline_id=context.pipeline_id,
        event_name=_NAMES[event_type],
        dataset_id=claim.unit.dataset,
        object_ref=announced_version(claim.unit),
        content_hash=f"{run_id}:{event_type.value}",
    )

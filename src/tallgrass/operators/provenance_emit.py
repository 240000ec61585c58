"""provenance-emit: how the item came to be, as PROV-O and as an OpenLineage run.

Its ids come from the unit's record and the versions of object, code and configuration, so a re-run
names the same activity. It is called only for an item that may be stored.
"""

from tallgrass.canonical_json import sha256_hex
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.vocabulary import ProvenanceStatus, StacStatus
from tallgrass.made_often import made_often
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import OwnedItem, ProvenanceEffect
from tallgrass.operators.stac_register import Registration
from tallgrass.provenance.ids import activity_id, run_id
from tallgrass.provenance.prov import build_body, build_run
from tallgrass.stac.source_object import SourceObject

NAME = "provenance-emit"


@made_often
class Emission:
    """The staged provenance."""

    #: PARTIAL where no etag and no version id says which version of the object was used.
    status: ProvenanceStatus
    provenance: ProvenanceEffect
    openlineage_run_id: str


def provenance_emit(
    *,
    claim: Claim,
    source: SourceObject,
    evidence: bytes,
    registration: Registration,
    owned: OwnedItem | None,
    context: ChainContext,
    policy_ref: str | None = None,
) -> Emission:
    """Stage the provenance of the item that was registered."""
    wal_id, item = claim.unit.wal_id, registration.item
    activity = activity_id(wal_id, source, context.code_version, context.config_version)
    lineage_run = run_id(wal_id, claim.attempt_no)
    body = build_body(
        unit=claim.unit,
        activity_id=activity,
        source=source,
        evidence_sha256=sha256_hex(evidence),
        item=item,
        program=context.program,
        policy_ref=policy_ref,
    )
    updated = registration.status is StacStatus.UPDATED
    run = build_run(
        claim=claim,
        run=context.run,
        activity_id=activity,
        run_id=lineage_run,
        replaced_sha256=owned.sha256 if updated and owned is not None else None,
        informed_by=None if owned is None else owned.activity_id,
    )
    pinned = source.etag is not None or source.version_id is not None
    return Emission(
        status=ProvenanceStatus.OK if pinned else ProvenanceStatus.PARTIAL,
        provenance=ProvenanceEffect(
            activity_id=activity, body=body, sha256=sha256_hex(body), run=run
        ),
        openlineage_run_id=lineage_run,
    )

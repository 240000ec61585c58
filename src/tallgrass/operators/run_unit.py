"""One unit through the chain, for whoever has a claim and what was read: worker and verification.

The key is read again each time: a unit that was recorded under another grammar may not fit.
"""

from tallgrass.datasets.catalogue import Catalogue, KeyMatch
from tallgrass.errors import InvalidInput
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.object_uri import bucket_and_key
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.unit import IngestUnit
from tallgrass.operators.chain import Watch, run_chain
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import ChainResult

_NO_DATASET = "missing_dataset"


def run_unit(
    claim: Claim,
    reading: Evidence | ReadFailure,
    catalogue: Catalogue,
    context: ChainContext,
    watch: Watch | None = None,
) -> ChainResult:
    """Find what the unit's key says and run the operators; never raises for a fault of the unit."""
    match = match_of(claim.unit, catalogue)
    if match is None:
        return ChainResult(
            outcome=Outcome(
                wal_id=claim.wal_id,
                attempt_no=claim.attempt_no,
                error_code=_NO_DATASET,
                error_message=f"no dataset takes {claim.unit.object_uri}",
            )
        )
    return run_chain(claim, match, reading, claim.owned_item, context, watch)


def match_of(unit: IngestUnit, catalogue: Catalogue) -> KeyMatch | None:
    """Return what a unit's key says; None where no dataset takes it any more."""
    bucket, key = bucket_and_key(unit.object_uri)
    try:
        found = catalogue.route(unit.provider, bucket, key)
    except InvalidInput:
        return None
    return found if isinstance(found, KeyMatch) else None

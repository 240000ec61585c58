"""Units through the chain, for whoever has claims and what was read: worker and verification.

The key is read again each time: a unit that was recorded under another grammar may not fit.
"""

from collections.abc import Callable, Sequence

from tallgrass.datasets.catalogue import Catalogue, KeyMatch
from tallgrass.errors import InvalidInput
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.object_uri import bucket_and_key
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.unit import IngestUnit
from tallgrass.operators.chain import Chain, Watch, chain_of, run_together
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import ChainResult

_NO_DATASET = "missing_dataset"


def run_units(
    claims: Sequence[Claim],
    readings: Sequence[Evidence | ReadFailure],
    catalogue: Catalogue,
    context: ChainContext,
    watch_of: Callable[[str], Watch | None],
) -> list[ChainResult]:
    """Run the operators on a batch; a bad unit harms no neighbour. `watch_of` is given wal_ids."""
    return run_together(
        _chain_of_unit(claim, reading, catalogue, context, watch_of(claim.unit.wal_id))
        for claim, reading in zip(claims, readings, strict=True)
    )


def run_unit(
    claim: Claim, reading: Evidence | ReadFailure, catalogue: Catalogue, context: ChainContext
) -> ChainResult:
    """Run the operators on one unit; never raises for a fault of the unit."""
    return run_units([claim], [reading], catalogue, context, lambda _: None)[0]


def _chain_of_unit(
    claim: Claim,
    reading: Evidence | ReadFailure,
    catalogue: Catalogue,
    context: ChainContext,
    watch: Watch | None,
) -> Chain:
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
    return (yield from chain_of(claim, match, reading, claim.owned_item, context, watch))


def match_of(unit: IngestUnit, catalogue: Catalogue) -> KeyMatch | None:
    """Return what a unit's key says; None where no dataset takes it any more."""
    bucket, key = bucket_and_key(unit.object_uri)
    try:
        found = catalogue.route(unit.provider, bucket, key)
    except InvalidInput:
        return None
    return found if isinstance(found, KeyMatch) else None

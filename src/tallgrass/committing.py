"""Committing a batch: whole, or in parts where the database refuses a row of it."""

from collections.abc import Callable, Sequence

from tallgrass.error_codes import lookup
from tallgrass.errors import DataRefused
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.effects import ChainResult

Results = Sequence[tuple[Claim, ChainResult]]

#: The code of a unit of which the database refuses a row.
_REFUSED = "catalog_conflict"
_REFUSAL_CHARS_MAX = 300


def commit_in_parts(results: Results, commit: Callable[[Results], None]) -> DataRefused | None:
    """Commit results; what is refused is halved until the row is alone, and fails its unit.

    Its neighbours are committed as if it were not there. Return why halves were needed, if so.
    """
    if not results:
        return None
    try:
        commit(results)
    except DataRefused as refusal:
        if len(results) == 1:
            commit([_refused(*results[0], refusal)])
            return None
        middle = len(results) // 2
        commit_in_parts(results[:middle], commit)
        commit_in_parts(results[middle:], commit)
        return refusal
    return None


def said(refusal: DataRefused) -> str:
    """Return the driver's own text: that of the error may name the database's host."""
    return str(refusal.__cause__ or refusal).splitlines()[0][:_REFUSAL_CHARS_MAX]


def _refused(claim: Claim, result: ChainResult, refusal: DataRefused) -> tuple[Claim, ChainResult]:
    """Fail a unit of which the database refuses a row; if it refuses even that, give up."""
    if result.outcome.error_code == _REFUSED:
        raise refusal
    return claim, ChainResult(
        outcome=Outcome(
            wal_id=claim.wal_id,
            attempt_no=claim.attempt_no,
            error_code=_REFUSED,
            error_message=f"commit: {said(refusal)}. What to do: {lookup(_REFUSED).remedy}",
            stac_status=StacStatus.FAILED,
        )
    )

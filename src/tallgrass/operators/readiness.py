"""Readiness: whether an object that fails its check may just not be there yet, or not whole.

A notification may outrun its object, and a copy may still be written while it is read. Then the
unit fails with `not_ready` and waits in the ledger; its last attempt names the fault itself.
"""

from tallgrass.evidence.header import NO_BYTES, TOO_SHORT
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.budget import attempts_used
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit

NOT_READY = "not_ready"

_CUT = frozenset({NO_BYTES, TOO_SHORT})


def waits(claim: Claim, reading: Evidence | ReadFailure, rules: LedgerRules) -> bool:
    """Tell whether the unit waits for its object, as long as it has attempts left."""
    used = attempts_used(claim.attempt_no, claim.budget_from)
    return used < rules.max_attempts_of(claim.unit.dataset) and _may_come(claim.unit, reading)


def _may_come(unit: IngestUnit, reading: Evidence | ReadFailure) -> bool:
    """Tell whether what was announced may be there later.

    An object that ends before its own end is on its way if fewer bytes are there than were
    announced, or if nobody said how many: the topic of radar chunks does not. One that is as long
    as announced is cut for good.
    """
    if isinstance(reading, ReadFailure):
        return reading.may_come
    announced = unit.object_ref.size
    growing = announced is None or (reading.size is not None and reading.size < announced)
    return growing and _is_cut(reading)


def _is_cut(reading: Evidence) -> bool:
    if reading.issues:
        return not _CUT.isdisjoint(reading.issues)
    return reading.header.get("complete") is False

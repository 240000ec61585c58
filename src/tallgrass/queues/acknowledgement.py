"""What becomes of a message, decided by what became of its units.

A pure fold: every unit either lets the message go or wishes to see it again after some seconds. It
is deleted when all let it go; otherwise it stays hidden for the longest wish, so that no unit is
announced again before anything can be done about it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from tallgrass.ledger.claim import Claim, ClosedClaim, Receipt
from tallgrass.ledger.outcome import Verdict, is_retried
from tallgrass.ledger.receipt import Action, Decision
from tallgrass.ledger.vocabulary import Status
from tallgrass.queues.protocol import VISIBILITY_S_MAX

#: The unit moved while nobody of us looked: the next delivery will find it settled.
LOOK_AGAIN_S = 1.0
#: What a message waits for may be down for minutes, and each delivery counts: with five of them a
#: message outlasts twenty minutes.
_DEFERRAL_S = 15.0
_DEFERRAL_GROWS = 4.0
_DEFERRAL_S_MAX = 900.0

#: A unit's wish: to see the message again after so many seconds, or None to let it go.
Wish = float | None

#: Decisions after which the ledger needs the message no more.
_MAY_GO = frozenset(
    {
        Action.DUE,
        Action.PARK,
        Action.DUPLICATE,
        Action.IGNORE_OLDER,
        Action.NOT_REINGESTED,
        Action.QUARANTINE,
        Action.HELD,
        Action.RECORD_NEWER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Delete the message, or keep it and show it again later."""

    #: None to delete; otherwise the seconds from now after which it is visible again.
    visibility_s: float | None

    @classmethod
    def delete(cls) -> Self:
        """Every unit lets it go."""
        return cls(visibility_s=None)

    @classmethod
    def keep(cls, visibility_s: float) -> Self:
        """Some unit wants to see it again."""
        return cls(visibility_s=min(max(visibility_s, 0.0), VISIBILITY_S_MAX))


DELETE = Acknowledgement.delete()


def acknowledge(
    receipts: Iterable[Receipt],
    closed: Mapping[str, ClosedClaim],
    *,
    settled: bool = True,
    look_again_s: float = LOOK_AGAIN_S,
) -> Acknowledgement:
    """Fold the units of one message.

    `closed` holds, by wal_id, the claims that are committed; a claim that is missing there was
    lost, or its commit failed. Records of the message that are no units wish nothing. A message
    that could not be judged yet is not `settled`: it comes again after `look_again_s`.
    """
    longest: Wish = None if settled else look_again_s
    for receipt in receipts:
        claim = receipt.claim
        if claim is None:
            wish = wish_of_decision(receipt.decision)
        else:
            wish = wish_of_claim(claim, closed.get(claim.unit.wal_id))
        if wish is not None and (longest is None or wish > longest):
            longest = wish
    return DELETE if longest is None else Acknowledgement.keep(longest)


def deferral_s(receive_count: int) -> float:
    """Return for how long a message is put off that could not be judged, by its deliveries."""
    grown = _DEFERRAL_S * _DEFERRAL_GROWS ** min(max(receive_count, 1) - 1, 10)
    return min(grown, _DEFERRAL_S_MAX)


def wish_of_decision(decision: Decision) -> Wish:
    """Return the wish of a unit that was not claimed."""
    if decision.action in _MAY_GO:
        return None
    if decision.action is Action.WAIT:
        return decision.wait_s
    if decision.action is Action.LEAVE_FAILED:
        return 0.0  # no attempt is spent: the queue's redrive takes the message
    return LOOK_AGAIN_S  # RECOVER, or a claim that nobody holds


def wish_of_claim(claim: Claim, closed: ClosedClaim | None) -> Wish:
    """Return the wish of a unit that was worked on."""
    if closed is None:
        return LOOK_AGAIN_S
    if closed.verdict is not Verdict.FAILED or claim.claimed_from is Status.SUCCEEDED:
        # Also RETRY, which is pending and due, and a failed re-run: the unit stays succeeded, and
        # the ledger itself runs it again.
        return None
    retried = closed.error_code is not None and is_retried(closed.error_code)
    return closed.retry_s if retried else 0.0

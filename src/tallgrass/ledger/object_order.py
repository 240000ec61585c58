"""Is an announced object the one that the ledger knows, a newer one, or an older one?"""

from enum import StrEnum

from tallgrass.ledger.unit import ObjectReference


class ObjectOrder(StrEnum):
    """How an announced object version relates to the newest one known."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    INCOMPARABLE = "incomparable"


def compare_objects(announced: ObjectReference, known: ObjectReference) -> ObjectOrder:
    """Compare by sequencer; where one is missing, by version id and etag.

    An etag has no order: a different one counts as newer, because the object as it is now will be
    read in any case. An older sequencer is older whatever the etag says.
    """
    if announced.sequencer and known.sequencer:
        return _compare_sequencers(announced.sequencer, known.sequencer)
    if announced.version_id and known.version_id:
        same = announced.version_id == known.version_id
        return ObjectOrder.SAME if same else ObjectOrder.NEWER
    if announced.etag and known.etag:
        return ObjectOrder.SAME if announced.etag == known.etag else ObjectOrder.NEWER
    return ObjectOrder.INCOMPARABLE


def orders_listed(announced: ObjectReference, listed: ObjectReference) -> bool:
    """Tell whether an announcement has what a listing never tells: a place in the order."""
    return bool(announced.sequencer) and not listed.sequencer


def announced_and_listed(announced: ObjectReference, listed: ObjectReference) -> ObjectReference:
    """Return what to expect of an object that was listed, not read yet, and is announced now.

    Two that differ have no order: the announced one may be older than what was listed, or newer.
    Whichever is read is the right one then; what stays is the place in the order.
    """
    if announced.etag and announced.etag == listed.etag:
        return announced
    return ObjectReference(sequencer=announced.sequencer)


def _compare_sequencers(announced: str, known: str) -> ObjectOrder:
    """S3 asks to right-pad the shorter one with zeros and to compare the two as text."""
    width = max(len(announced), len(known))
    left, right = announced.upper().ljust(width, "0"), known.upper().ljust(width, "0")
    if left == right:
        return ObjectOrder.SAME
    return ObjectOrder.NEWER if left > right else ObjectOrder.OLDER

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


def _compare_sequencers(announced: str, known: str) -> ObjectOrder:
    """S3 asks to right-pad the shorter one with zeros and to compare the two as text."""
    width = max(len(announced), len(known))
    left, right = announced.upper().ljust(width, "0"), known.upper().ljust(width, "0")
    if left == right:
        return ObjectOrder.SAME
    return ObjectOrder.NEWER if left > right else ObjectOrder.OLDER

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger.object_order import (
    ObjectOrder,
    announced_and_listed,
    compare_objects,
    orders_listed,
)
from tallgrass.ledger.unit import ObjectReference

hexadecimal = st.text("0123456789ABCDEFabcdef", min_size=1, max_size=18)
maybe = st.none() | st.sampled_from(["", "a", "b"])
references = st.builds(
    ObjectReference,
    etag=maybe,
    version_id=maybe,
    sequencer=st.none() | hexadecimal,
)

MIRRORED = {
    ObjectOrder.SAME: ObjectOrder.SAME,
    ObjectOrder.NEWER: ObjectOrder.OLDER,
    ObjectOrder.OLDER: ObjectOrder.NEWER,
}


def by_sequencer(announced: str, known: str) -> ObjectOrder:
    """Compare two objects of which only the sequencers are known."""
    return compare_objects(ObjectReference(sequencer=announced), ObjectReference(sequencer=known))


@pytest.mark.parametrize(
    ("announced", "known", "order"),
    [
        ("0055AED6DCD90281E6", "0055AED6DCD90281E5", "newer"),
        ("0055AED6DCD90281E5", "0055AED6DCD90281E6", "older"),
        ("0055AED6DCD90281E5", "0055AED6DCD90281E5", "same"),
        # The shorter one is filled up with zeros on its right.
        ("0055AED6DCD9", "0055AED6DCD90281E5", "older"),
        ("0055AED6DCDA", "0055AED6DCD90281E5", "newer"),
        ("0055", "005500", "same"),
        ("9", "10", "newer"),
        # Hexadecimal, in either case.
        ("00aa", "00AA", "same"),
        ("00ab", "00AA", "newer"),
        ("00A9", "00aa", "older"),
    ],
)
def test_sequencers_are_compared_right_padded(announced: str, known: str, order: str) -> None:
    """Sequencers of unequal length are filled up with zeros and compared without regard to case."""
    assert by_sequencer(announced, known) == order


@given(hexadecimal, hexadecimal)
def test_sequencers_order_as_numbers_after_a_point(announced: str, known: str) -> None:
    """Right-padded text order is the order of the hexadecimal fractions 0.SEQUENCER."""
    left = int(announced, 16) * 16 ** (18 - len(announced))
    right = int(known, 16) * 16 ** (18 - len(known))
    expected = "same" if left == right else "newer" if left > right else "older"
    assert by_sequencer(announced, known) == expected


@given(hexadecimal, hexadecimal)
def test_swapping_two_sequencers_mirrors_the_answer(one: str, other: str) -> None:
    """If one is newer than the other, the other is older than the one."""
    assert by_sequencer(other, one) is MIRRORED[by_sequencer(one, other)]


@given(hexadecimal, hexadecimal, hexadecimal)
def test_newer_than_newer_is_newer(one: str, two: str, three: str) -> None:
    """The order of sequencers is transitive."""
    if by_sequencer(two, one) == by_sequencer(three, two) == "newer":
        assert by_sequencer(three, one) == "newer"


@given(references, references)
def test_only_a_sequencer_can_make_an_object_older(
    announced: ObjectReference, known: ObjectReference
) -> None:
    """Etags and version ids have no order: they tell the same from another, never an older one."""
    order = compare_objects(announced, known)
    if order is ObjectOrder.OLDER:
        assert announced.sequencer
        assert known.sequencer


@given(references, references)
def test_same_and_incomparable_do_not_depend_on_the_side(
    one: ObjectReference, other: ObjectReference
) -> None:
    """Both sides agree on whether the two are one object, and on whether that can be known."""
    forth, back = compare_objects(one, other), compare_objects(other, one)
    for order in (ObjectOrder.SAME, ObjectOrder.INCOMPARABLE):
        assert (forth is order) == (back is order)


@pytest.mark.parametrize(
    ("announced", "known", "order"),
    [
        # An older event is older, whatever etag and version say.
        ({"sequencer": "01", "etag": "x"}, {"sequencer": "02", "etag": "x"}, "older"),
        ({"sequencer": "01", "version_id": "v"}, {"sequencer": "02", "version_id": "w"}, "older"),
        # Without two sequencers the version decides, then the etag.
        ({"version_id": "v", "etag": "x"}, {"version_id": "v", "etag": "y"}, "same"),
        ({"version_id": "w", "etag": "x"}, {"version_id": "v", "etag": "x"}, "newer"),
        ({"sequencer": "01", "version_id": "w"}, {"version_id": "v"}, "newer"),
        ({"etag": "x"}, {"etag": "x"}, "same"),
        ({"etag": "y"}, {"etag": "x"}, "newer"),
        ({"sequencer": "01", "etag": "x"}, {"etag": "x"}, "same"),
        # Nothing in common: nobody can tell.
        ({}, {}, "incomparable"),
        ({"etag": "x"}, {}, "incomparable"),
        ({"etag": "x"}, {"version_id": "v"}, "incomparable"),
        ({"sequencer": "01"}, {"etag": "x"}, "incomparable"),
        ({"sequencer": ""}, {"sequencer": "01"}, "incomparable"),
    ],
)
def test_what_is_missing_gives_way_to_the_next(
    announced: dict[str, str], known: dict[str, str], order: str
) -> None:
    """Sequencer, version id, etag, in this order; what one side lacks does not count."""
    assert compare_objects(ObjectReference(**announced), ObjectReference(**known)) == order  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("announced", "listed", "orders"),
    [
        ({"sequencer": "01"}, {}, True),
        ({"sequencer": "01"}, {"etag": "x", "size": 3}, True),
        ({"sequencer": "01"}, {"sequencer": "02"}, False),
        ({"etag": "x", "version_id": "v"}, {}, False),
    ],
)
def test_only_a_sequencer_gives_a_place_in_the_order(
    announced: dict[str, str], listed: dict[str, str], *, orders: bool
) -> None:
    """An etag or version id tells two objects apart, and not which of them is newer."""
    said, known = ObjectReference(**announced), ObjectReference(**listed)  # type: ignore[arg-type]
    assert orders_listed(said, known) is orders


def test_a_listed_object_that_is_announced_is_expected_as_announced() -> None:
    """The same etag: all that the announcement tells holds."""
    said = ObjectReference(etag="x", size=3, sequencer="01", version_id="v")
    assert announced_and_listed(said, ObjectReference(etag="x", size=3)) == said


@pytest.mark.parametrize("listed", [{"etag": "y"}, {"size": 3}, {}])
def test_of_two_without_an_order_whichever_is_read_is_right(listed: dict[str, str]) -> None:
    """Nothing of either is expected; only the place in the order is kept."""
    said = ObjectReference(etag="x", size=3, sequencer="01", version_id="v")
    found = announced_and_listed(said, ObjectReference(**listed))  # type: ignore[arg-type]
    assert found == ObjectReference(sequencer="01")


def test_what_no_announcement_names_is_not_the_same() -> None:
    """Two that tell no etag have none in common."""
    said = ObjectReference(size=3, sequencer="01")
    assert announced_and_listed(said, ObjectReference(size=3)) == ObjectReference(sequencer="01")

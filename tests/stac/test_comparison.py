from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallgrass.canonical_json import canonical_bytes
from tallgrass.stac.comparison import Difference, differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3)
    ),
    max_leaves=8,
)


def test_each_field_that_differs_is_named() -> None:
    """Changed, added and removed fields, and list entries, each with both values."""
    left = {"a": 1, "b": [1, 2], "c": {"d~/e": "x"}, "gone": None}
    right = {"a": 1, "b": [1, 3, 4], "c": {"d~/e": "y"}, "new": True}
    found = differences(canonical_bytes(left), canonical_bytes(right))
    assert found == (
        Difference(pointer="/b/1", left="2", right="3"),
        Difference(pointer="/b/2", left=None, right="4"),
        Difference(pointer="/c/d~0~1e", left='"x"', right='"y"'),
        Difference(pointer="/gone", left="null", right=None),
        Difference(pointer="/new", left=None, right="true"),
    )


def test_numbers_that_are_equal_but_written_otherwise_differ() -> None:
    """Bytes are compared: 1, 1.0 and true are three values."""
    assert [each.pointer for each in differences(b'{"a":1}', b'{"a":1.0}')] == ["/a"]
    assert [each.pointer for each in differences(b'{"a":1}', b'{"a":true}')] == ["/a"]


@given(JSON, JSON)
def test_there_is_a_difference_exactly_where_the_bytes_differ(left: Any, right: Any) -> None:
    """No difference is overlooked and none is made up."""
    first, second = canonical_bytes(left), canonical_bytes(right)
    assert bool(differences(first, second)) == (first != second)
    assert differences(first, json.dumps(left).encode()) == ()

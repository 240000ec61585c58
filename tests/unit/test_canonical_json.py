from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.canonical_json import canonical_bytes, canonical_text, sha256_hex

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


def reversed_keys(value: Any) -> Any:
    """Return the same value with its keys in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return value


@given(json_values)
def test_equal_values_have_equal_bytes(value: Any) -> None:
    """The order in which keys were set does not reach the bytes, and the value comes back."""
    assert canonical_bytes(value) == canonical_bytes(reversed_keys(value))
    assert json.loads(canonical_bytes(value)) == value
    assert canonical_text(value).encode() == canonical_bytes(value)


def test_the_form_is_sorted_and_without_blanks() -> None:
    """Keys are sorted, nothing is padded, text is UTF-8."""
    assert canonical_bytes({"b": [1, 2.5], "a": "é"}) == b'{"a":"\xc3\xa9","b":[1,2.5]}'


def test_what_is_no_json_is_refused() -> None:
    """A value without a JSON form raises instead of being turned into text."""
    with pytest.raises(TypeError):
        canonical_bytes({"x": object()})


def test_the_hash_is_plain_sha256() -> None:
    """The digest of "abc" is the one that the standard prints."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_hex(b"abc") == expected

"""The line in which lists of objects are exchanged."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.inventory.listed import ListedObject, listed_line, listed_of_line

WHOLE = ListedObject("s3://b/a/é b.nc", 12, "abc", datetime(2026, 6, 1, 12, 30, tzinfo=UTC))


def test_a_line_says_what_the_listing_told() -> None:
    """By hand: sorted names, no blanks, an instant of fixed width; what is unknown is left out."""
    assert listed_line(WHOLE) == (
        '{"etag":"abc","modified":"2026-06-01T12:30:00.000000Z","size":12,"uri":"s3://b/a/é b.nc"}'
    )
    assert listed_line(ListedObject("s3://b/k", None, None, None)) == '{"uri":"s3://b/k"}'


@pytest.mark.parametrize("listed", [WHOLE, ListedObject("s3://b/k", None, None, None)])
def test_a_line_is_read_back_as_it_was(listed: ListedObject) -> None:
    """Nothing is lost between reconcile and backfill."""
    assert listed_of_line(json.loads(listed_line(listed))) == listed


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "needs a uri"),
        ({"uri": 1}, "needs a uri"),
        ({"uri": "s3://b/k", "sizes": 1}, "no field 'sizes'"),
        ({"uri": "s3://b/k", "size": -1}, "number of bytes"),
        ({"uri": "s3://b/k", "size": True}, "number of bytes"),
        ({"uri": "s3://b/k", "etag": 1}, "etag is text"),
        ({"uri": "s3://b/k", "modified": 1}, "time is text"),
        ({"uri": "s3://b/k", "modified": "yesterday"}, "RFC 3339"),
    ],
)
def test_a_line_that_is_none_is_refused(value: object, said: str) -> None:
    """Each with what is wrong."""
    with pytest.raises(InvalidInput, match=said):
        listed_of_line(value)

"""Pages that are fetched ahead: the same ones, in the same order, and the same failure."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import ListingBroken
from tallgrass.evidence.read_ahead import read_ahead
from tallgrass.inventory.listed import ListedObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.evidence.listing import Page

PAGES = [[ListedObject(f"s3://b/{number}", number, None, None)] for number in range(5)]


def test_the_same_pages_come_in_the_same_order() -> None:
    """Nothing is lost or doubled, and nothing comes of nothing."""
    assert list(read_ahead(iter(PAGES))) == PAGES
    assert list(read_ahead(iter([]))) == []


def test_a_failure_comes_after_the_pages_before_it() -> None:
    """What was listed before a listing broke is still compared."""

    def broken() -> Iterator[Page]:
        yield from PAGES[:2]
        raise ListingBroken("the store does not answer")

    pages = read_ahead(broken())
    assert [next(pages), next(pages)] == PAGES[:2]
    with pytest.raises(ListingBroken):
        next(pages)


def test_at_most_one_page_is_held() -> None:
    """While a page is looked at, the one behind it is fetched, and no further."""
    fetched = threading.Semaphore(0)
    count = 0

    def counted() -> Iterator[Page]:
        nonlocal count
        for page in PAGES:
            count += 1
            fetched.release()
            yield page

    pages = read_ahead(counted())
    next(pages)
    for _ in range(2):  # this one, and the one behind it
        assert fetched.acquire(timeout=60)
    assert count == 2
    assert not fetched.acquire(timeout=0.05)
    pages.close()  # type: ignore[attr-defined]

"""Searching the catalog gives what looking at every item gives, page by page, on both databases."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from shapely.geometry import box as shapely_box
from shapely.geometry import shape

from tallgrass.stac.place import place_of_box, place_of_geometry
from tallgrass.stac.search import (
    ItemSearch,
    Key,
    decode_cursor,
    encode_cursor,
    order_of,
)
from tests.support.catalog import HOUR, NOON, Known, write_catalog

if TYPE_CHECKING:
    from tests.support.backends import Backend

NAMES = ("goes-glm", "hrrr", "nexrad-l2")
SPANS = (
    timedelta(0), timedelta(minutes=5), timedelta(hours=2), timedelta(days=1), timedelta(days=40),
)  # fmt: skip
BOXES: tuple[tuple[float, float, float, float], ...] = (
    (-10.0, -10.0, 10.0, 10.0), (170.0, -20.0, -170.0, 20.0), (-180.0, -90.0, 180.0, 90.0),
    (150.0, 30.0, 180.0, 40.0), (-180.0, 30.0, -150.0, 40.0), (5.0, 5.0, 5.0, 5.0),
    (5.0, 0.0, 5.0, 20.0), (20.0, 20.0, 30.0, 30.0),
)  # fmt: skip
#: The lower left half of its box.
TRIANGLE = {"type": "Polygon", "coordinates": [[[20, 20], [30, 20], [20, 30], [20, 20]]]}


def made_items(number: int = 120) -> list[Known]:
    """Return items of all kinds: of the same time, long and short, without a place."""
    chance = random.Random(4)
    items = []
    for count in range(number):
        length = chance.choice(SPANS)
        start = NOON + chance.randrange(-30, 30) * HOUR
        at = chance.choice([start, start + length / 2, start + length])
        box = chance.choice([*BOXES, None])
        items.append(
            Known(
                id=f"{chance.choice('aB~é')}{count:03}",
                collection=chance.choice(NAMES),
                box=box,
                at=at,
                span=(start, start + length) if length else None,
                geometry=TRIANGLE if box == BOXES[-1] else None,
            )
        )
    return items


ITEMS = made_items()


@pytest.fixture
def catalog(backend: Backend) -> Backend:
    """A database with the items."""
    write_catalog(backend, ITEMS)
    return backend


def shape_of_box(west: float, south: float, east: float, north: float) -> Any:
    """Return a box with the meridian of 180 degrees drawn on both sides of the map."""
    parts = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    edges = [(-side, -side) for side in (180.0, -180.0) if side in {west, east}]
    shapes = [shapely_box(left, south, right, north) for left, right in [*parts, *edges]]
    whole = shapes[0].convex_hull
    for each in shapes[1:]:
        whole = whole.union(each.convex_hull)
    return whole


def expected(
    *,
    collections: tuple[str, ...] | None = None,
    ids: tuple[str, ...] | None = None,
    place: Any = None,
    since: Any = None,
    until: Any = None,
) -> set[str]:
    """Look at every item by hand."""
    return {
        item.id
        for item in ITEMS
        if (collections is None or item.collection in collections)
        and (ids is None or item.id in ids)
        and (since is None or item.end >= since)
        and (until is None or item.start <= until)
        and (place is None or (item.box and shape(item.document()["geometry"]).intersects(place)))
    }


def walked(backend: Backend, search: ItemSearch, size: int) -> list[Any]:
    """Return all items of a search, page by page, each page found by a token alone."""
    stores = backend.open()
    found: list[Any] = []
    after: Key | None = None
    for _ in range(1000):
        page = stores.catalog.page(search, after=after, size=size)
        assert len(page.items) <= size
        found += page.items
        if page.last is None:
            stores.close()
            return found
        after = decode_cursor(encode_cursor(page.last, search.order), search.order)
    raise AssertionError("there is always a next page")


def test_a_box_finds_what_lies_in_it(catalog: Backend) -> None:
    """Also across the antimeridian, at it, and for a box without an area; never without a place."""
    by_id = {item.id: item for item in ITEMS}
    crossing = ((175.0, 30.0, -160.0, 35.0), (179.0, 30.0, -179.5, 30.0))
    for box in (*BOXES, *crossing):
        found = walked(catalog, ItemSearch(place=place_of_box(box)), 1000)
        assert {item.key.id for item in found} == expected(place=shape_of_box(*box)), box
        assert all(item.body == by_id[item.key.id].body() for item in found)


def test_a_time_finds_what_spans_it(catalog: Backend) -> None:
    """Both ends count, an end may be open, and long items are found from far away."""
    ranges: list[tuple[Any, Any]] = [
        (NOON, NOON),
        (NOON, NOON + 3 * HOUR),
        (None, NOON - 20 * HOUR),
        (NOON + 25 * HOUR, None),
        (NOON - 1000 * HOUR, NOON - 900 * HOUR),
        (NOON + 700 * HOUR, NOON + 701 * HOUR),
    ]
    for since, until in ranges:
        found = walked(catalog, ItemSearch(since=since, until=until), 1000)
        assert {item.key.id for item in found} == expected(since=since, until=until), since


def test_conditions_hold_together(catalog: Backend) -> None:
    """Collection, ids, place and time each take something away."""
    box, ids = BOXES[2], tuple(item.id for item in ITEMS[:60])
    search = ItemSearch(
        collections=("hrrr", "goes-glm"),
        ids=ids,
        place=place_of_box(box),
        since=NOON - 5 * HOUR,
        until=NOON + 9 * HOUR,
    )
    wanted = expected(
        collections=("hrrr", "goes-glm"),
        ids=ids,
        place=shape_of_box(*box),
        since=NOON - 5 * HOUR,
        until=NOON + 9 * HOUR,
    )
    assert {item.key.id for item in walked(catalog, search, 2)} == wanted
    assert 3 < len(wanted) < len(expected(ids=ids))


def test_a_geometry_finds_what_it_meets(catalog: Backend) -> None:
    """A geometry counts by its form, not by its box: nor does that of an item."""
    upper = {"type": "Polygon", "coordinates": [[[29, 29], [30, 29], [30, 30], [29, 29]]]}
    lower = {"type": "Polygon", "coordinates": [[[20, 20], [21, 20], [20, 21], [20, 20]]]}
    for geometry in (upper, lower):
        found = walked(catalog, ItemSearch(place=place_of_geometry(geometry)), 7)
        assert {item.key.id for item in found} == expected(place=shape(geometry))
    assert expected(place=shape(lower)) > expected(place=shape(upper)) != set()


ORDERS = (
    "", "-datetime", "+datetime", "-datetime,+id", "+datetime,-id", "+id", "-id",
    "+collection", "-collection", "+collection,-datetime", "-collection,+datetime,-id",
    "+datetime,-collection,+id", "-datetime,+collection,-id", "-datetime,-collection",
)  # fmt: skip


def test_pages_in_any_order_are_the_whole(catalog: Backend) -> None:
    """Page by page each item comes once, in the order asked for; the id decides between equals."""
    for sortby in ORDERS:
        fields = [(word[1:], word[0] == "-") for word in sortby.split(",") if word]
        found = walked(catalog, ItemSearch(order=order_of(fields)), 7)
        assert [item.key.id for item in found] == in_order(fields), sortby


def in_order(fields: list[tuple[str, bool]]) -> list[str]:
    """Sort all items by hand."""
    wanted = list(ITEMS)
    keys = fields or [("datetime", True)]
    if "id" not in [name for name, _ in keys]:
        keys = [*keys, ("id", keys[-1][1])]
    for name, descending in reversed(keys):
        attribute = "at" if name == "datetime" else name
        wanted.sort(key=lambda item: str(getattr(item, attribute)), reverse=descending)
    return [item.id for item in wanted]


def test_pages_of_one_item_are_the_whole(catalog: Backend) -> None:
    """The smallest page loses and doubles nothing."""
    found = walked(catalog, ItemSearch(), 1)
    assert [item.key.id for item in found] == in_order([])


def test_items_that_come_in_between_pages_move_none(catalog: Backend) -> None:
    """A page begins behind the last item of the one before, whatever was added before it."""
    stores = catalog.open()
    first = stores.catalog.page(ItemSearch(), size=10)
    write_catalog(catalog, [Known(id="newest", at=NOON + 10_000 * HOUR)])
    second = stores.catalog.page(ItemSearch(), after=first.last, size=10)
    seen = [item.key.id for item in (*first.items, *second.items)]
    everything = sorted(ITEMS, key=lambda item: (item.at, item.id), reverse=True)
    assert seen == [item.id for item in everything[:20]]
    stores.close()


def test_extents_span_the_items(catalog: Backend) -> None:
    """Box and times of each collection are the outermost; one that crosses goes all round."""
    stores = catalog.open()
    with stores.catalog.view() as view:
        found = view.extents(ItemSearch())
    stores.close()
    for name in NAMES:
        own = [item for item in ITEMS if item.collection == name]
        assert found[name].items == len(own)
        assert found[name].start == min(item.start for item in own)
        assert found[name].end == max(item.end for item in own)
        placed = [item.box for item in own if item.box]
        south, north = min(box[1] for box in placed), max(box[3] for box in placed)
        assert found[name].box == (-180.0, south, 180.0, north)


@pytest.mark.parametrize(
    ("boxes", "around"),
    [
        ([(170.0, 0.0, -170.0, 1.0), (160.0, -5.0, -175.0, 0.5)], (160.0, -5.0, -170.0, 1.0)),
        ([(170.0, 0.0, -170.0, 1.0), (10.0, 0.0, 20.0, 1.0)], (10.0, 0.0, -170.0, 1.0)),
        ([None, (10.0, 0.0, 20.0, 1.0), (-5.0, -1.0, 3.0, 0.0)], (-5.0, -1.0, 20.0, 1.0)),
        ([None], None),
    ],
    ids=["crossing", "crossing and not", "plain", "without a place"],
)
def test_the_box_around_boxes(
    backend: Backend, boxes: list[tuple[float, float, float, float] | None], around: Any
) -> None:
    """Of the gaps beside crossing boxes the widest stays outside; none without a place."""
    write_catalog(backend, [Known(id=f"i{n}", box=box) for n, box in enumerate(boxes)])
    stores = backend.open()
    with stores.catalog.view() as view:
        assert view.extents(ItemSearch())["goes-glm"].box == around
    stores.close()

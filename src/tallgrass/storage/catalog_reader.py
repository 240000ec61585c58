"""Reading the catalog: items by search and by id, collections, provenance. Nothing is written."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from uuid import UUID

import orjson

from tallgrass.clock import format_instant
from tallgrass.stac.expiry import with_expiry
from tallgrass.stac.extent import Extent, Sides
from tallgrass.stac.place import ANYWHERE
from tallgrass.stac.search import (
    FIRST_INSTANT,
    LAST_ID,
    LAST_INSTANT,
    ItemPage,
    ItemSearch,
    Key,
    Range,
    SortField,
    SortKey,
    StoredItem,
    by_time,
    in_order,
    is_behind,
    is_descending,
    ranges,
)
from tallgrass.stac.span import VALUES_MAX, Span, Value
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Row, Transaction

#: Looks into the database for one page. Boxes match that geometries do not, seldom in a row; a page
#: that ends early still names the next.
ROUNDS_MAX = 10
WALK_SIZE = 1000

_BY_ID = (SortKey(SortField.ID),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionLag:
    """How far the copy in pgstac is behind the catalog."""

    #: Collections that are copied.
    collections: int
    #: Items of them that were never copied, as the first copy is under way.
    uncopied: int
    #: Changes since.
    changed: int
    #: When the oldest of these was made.
    oldest_changed_at: datetime | None
    projected_at: datetime | None

    @property
    def items(self) -> int:
        """How many items wait, one again for each time that it changed."""
        return self.uncopied + self.changed


class CatalogReader:
    """Looks items and collections up. Use it from one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, search: ItemSearch, *, after: Key | None = None, size: int = 10) -> ItemPage:
        """Return a page of the items that match, at most `size` of them."""
        with self._database.reading() as tx:
            return _page(tx, search, after, size)

    def item(self, collection_id: str, item_id: str) -> bytes | None:
        """Return an item: its stored bytes, or as it is shown if it expires."""
        with self._database.reading() as tx:
            rows = tx.select("item_bodies", rows=[[collection_id, item_id]])
        return _shown(rows[0]) if rows else None

    def provenance(self, collection_id: str, item_id: str) -> bytes | None:
        """Return the provenance document of an item."""
        with self._database.reading() as tx:
            rows = tx.select("provenance_bodies", rows=[[collection_id, item_id]])
        return bytes(rows[0]["body"]) if rows else None

    def units_of(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Return the units that items stand for, by their wal_id."""
        by_id = {(key.collection, key.id): key for key in keys}
        with self._database.reading() as tx:
            rows = tx.select("item_units", rows=[list(pair) for pair in by_id])
        return {by_id[row["collection_id"], row["item_id"]]: str(row["wal_id"]) for row in rows}

    def units_by_item(self, prefix: str, *, size: int) -> list[str]:
        """Return units whose item's id begins like this, in order of collection and id."""
        with self._database.reading() as tx:
            rows = tx.select("units_by_item", first=prefix, last=prefix + LAST_ID, size=size)
        return [str(row["wal_id"]) for row in rows]

    def former_items(self, wal_id: str) -> list[tuple[str, str]]:
        """Return the ids that a unit's item had before and no item has now, with collections."""
        try:
            UUID(wal_id)
        except ValueError:  # the subject of somebody else's event
            return []
        with self._database.reading() as tx:
            rows = tx.select("former_items", wal_id=wal_id)
        return [(row["collection_id"], row["item_id"]) for row in rows]

    def document(self, wal_id: str, activity_id: str) -> bytes | None:
        """Return the provenance document of one activity of a unit."""
        with self._database.reading() as tx:
            rows = tx.select("provenance_document", wal_id=wal_id, activity_id=activity_id)
        return bytes(rows[0]["body"]) if rows else None

    def activities(self, wal_id: str, *, size: int) -> list[tuple[bytes, bytes]]:
        """Return the provenance of a unit's activities, body and run part, the newest first."""
        with self._database.reading() as tx:
            rows = tx.select("provenance_of_unit", wal_id=wal_id, size=size)
        return [(bytes(row["body"]), bytes(row["run"])) for row in rows]

    def collections(self) -> list[bytes]:
        """Return all collections in order of their ids."""
        with self._database.reading() as tx:
            return [bytes(row["body"]) for row in tx.select("collection_bodies")]

    def collection(self, collection_id: str) -> bytes | None:
        """Return a collection's stored bytes."""
        with self._database.reading() as tx:
            rows = tx.select("collection_body", collection_id=collection_id)
        return bytes(rows[0]["body"]) if rows else None

    def filled_collections(self) -> list[str]:
        """Return the ids of the collections that have items, in order."""
        with self._database.reading() as tx:
            return _collections(tx)

    def projection_lag(self) -> ProjectionLag | None:
        """Return how far the copy in pgstac is behind; None where there is none."""
        with self._database.reading() as tx:
            row = tx.select("projection_lag")[0]
        if not row["collections"]:
            return None
        return ProjectionLag(
            collections=row["collections"],
            uncopied=row["uncopied"],
            changed=row["changed"],
            oldest_changed_at=instant_or_none(row["oldest"]),
            projected_at=instant_or_none(row["projected_at"]),
        )

    @contextmanager
    def view(self) -> Iterator["CatalogView"]:
        """Open one consistent view of the whole catalog."""
        with self._database.reading() as tx:
            yield CatalogView(tx)


class CatalogView:
    """The catalog at one moment, however long the reading takes."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def collections(self) -> dict[str, bytes]:
        """Return the stored collections by id."""
        rows = self._tx.select("collection_bodies")
        return {row["collection_id"]: bytes(row["body"]) for row in rows}

    def extents(self, search: ItemSearch) -> dict[str, Extent]:
        """Return what the matching items span, by collection; judged by boxes alone."""
        return extents(self._tx, search)

    def span(self, collection_id: str, names: Iterable[str]) -> Span | None:
        """Return what all items of a collection span, and their values of the named properties.

        All of its items are read. None if it has none.
        """
        row = self._tx.select("collection_span", collection_id=collection_id)[0]
        if not row["items"]:
            return None
        values: dict[str, frozenset[Value] | None] = {}
        wanted = sorted(names)
        for found in self._tx.select(
            "collection_values", collection_id=collection_id, rows=wanted, most=VALUES_MAX
        ):
            name, value = found["name"], found["value"]
            known = values.get(name) or frozenset[Value]()
            values[name] = None if value is None else known | {orjson.loads(value)}
        start, end = instant(row["start_at"]), instant(row["end_at"])
        return Span(sides=_sides(row), start=start, end=end, values=values)

    def walk(self, search: ItemSearch) -> Iterator[StoredItem]:
        """Yield the items that match, in order of collection and id."""
        for name in _collections(self._tx):
            if search.collections is not None and name not in search.collections:
                continue
            wanted = replace(search, collections=(name,), order=_BY_ID)
            last: Key | None = None
            while True:
                page = _page(self._tx, wanted, last, WALK_SIZE)
                yield from page.items
                last = page.last
                if last is None:
                    break

    def provenance(self, items: Sequence[StoredItem]) -> dict[Key, bytes]:
        """Return the provenance documents of items."""
        by_id = {(item.key.collection, item.key.id): item.key for item in items}
        rows = self._tx.select("provenance_bodies", rows=[list(pair) for pair in by_id])
        return {by_id[row["collection_id"], row["item_id"]]: bytes(row["body"]) for row in rows}


def extents(tx: Transaction, search: ItemSearch) -> dict[str, Extent]:
    """Return what the items that match span, by collection."""
    found = {}
    for row in tx.select("item_extents", **_conditions(search)):
        found[row["collection_id"]] = Extent(
            items=row["items"],
            box=_sides(row).around(),
            start=instant(row["start_at"]),
            end=instant(row["end_at"]),
        )
    return found


def _sides(row: Row) -> Sides:
    return Sides(**{each.name: row[each.name] for each in fields(Sides)})


def _page(tx: Transaction, search: ItemSearch, after: Key | None, size: int) -> ItemPage:
    if search.ids is not None:
        return _named_page(tx, search, after, size)
    found: list[StoredItem] = []
    names = _collections(tx)
    for _ in range(ROUNDS_MAX):
        keys = _keys(tx, search, ranges(search, names, after), size - len(found) + 1)
        step, more = keys[: size - len(found)], len(keys) > size - len(found)
        found += _items(tx, search, step)
        after = step[-1] if step else after
        if not more:
            return ItemPage(items=found, last=None)
        if len(found) == size:
            break
    return ItemPage(items=found, last=after)


def _named_page(tx: Transaction, search: ItemSearch, after: Key | None, size: int) -> ItemPage:
    """Return a page of named items: they are few, so all are looked up and then cut."""
    names = search.collections or _collections(tx)
    rows = tx.select(
        "search_named",
        rows=list(dict.fromkeys(names)),
        ids=list(dict.fromkeys(search.ids or ())),
        **_conditions(search),
    )
    keys = in_order(map(_key, rows), search.order)
    if after is not None:
        keys = [key for key in keys if is_behind(key, after, search.order)]
    items = _items(tx, search, keys)
    more = len(items) > size
    return ItemPage(items=items[:size], last=items[size - 1].key if more else None)


def _collections(tx: Transaction) -> list[str]:
    """Return the collections that have items, in order."""
    return [row["collection_id"] for row in tx.select("item_collections")]


def _keys(tx: Transaction, search: ItemSearch, stretches: Sequence[Range], size: int) -> list[Key]:
    """Return the first keys in order: the first of each stretch, merged."""
    if not stretches:
        return []
    rows = tx.select(
        _query_of(search),
        rows=[_range_row(stretch) for stretch in stretches],
        size=size,
        **_conditions(search),
    )
    return in_order(map(_key, rows), search.order)[:size]


def _query_of(search: ItemSearch) -> str:
    ids = "down" if is_descending(search.order, SortField.ID) else "up"
    if not by_time(search.order):
        return f"search_ids_{ids}"
    newest = is_descending(search.order, SortField.DATETIME)
    return f"search_{'newest' if newest else 'oldest'}_ids_{ids}"


def _range_row(stretch: Range) -> dict[str, object]:
    return {
        "collection_id": stretch.collection_id,
        "reach": stretch.reach,
        "low": format_instant(stretch.low),
        "high": format_instant(stretch.high),
        "tie_at": stretch.tie_at and format_instant(stretch.tie_at),
        "tie_id": stretch.tie_id,
    }


def _conditions(search: ItemSearch) -> dict[str, object]:
    bounds = ANYWHERE if search.place is None else search.place.bounds
    return {
        "since": search.since or FIRST_INSTANT,
        "until": search.until or LAST_INSTANT,
        **asdict(bounds),
    }


def _key(row: Row) -> Key:
    return Key(
        datetime=instant(row["datetime_at"]), collection=row["collection_id"], id=row["item_id"]
    )


def _items(tx: Transaction, search: ItemSearch, keys: Sequence[Key]) -> list[StoredItem]:
    """Return the items of keys in their order, without those whose geometry lies elsewhere."""
    if not keys:
        return []
    rows = tx.select("item_bodies", rows=[[key.collection, key.id] for key in keys])
    bodies = {(row["collection_id"], row["item_id"]): _shown(row) for row in rows}
    items = [StoredItem(key=key, body=bodies[key.collection, key.id]) for key in keys]
    place = search.place
    if place is None:
        return items
    return [item for item in items if place.holds(orjson.loads(item.body)["geometry"])]


def _shown(row: Row) -> bytes:
    return with_expiry(bytes(row["body"]), instant_or_none(row["expires_at"]))

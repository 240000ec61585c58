"""The catalog as a folder of files that needs nothing else, and as lines of JSON.

    catalog.json                            links to the collections
    DATASET/collection.json                 links to the years
    DATASET/YEAR/catalog.json               links to the days
    DATASET/YEAR/DAY/catalog.json           links to the items
    DATASET/YEAR/DAY/ITEM.json              with its provenance beside it, ITEM.prov.jsonld

Year and day of the year are those of an item's `datetime` in UTC. All links are relative, so that
the folder can be moved and served anywhere. The same catalog gives the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import InvalidInput
from tallgrass.stac.extensions import STAC_VERSION
from tallgrass.stac.extent import Extent, with_extent
from tallgrass.stac.hrefs import CATALOG_HREF, part
from tallgrass.stac.item import PROVENANCE_REL
from tallgrass.stac.search import ItemSearch, Key, StoredItem

DESCRIPTION = "NOAA open data as a STAC catalog, each item with its provenance."

_COLLECTION = "collection.json"
_BATCH = 1000
#: Links of the stored form, which this layout has its own for.
_REPLACED = frozenset({"root", "parent", "collection", "self", "item", "child", PROVENANCE_REL})

Document = dict[str, Any]


class Source(Protocol):
    """The catalog at one moment."""

    def collections(self) -> Mapping[str, bytes]:
        """Return the stored collections by id."""

    def extents(self, search: ItemSearch) -> Mapping[str, Extent]:
        """Return what the matching items span, by collection."""

    def walk(self, search: ItemSearch) -> Iterator[StoredItem]:
        """Yield the items that match, in order of collection and id."""

    def provenance(self, items: Sequence[StoredItem]) -> Mapping[Key, bytes]:
        """Return the provenance documents of items."""


@dataclass(slots=True)
class Exported:
    """What an export wrote."""

    collections: int = 0
    items: int = 0
    files: int = 0


@dataclass(slots=True)
class _Shelf:
    """One collection on its way to the folder: year → day → ids of its items."""

    folder: str
    days: dict[str, dict[str, list[str]]] = field(default_factory=dict)


def is_export(folder: Path) -> bool:
    """Tell whether a folder is a static catalog that was written here."""
    try:
        catalog = orjson.loads((folder / CATALOG_HREF).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(catalog, dict) and catalog.get("description") == DESCRIPTION


def lines(source: Source, search: ItemSearch) -> Iterator[bytes]:
    """Yield the items as lines of JSON, each exactly as it is stored."""
    for item in source.walk(search):
        yield item.body + b"\n"


def write_static(
    source: Source,
    search: ItemSearch,
    folder: Path,
    *,
    dataset_of: Callable[[str], str],
    advance: Callable[[int], None] = lambda _: None,
) -> Exported:
    """Write the items that match below an empty folder; `advance` hears how many are done."""
    done = Exported()
    stored, extents = source.collections(), source.extents(search)
    written: list[tuple[str, str]] = []
    shelf: tuple[str, _Shelf] | None = None
    items = source.walk(search)
    while batch := list(islice(items, _BATCH)):
        documents = source.provenance(batch)
        for item in batch:
            name = item.key.collection
            if shelf is None or shelf[0] != name:
                _finish(shelf, folder, stored, extents, done)
                shelf = (name, _Shelf(dataset_of(name)))
                written.append((name, shelf[1].folder))
            _write_item(shelf[1], item, documents.get(item.key), folder, done)
        advance(len(batch))
    _finish(shelf, folder, stored, extents, done)
    links = [
        _link("child", f"./{part(place)}/{_COLLECTION}", title=name) for name, place in written
    ]
    _write(folder / CATALOG_HREF, _catalog("tallgrass", DESCRIPTION, [_root("./"), *links]), done)
    return done


def _write_item(
    shelf: _Shelf, item: StoredItem, provenance: bytes | None, folder: Path, done: Exported
) -> None:
    at = item.key.datetime
    year, day = f"{at.year:04}", f"{at.timetuple().tm_yday:03}"
    place = folder / part(shelf.folder) / year / day
    days = shelf.days.setdefault(year, {})
    if day not in days:
        place.mkdir(parents=True, exist_ok=True)
    days.setdefault(day, []).append(item.key.id)
    name = part(item.key.id)
    document = orjson.loads(item.body)
    document["links"] = [
        _root("../../../"),
        _link("parent", f"./{CATALOG_HREF}"),
        _link("collection", f"../../{_COLLECTION}"),
        *([] if provenance is None else [_provenance_link(name)]),
        *(each for each in document["links"] if each["rel"] not in _REPLACED),
    ]
    _write(place / f"{name}.json", document, done)
    if provenance is not None:
        (place / f"{name}.prov.jsonld").write_bytes(provenance)
        done.files += 1
    done.items += 1


def _finish(
    shelf: tuple[str, _Shelf] | None,
    folder: Path,
    stored: Mapping[str, bytes],
    extents: Mapping[str, Extent],
    done: Exported,
) -> None:
    """Write what stands above the items of a collection."""
    if shelf is None:
        return
    name, content = shelf
    if name not in stored:
        raise InvalidInput(
            f"the collection {name} has items but no document; "
            "`tallgrass stac collections refresh` writes it"
        )
    place = folder / part(content.folder)
    for year, days in sorted(content.days.items()):
        _write_year(place / year, name, year, days, done)
    document = orjson.loads(with_extent(stored[name], extents[name]))
    document["links"] = [
        _root("../"),
        _link("parent", f"../{CATALOG_HREF}"),
        *(_link("child", f"./{year}/{CATALOG_HREF}", title=year) for year in sorted(content.days)),
        *(each for each in document["links"] if each["rel"] not in _REPLACED),
    ]
    _write(place / _COLLECTION, document, done)
    done.collections += 1


def _write_year(
    place: Path, name: str, year: str, days: Mapping[str, list[str]], done: Exported
) -> None:
    for day, ids in sorted(days.items()):
        items = [_link("item", f"./{part(each)}.json", "application/geo+json") for each in ids]
        links = [_root("../../../"), _link("parent", f"../{CATALOG_HREF}"), *items]
        catalog = _catalog(f"{name}-{year}-{day}", f"{name}, day {day} of {year}", links)
        _write(place / day / CATALOG_HREF, catalog, done)
    links = [_root("../../"), _link("parent", f"../{_COLLECTION}")]
    links += [_link("child", f"./{day}/{CATALOG_HREF}", title=day) for day in sorted(days)]
    _write(place / CATALOG_HREF, _catalog(f"{name}-{year}", f"{name}, {year}", links), done)


def _catalog(name: str, description: str, links: list[Document]) -> Document:
    return {
        "type": "Catalog",
        "stac_version": STAC_VERSION,
        "id": name,
        "description": description,
        "links": links,
    }


def _root(up: str) -> Document:
    return _link("root", f"{up}{CATALOG_HREF}")


def _provenance_link(name: str) -> Document:
    return _link(PROVENANCE_REL, f"./{name}.prov.jsonld", "application/ld+json")


def _link(rel: str, href: str, media_type: str = "application/json", **more: str) -> Document:
    return {"rel": rel, "href": href, "type": media_type, **more}


def _write(path: Path, document: Document, done: Exported) -> None:
    path.write_bytes(canonical_bytes(document))
    done.files += 1

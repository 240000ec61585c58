"""The catalog in use: lent to the threads of the API, served, exported, refreshed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import LifoQueue
from typing import TYPE_CHECKING, BinaryIO

from tallgrass.bootstrap.stores import (
    Stores,
    open_current_stores,
    open_database,
    record_collections,
)
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import ConfigError
from tallgrass.stac.collections import build_collection, summarised
from tallgrass.stac.extent import with_extent, with_values
from tallgrass.stac.search import ItemPage, ItemSearch, Key
from tallgrass.storage.catalog_reader import CatalogReader, CatalogView

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tallgrass.storage.unit_of_work import Database

#: Connections at a time; a search takes milliseconds.
READERS_MAX = 8


class SharedCatalog:
    """The catalog for many threads: each call has a connection to itself, and waits for one."""

    def __init__(self, config: Config, *, readers_max: int = READERS_MAX) -> None:
        self._databases = [open_database(config, read_only=True) for _ in range(readers_max)]
        self._idle: LifoQueue[Database] = LifoQueue()
        for database in reversed(self._databases):
            self._idle.put(database)

    def close(self) -> None:
        """Close all connections."""
        for database in self._databases:
            database.close()

    def page(self, search: ItemSearch, *, after: Key | None = None, size: int = 10) -> ItemPage:
        """Return a page of the items that match."""
        with self._lent() as reader:
            return reader.page(search, after=after, size=size)

    def item(self, collection_id: str, item_id: str) -> bytes | None:
        """Return an item's stored bytes."""
        with self._lent() as reader:
            return reader.item(collection_id, item_id)

    def provenance(self, collection_id: str, item_id: str) -> bytes | None:
        """Return the provenance document of an item."""
        with self._lent() as reader:
            return reader.provenance(collection_id, item_id)

    def former_items(self, wal_id: str) -> list[tuple[str, str]]:
        """Return the ids that a unit's item had before and no item has now, with collections."""
        with self._lent() as reader:
            return reader.former_items(wal_id)

    def document(self, wal_id: str, activity_id: str) -> bytes | None:
        """Return the provenance document of one activity of a unit."""
        with self._lent() as reader:
            return reader.document(wal_id, activity_id)

    def collections(self) -> list[bytes]:
        """Return all collections in order of their ids."""
        with self._lent() as reader:
            return reader.collections()

    def collection(self, collection_id: str) -> bytes | None:
        """Return a collection's stored bytes."""
        with self._lent() as reader:
            return reader.collection(collection_id)

    @contextmanager
    def _lent(self) -> Iterator[CatalogReader]:
        database = self._idle.get()
        try:
            yield CatalogReader(database)
        finally:
            self._idle.put(database)


def open_api(config: Config) -> "tuple[FastAPI, SharedCatalog]":
    """Return the STAC API over the configured database, and what to close behind it."""
    try:
        from tallgrass.web.app import build_app  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "stac serve: its libraries are not installed", code="web_missing"
        ) from exc
    open_current_stores(config, read_only=True).close()
    catalog = SharedCatalog(config)
    return build_app(catalog), catalog


def refresh_collections(stores: Stores, catalogue: Catalogue) -> tuple[int, int]:
    """Renew all collections: words of the dataset files, extents and values of the items.

    What items span is read first, then written in one short transaction: units that commit
    meanwhile are in the next refresh. Return how many collections there are, and how many changed.
    """
    record_collections(stores, catalogue)
    datasets = {dataset.item.collection: dataset for dataset in catalogue.datasets}
    names = sorted({name for each in datasets.values() for name in summarised(each)})
    with stores.catalog.view() as view:
        stored = view.collections()
        extents = view.extents(ItemSearch())
        values = view.property_values(names)
    renewed = []
    for name, body in stored.items():
        document = build_collection(datasets[name]) if name in datasets else body
        if name in extents:
            document = with_extent(document, extents[name])
        if name in datasets and name in values:
            own = summarised(datasets[name])
            few = {each: sorted(found, key=str) for each, found in values[name].items()}
            document = with_values(document, {each: few[each] for each in few if each in own})
        renewed.append((name, document))
    return len(renewed), stores.collections.replace(renewed)


def dataset_folders(catalogue: Catalogue) -> dict[str, str]:
    """Return the folder of each collection in a static catalog: its dataset, if that is one."""
    found: dict[str, list[str]] = {}
    for dataset in catalogue.datasets:
        found.setdefault(dataset.item.collection, []).append(dataset.id)
    return {name: ids[0] for name, ids in found.items() if len(ids) == 1}


def export_geoparquet(
    view: CatalogView, search: ItemSearch, file: BinaryIO, advance: Callable[[int], None]
) -> int:
    """Write the items that match as GeoParquet; return how many."""
    try:
        from tallgrass.stac.geoparquet import write_geoparquet  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise ConfigError("stac export: pyarrow is not installed", code="stac_missing") from exc
    return write_geoparquet(
        lambda: view.walk(search), file, collections=view.collections(), advance=advance
    )

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
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import ConfigError
from tallgrass.stac.collections import build_collection
from tallgrass.stac.extent import with_extent, with_values
from tallgrass.stac.search import ItemPage, ItemSearch, Key
from tallgrass.stac.span import Span
from tallgrass.stac.summarised import summarised
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
    """Renew all collections: words of the dataset files, extents and values of all items.

    What items span is read first, then written collection by collection: what units note that
    commit meanwhile is added. Return how many collections there are, and how many changed.
    """
    record_collections(stores, catalogue)
    datasets = {dataset.item.collection: dataset for dataset in catalogue.datasets}
    with stores.catalog.view() as view:
        stored = view.collections()
        spans = {name: view.span(name, _told(datasets.get(name))) for name in stored}
    empty = [name for name in datasets if spans.get(name) is None]
    changed = stores.collections.replace(
        [(each, build_collection(datasets[each])) for each in empty]
    )
    for name, span in spans.items():
        if span is not None:
            changed += _gather(stores, name, datasets.get(name), span)
    return len(stored), changed


def widen_collections(stores: Stores, catalogue: Catalogue) -> int:
    """Renew the collections whose items changed, by what commits noted; return how many changed.

    It costs as much as there are notes, however many items there are. Only of a collection whose
    notes are gathered for the first time all items are read: some may be older than the notes.
    """
    datasets = {dataset.item.collection: dataset for dataset in catalogue.datasets}
    changed = 0
    for name, known in stores.collections.waiting().items():
        dataset, whole = datasets.get(name), None
        if not known:
            with stores.catalog.view() as view:
                whole = view.span(name, _told(dataset))
        changed += _gather(stores, name, dataset, whole)
    return changed


def _gather(stores: Stores, name: str, dataset: Dataset | None, whole: Span | None) -> bool:
    return stores.collections.gather(name, whole, names=_told(dataset), renewed=_renewing(dataset))


def _told(dataset: Dataset | None) -> frozenset[str]:
    return frozenset() if dataset is None else summarised(dataset)


def _renewing(dataset: Dataset | None) -> Callable[[bytes, Span], bytes]:
    """Return what makes a collection anew: of its dataset, else of what is stored, and a span."""

    def renewed(stored: bytes, span: Span) -> bytes:
        plain = stored if dataset is None else build_collection(dataset)
        spanned, values = with_extent(plain, span), span.few(_told(dataset))
        return with_values(spanned, values) if values else spanned

    return renewed


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

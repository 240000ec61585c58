"""A STAC API with the Transaction extension: stac-fastapi's own routes and checks over a table."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never

import attr
import uvicorn
from fastapi.responses import JSONResponse
from stac_fastapi.api.app import StacApi
from stac_fastapi.extensions import TransactionExtension
from stac_fastapi.extensions.transaction.client import BaseTransactionsClient
from stac_fastapi.types.config import ApiSettings
from stac_fastapi.types.core import BaseCoreClient
from stac_fastapi.types.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S_MAX = 60.0


class Table:
    """What the API holds."""

    def __init__(self) -> None:
        self.collections: dict[str, dict[str, Any]] = {}
        self.items: dict[tuple[str, str], dict[str, Any]] = {}
        #: Verb and name of each write, in order.
        self.writes: list[tuple[str, str]] = []
        #: Whether it can delete nothing just now.
        self.is_busy = False


def _missing(what: str) -> Never:
    raise NotFoundError(f"{what} does not exist")


@attr.s
class Reading(BaseCoreClient):
    """The reading half: items and collections by id."""

    table: Table = attr.ib(factory=Table)

    def get_item(self, item_id: str, collection_id: str, **_: Any) -> Any:
        """Show an item as such APIs do, with links of their own."""
        item = self.table.items.get((collection_id, item_id)) or _missing(item_id)
        return JSONResponse({**item, "links": [{"rel": "self", "href": "http://api/items/x"}]})

    def get_collection(self, collection_id: str, **_: Any) -> Any:
        """Show a collection."""
        return JSONResponse(self.table.collections.get(collection_id) or _missing(collection_id))

    def all_collections(self, **_: Any) -> Any:
        """Show all collections."""
        return JSONResponse({"collections": list(self.table.collections.values()), "links": []})

    def item_collection(self, collection_id: str, *_: Any, **__: Any) -> Any:
        """Show nothing: no test asks."""
        raise NotFoundError(collection_id)

    def post_search(self, *_: Any, **__: Any) -> Any:
        """Show nothing: no test asks."""
        raise NotFoundError("search")

    get_search = post_search


@attr.s
class Writing(BaseTransactionsClient):
    """The writing half: creates only what is not there, replaces only what is."""

    table: Table = attr.ib(factory=Table)

    def create_item(self, collection_id: str, item: Any, **_: Any) -> Any:
        """Create an item of a collection that exists."""
        if collection_id not in self.table.collections:
            _missing(collection_id)
        if (collection_id, item.id) in self.table.items:
            raise ConflictError(f"{item.id} exists")
        return self._store("create", collection_id, item)

    def update_item(self, collection_id: str, item_id: str, item: Any, **_: Any) -> Any:
        """Replace an item."""
        if (collection_id, item_id) not in self.table.items:
            _missing(item_id)
        return self._store("replace", collection_id, item)

    def delete_item(self, item_id: str, collection_id: str, **_: Any) -> Any:
        """Delete an item."""
        if self.table.is_busy:
            return JSONResponse({}, status_code=503)
        if self.table.items.pop((collection_id, item_id), None) is None:
            _missing(item_id)
        self.table.writes.append(("delete", item_id))
        return JSONResponse({}, status_code=200)

    def create_collection(self, collection: Any, **_: Any) -> Any:
        """Create a collection."""
        if collection.id in self.table.collections:
            raise ConflictError(f"{collection.id} exists")
        self.table.writes.append(("collection", collection.id))
        body = collection.model_dump(mode="json", exclude_unset=True)
        self.table.collections[collection.id] = body
        return JSONResponse(body, status_code=201)

    def _store(self, verb: str, collection_id: str, item: Any) -> Any:
        body = item.model_dump(mode="json", exclude_unset=True)
        self.table.items[collection_id, item.id] = body
        self.table.writes.append((verb, item.id))
        return JSONResponse(body, status_code=201 if verb == "create" else 200)

    def patch_item(self, *_: Any, **__: Any) -> Any:
        """Do nothing: the sink sends no part of an item."""
        raise NotImplementedError

    update_collection = patch_collection = delete_collection = patch_item


@contextmanager
def serving(table: Table) -> Iterator[str]:
    """Serve the API over a table on loopback; yield its address."""
    settings = ApiSettings()
    api = StacApi(
        settings=settings,
        client=Reading(table=table),
        extensions=[TransactionExtension(client=Writing(table=table), settings=settings)],
    )
    config = uvicorn.Config(
        api.app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    ends_at = time.monotonic() + START_S_MAX
    while not server.started and thread.is_alive() and time.monotonic() < ends_at:
        time.sleep(0.01)
    try:
        assert server.started
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()

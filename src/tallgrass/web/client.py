"""The STAC API over the catalog: core, collections, features and item search, read only."""

from typing import Any
from urllib.parse import urlencode

import orjson
from attrs import define, field
from fastapi import Request, Response
from stac_fastapi.types.core import BaseCoreClient
from stac_fastapi.types.requests import get_base_url

from tallgrass.errors import UnknownRecord
from tallgrass.stac.search import ItemPage, encode_cursor
from tallgrass.web.catalog import Catalog
from tallgrass.web.documents import (
    GEOJSON,
    JSON,
    JSON_LD,
    Document,
    collection_document,
    collection_url,
    item_document,
    link,
)
from tallgrass.web.requests import (
    ITEM_PARAMETERS,
    SEARCH_PARAMETERS,
    SearchRequest,
    from_body,
    from_query,
    require_known,
    require_text,
)

#: What of the API holds, and nothing else. Not among them: the OpenAPI 3.0 class (its description
#: is of OpenAPI 3.1).
CONFORMANCE = (
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/geojson",
    "https://api.stacspec.org/v1.0.0/collections",
    "https://api.stacspec.org/v1.0.0/core",
    "https://api.stacspec.org/v1.0.0/item-search",
    "https://api.stacspec.org/v1.0.0/item-search#fields",
    "https://api.stacspec.org/v1.0.0/item-search#sort",
    "https://api.stacspec.org/v1.0.0/ogcapi-features",
    "https://api.stacspec.org/v1.0.0/ogcapi-features#fields",
    "https://api.stacspec.org/v1.0.0/ogcapi-features#sort",
    "https://api.stacspec.org/v1.1.0/item-search#sort",
    "https://api.stacspec.org/v1.1.0/ogcapi-features#sort",
)


@define(eq=False)
class CatalogClient(BaseCoreClient):
    """Answers each request from the catalog. The library runs it in threads.

    Its answers are finished responses, which the library's types do not foresee: hence `Any`.
    """

    catalog: Catalog = field(kw_only=True)

    def conformance_classes(self) -> list[str]:
        """Return the classes that hold."""
        return list(CONFORMANCE)

    def all_collections(self, **kwargs: Any) -> Any:
        """Answer GET /collections."""
        request: Request = kwargs["request"]
        require_known(request.query_params, ())
        base_url = get_base_url(request)
        found = [collection_document(body, base_url) for body in self.catalog.collections()]
        links = [link("self", f"{base_url}collections"), *_home(base_url)]
        document = {"collections": found, "links": links, "numberReturned": len(found)}
        return _answer({**document, "numberMatched": len(found)}, JSON)

    def get_collection(self, collection_id: str, **kwargs: Any) -> Any:
        """Answer GET /collections/{collection_id}."""
        request: Request = kwargs["request"]
        require_known(request.query_params, ())
        body = self._collection(collection_id)
        return _answer(collection_document(body, get_base_url(request)), JSON)

    def get_item(self, item_id: str, collection_id: str, **kwargs: Any) -> Any:
        """Answer GET /collections/{collection_id}/items/{item_id}."""
        request: Request = kwargs["request"]
        require_known(request.query_params, ())
        _require_ids(collection_id, item_id)
        body = self.catalog.item(collection_id, item_id)
        if body is None:
            raise UnknownRecord(f"no item {item_id} in the collection {collection_id}")
        return _answer(item_document(body, get_base_url(request)), GEOJSON)

    def provenance(self, collection_id: str, item_id: str) -> Response:
        """Answer GET /collections/{collection_id}/items/{item_id}/provenance."""
        _require_ids(collection_id, item_id)
        body = self.catalog.provenance(collection_id, item_id)
        if body is None:
            raise UnknownRecord(f"no provenance of {item_id} in the collection {collection_id}")
        return Response(body, media_type=JSON_LD)

    def item_collection(self, collection_id: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Answer GET /collections/{collection_id}/items."""
        request: Request = kwargs["request"]
        require_known(request.query_params, ITEM_PARAMETERS)
        self._collection(collection_id)
        wanted = from_query({**kwargs, "collections": [collection_id]}, request.query_params)
        home = get_base_url(request)
        collection = collection_url(home, collection_id)
        links = [
            link("self", str(request.url), GEOJSON),
            link("root", home),
            link("parent", collection),
            link("collection", collection),
        ]
        return self._page(wanted, request, links)

    def get_search(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - the library's signature
        """Answer GET /search."""
        request: Request = kwargs["request"]
        require_known(request.query_params, SEARCH_PARAMETERS)
        wanted = from_query(kwargs, request.query_params)
        links = [
            link("self", str(request.url), GEOJSON),
            link("root", get_base_url(request)),
        ]
        return self._page(wanted, request, links)

    def post_search(self, search_request: Any, **kwargs: Any) -> Any:
        """Answer POST /search."""
        request: Request = kwargs["request"]
        require_known(request.query_params, ())
        body = search_request.model_dump(exclude_unset=True, mode="json")
        links = [
            link("self", str(request.url), GEOJSON, method="POST", body=body),
            link("root", get_base_url(request)),
        ]
        return self._page(from_body(search_request), request, links, body)

    def _collection(self, collection_id: str) -> bytes:
        require_text("collection", collection_id)
        body = self.catalog.collection(collection_id)
        if body is None:
            raise UnknownRecord(f"no collection {collection_id}")
        return body

    def _page(
        self,
        wanted: SearchRequest,
        request: Request,
        links: list[Document],
        body: Document | None = None,
    ) -> Response:
        page = self.catalog.page(wanted.search, after=wanted.after, size=wanted.limit)
        base_url = get_base_url(request)
        items = [item_document(item.body, base_url) for item in page.items]
        if wanted.fields is not None:
            items = [wanted.fields.of(item) for item in items]
        document = {
            "type": "FeatureCollection",
            "features": items,
            "numberReturned": len(items),
            "links": [*links, *_next(page, wanted, request, body)],
        }
        return _answer(document, GEOJSON)


def _home(base_url: str) -> list[Document]:
    return [link("root", base_url), link("parent", base_url)]


def _next(
    page: ItemPage, wanted: SearchRequest, request: Request, body: Document | None
) -> list[Document]:
    """Return the link to the next page, if there is one: the same request with a token."""
    if page.last is None:
        return []
    token = encode_cursor(page.last, wanted.search.order)
    if body is not None:
        url = str(request.url)
        return [link("next", url, GEOJSON, method="POST", body={**body, "token": token})]
    query = {**request.query_params, "token": token}
    url = str(request.url.replace(query=urlencode(query)))
    return [link("next", url, GEOJSON, method="GET")]


def _require_ids(collection_id: str, item_id: str) -> None:
    require_text("collection", collection_id)
    require_text("item", item_id)


def _answer(document: Document, media_type: str) -> Response:
    return Response(orjson.dumps(document), media_type=media_type)

"""Documents as the API gives them: what is stored, with links that lead to the API itself.

Everything but `links` is served as it is stored. Links of the stored form are relative to a folder;
they are replaced. A link that leads elsewhere by a full address is kept.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from tallgrass.stac.hrefs import part
from tallgrass.stac.item import PROVENANCE_REL

JSON = "application/json"
GEOJSON = "application/geo+json"
JSON_LD = "application/ld+json"

Document = dict[str, Any]


def link(rel: str, href: str, media_type: str = JSON, **more: object) -> Document:
    """Return a link."""
    return {"rel": rel, "type": media_type, "href": href, **more}


def item_document(body: bytes, base_url: str) -> Document:
    """Return a stored item with the API's links."""
    item: Document = orjson.loads(body)
    collection = collection_url(base_url, item["collection"])
    self_url = f"{collection}/items/{part(item['id'])}"
    item["links"] = [
        link("self", self_url, GEOJSON),
        link("root", base_url),
        link("parent", collection),
        link("collection", collection),
        link(PROVENANCE_REL, f"{self_url}/provenance", JSON_LD),
        *_elsewhere(item),
    ]
    return item


def collection_document(body: bytes, base_url: str) -> Document:
    """Return a stored collection with the API's links."""
    collection: Document = orjson.loads(body)
    self_url = collection_url(base_url, collection["id"])
    collection["links"] = [
        link("self", self_url),
        link("root", base_url),
        link("parent", base_url),
        link("items", f"{self_url}/items", GEOJSON),
        *_elsewhere(collection),
    ]
    return collection


def collection_url(base_url: str, collection_id: str) -> str:
    """Return a collection's address."""
    return f"{base_url}collections/{part(collection_id)}"


def _elsewhere(document: Mapping[str, Any]) -> list[Document]:
    return [each for each in document["links"] if "://" in each["href"]]

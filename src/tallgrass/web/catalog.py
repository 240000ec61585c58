"""What the API reads; it never writes."""

from typing import Protocol

from tallgrass.stac.search import ItemPage, ItemSearch, Key


class Catalog(Protocol):
    """The catalog, to be asked from any thread."""

    def page(self, search: ItemSearch, *, after: Key | None = None, size: int = 10) -> ItemPage:
        """Return a page of the items that match, at most `size` of them."""

    def item(self, collection_id: str, item_id: str) -> bytes | None:
        """Return an item's stored bytes."""

    def provenance(self, collection_id: str, item_id: str) -> bytes | None:
        """Return the provenance document of an item."""

    def collections(self) -> list[bytes]:
        """Return all collections in order of their ids."""

    def collection(self, collection_id: str) -> bytes | None:
        """Return a collection's stored bytes."""

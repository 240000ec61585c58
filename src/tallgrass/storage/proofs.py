"""Raw readings by which the promises are checked."""

from collections.abc import Callable, Iterator

from tallgrass.storage.unit_of_work import Database

#: A named count, with its parameters.
Counts = Callable[..., int]

_PAGE = 1000


def count_for_proof(database: Database) -> Counts:
    """Return a function that counts rows by a statement of ``proofs.sql``."""

    def count(name: str, **params: object) -> int:
        with database.reading() as tx:
            return int(tx.select(name, **params)[0]["found"])

    return count


def stored_items(database: Database) -> Iterator[tuple[bytes, str]]:
    """Yield body and stored hash of every item, in order of collection and id."""
    collection_id = item_id = ""
    while True:
        with database.reading() as tx:
            rows = tx.select("items_page", collection_id=collection_id, item_id=item_id, size=_PAGE)
        for row in rows:
            yield bytes(row["body"]), row["sha256"]
        if len(rows) < _PAGE:
            return
        collection_id, item_id = rows[-1]["collection_id"], rows[-1]["item_id"]


def applied_etags(database: Database) -> dict[str, str | None]:
    """Return, by object URI, the etag of the bytes that each item was made of."""
    with database.reading() as tx:
        return {row["object_uri"]: row["read_etag"] for row in tx.select("applied_etags")}

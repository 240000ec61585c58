"""A catalog on PostgreSQL with pgstac beside it, and raw SQL for what pgstac holds."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tallgrass.bootstrap.projecting import Projector, open_projector
from tests.support.backends import Backend, prepare
from tests.support.catalog import canonical

#: Collections that tests put items into; a hundred empty ones beside them take time.
FILLED = ("goes-glm", "hrrr", "nexrad-l2")


def build(url: str) -> None:
    """Migrate an empty database: ours, and pgstac's beside it."""
    backend = prepare("postgres", url)
    stores = backend.open()
    open_projector(backend.config(), stores, wanted=(), batch=1).prepare(
        migrate=True, rebuild=False
    )
    backend.close()


def projector(backend: Backend, *wanted: str, batch: int = 100) -> Projector:
    """Return what copies collections, those with items if none are named; on its own connection."""
    return open_projector(backend.config(), backend.open(), wanted=wanted or FILLED, batch=batch)


def project(backend: Backend, *wanted: str, batch: int = 100) -> Projector:
    """Copy what waits; return what did it, with its report."""
    made = projector(backend, *wanted, batch=batch)
    made.once()
    return made


def copied(backend: Backend) -> dict[tuple[str, str], Any]:
    """Return the items of pgstac as its own search hands them out, by collection and id."""
    rows = backend.sql(
        "SELECT collection, id, (pgstac.get_item(id, collection))::text FROM pgstac.items"
    )
    found = {(collection, name): json.loads(item) for collection, name, item in rows}
    assert len(found) == len(rows), "an item is there twice"
    return found


def stored(backend: Backend) -> dict[tuple[str, str], Any]:
    """Return the catalog's own items that have a place, by collection and id, as pgstac tells them.

    It keeps fields that are null, but leaves them out of what it hands out.
    """
    rows = backend.sql("SELECT collection_id, item_id, body FROM stac_items WHERE west <= 180")
    return {(collection, name): without_nulls(json.loads(body)) for collection, name, body in rows}


def without_nulls(value: Any) -> Any:
    """Return JSON without the fields of objects that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def waiting(backend: Backend) -> int:
    """Return how many changes were noted and not yet copied."""
    return int(backend.sql("SELECT count(*) FROM stac_changes")[0][0])


def change(backend: Backend, name: str, **properties: Any) -> None:
    """Change properties of an item in place, as a re-run of its unit would."""
    ((body,),) = backend.sql("SELECT body FROM stac_items WHERE item_id = ?", name)
    document = json.loads(body)
    document["properties"] |= properties
    backend.sql(*changing(name, canonical(document)))


def changing(name: str, body: bytes) -> tuple[str, bytes, str, str]:
    """Return the statement that replaces an item, with its parameters."""
    statement = "UPDATE stac_items SET body = ?, sha256 = ?, updated_at = now() WHERE item_id = ?"
    return statement, body, hashlib.sha256(body).hexdigest(), name


def rename(backend: Backend, name: str, other: str) -> None:
    """Give an item another id, as a re-run of its unit under another policy would."""
    ((body,),) = backend.sql("SELECT body FROM stac_items WHERE item_id = ?", name)
    renewed = canonical({**json.loads(body), "id": other})
    backend.sql(
        "INSERT INTO replaced_items SELECT wal_id, 2, collection_id, item_id, sha256, now()"
        " FROM stac_items WHERE item_id = ?",
        name,
    )
    backend.sql(
        "UPDATE stac_items SET item_id = ?, attempt_no = 2, body = ?, sha256 = ?,"
        " updated_at = now() WHERE item_id = ?",
        other, renewed, hashlib.sha256(renewed).hexdigest(), name,
    )  # fmt: skip

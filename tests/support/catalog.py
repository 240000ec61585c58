"""A catalog whose items are known by heart, written the way that a worker writes it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.stores import record_collections
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.operators.effects import Effects, ItemEffect, ProvenanceEffect
from tallgrass.stac.geometry import NOWHERE
from tests.support.builders import success, unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Known:
    """An item as a test wants it; without a box it has no place."""

    id: str
    collection: str = "goes-glm"
    box: tuple[float, float, float, float] | None = (0.0, 0.0, 1.0, 1.0)
    at: datetime = NOON
    #: Start and end; the instant itself where there is no range.
    span: tuple[datetime, datetime] | None = None
    #: Of its unit; that of the collection's name where it is none of its own.
    dataset: str | None = None
    #: Instead of the rectangle of its box.
    geometry: dict[str, Any] | None = None

    @property
    def start(self) -> datetime:
        """When it begins."""
        return self.at if self.span is None else self.span[0]

    @property
    def end(self) -> datetime:
        """When it ends."""
        return self.at if self.span is None else self.span[1]

    def document(self) -> dict[str, Any]:
        """Return the item, with links as the pipeline writes them."""
        properties: dict[str, Any] = {"datetime": text_of(self.at), "kfm:dataset": self.collection}
        if self.span is not None:
            properties |= {"start_datetime": text_of(self.start), "end_datetime": text_of(self.end)}
        place = {} if self.box is None else {"bbox": list(self.box)}
        return {
            "type": "Feature",
            "stac_version": "1.1.0",
            "stac_extensions": [],
            "id": self.id,
            "collection": self.collection,
            "geometry": self.geometry or rectangle(self.box),
            **place,
            "properties": properties,
            "assets": {"data": {"href": f"s3://noaa-goes19/{self.id}.nc", "roles": ["data"]}},
            "links": [
                {"rel": "root", "href": "../../../catalog.json", "type": "application/json"},
                {"rel": "parent", "href": "../collection.json", "type": "application/json"},
                {"rel": "collection", "href": "../collection.json", "type": "application/json"},
                {
                    "rel": "http://www.w3.org/ns/prov#has_provenance",
                    "href": f"./{self.id}.prov.jsonld",
                    "type": "application/ld+json",
                },
            ],
        }

    def body(self) -> bytes:
        """Return the bytes that are stored."""
        return canonical(self.document())

    def provenance(self) -> bytes:
        """Return the bytes of its provenance document."""
        return canonical({"@id": f"urn:prov:activity:{self.id}"})


def text_of(instant: datetime) -> str:
    """Write an instant as the package does."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def canonical(document: Any) -> bytes:
    """Return JSON with sorted keys and no white space."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def rectangle(box: tuple[float, float, float, float] | None) -> dict[str, Any] | None:
    """Return a box as GeoJSON, in two parts where it crosses the antimeridian."""
    if box is None:
        return None
    west, south, east, north = box
    if (west, south) == (east, north):
        return {"type": "Point", "coordinates": [west, south]}

    def ring(left: float, right: float) -> list[list[float]]:
        return [[left, south], [right, south], [right, north], [left, north], [left, south]]

    if west <= east:
        return {"type": "Polygon", "coordinates": [ring(west, east)]}
    return {"type": "MultiPolygon", "coordinates": [[ring(west, 180.0)], [ring(-180.0, east)]]}


def spanned(rows: Callable[[str], list[Any]]) -> dict[str, list[str]]:
    """Return the time range that items have, by collection, and see that collections tell it."""
    query = "SELECT collection_id, min(start_at), max(end_at) FROM stac_items GROUP BY 1 ORDER BY 1"
    true = {name: [str(start), str(end)] for name, start, end in rows(query)}
    told = {}
    for name, body in rows("SELECT collection_id, body FROM stac_collections"):
        (interval,) = json.loads(body)["extent"]["temporal"]["interval"]
        if name in true:
            told[name] = interval
        else:
            assert interval == [None, None], name
    assert told == true
    return true


def write_catalog(backend: Backend, items: list[Known], *, collections: bool = True) -> None:
    """Write items with their ledger and provenance, and the collections of all datasets."""
    stores = backend.open()
    if collections:
        record_collections(stores, default_catalogue())
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    announced = [
        unit(
            number,
            dataset=item.dataset or item.collection,
            object_uri=f"s3://noaa-goes19/{item.id}.nc",
        )
        for number, item in enumerate(items)
    ]
    by_uri = {each.object_uri: item for each, item in zip(announced, items, strict=True)}
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, announced) if r.claim]
    assert len(claims) == len(items)
    outcomes, effects = [], {}
    for claim in claims:
        item = by_uri[claim.unit.object_uri]
        activity = f"urn:prov:activity:{item.id}"
        body, document = item.body(), item.provenance()
        outcomes.append(
            success(
                claim,
                stac_item_id=item.id,
                stac_collection_id=item.collection,
                item_sha256=hashlib.sha256(body).hexdigest(),
                provenance_sha256=hashlib.sha256(document).hexdigest(),
                prov_activity_id=activity,
            )
        )
        effects[claim.wal_id] = Effects(
            item=ItemEffect(
                collection_id=item.collection,
                item_id=item.id,
                body=body,
                sha256=hashlib.sha256(body).hexdigest(),
                bbox=item.box or NOWHERE,
                instant=item.at,
                start=item.start,
                end=item.end,
            ),
            provenance=ProvenanceEffect(
                activity_id=activity,
                body=document,
                sha256=hashlib.sha256(document).hexdigest(),
                run=b"{}",
            ),
        )
    stores.ledger.commit(worker, outcomes, effects)
    stores.close()


def write_catalog_of_before_spans(backend: Backend, items: list[Known]) -> None:
    """Write items into a database of before commits noted what their items span."""
    kind = "boolean" if backend.name == "postgres" else "INTEGER"
    backend.sql(f"CREATE TABLE stac_spans (collection_id TEXT, gathered {kind}, span TEXT)")
    write_catalog(backend, items)
    backend.sql("DROP TABLE stac_spans")

"""STAC registration: the catalog's copy in pgstac beside pypgstac's Loader and single upserts.

The Loader gets the items from memory, all in one call, as fast as it can: no catalog is read,
nothing is remembered of how far it came, and the statistics of partitions are renewed as it goes.
The projection reads them from the catalog, five thousand a transaction, and then renews the
statistics. First all items are copied, then all once more, each changed. Single upserts are what a
consumer does that registers each item when it comes: one statement and one commit an item.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import orjson
import psycopg
from pypgstac.db import PgstacDB
from pypgstac.load import Loader, Methods

from bench.catalog_search import fill_postgres, rows
from bench.report import Row, beside, in_turn
from tallgrass.bootstrap.projecting import open_projector
from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.config import load_config
from tests.plugins.postgres_server import PostgresServer, new_folder, postgis_binaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 5000
#: Items that are registered one by one at most: few, as their rate stays the same.
SINGLE = 500


def collection(name: str) -> bytes:
    """Return a collection of common size."""
    return orjson.dumps(
        {"type": "Collection", "stac_version": "1.1.0", "id": name, "description": "x" * 500,
         "license": "other", "links": [],
         "extent": {"spatial": {"bbox": [[-180, -90, 180, 90]]},
                    "temporal": {"interval": [["2026-01-01T00:00:00Z", None]]}}}
    )  # fmt: skip


class Prepared:
    """A server with a database to copy from: catalog filled, pgstac installed and empty."""

    def __init__(self, server: PostgresServer, count: int) -> None:
        self._server = server
        self._names = iter(range(1000))
        items = [(each[0], each[4]) for each in rows(count)]
        self.bodies = [body for _, body in items]
        self.collections = [collection(name) for name in sorted({name for name, _ in items})]
        self._template = self._create("template1")
        config = load_config(environment={}, flags={"database.url": self._template})
        migrate_database(config)
        fill_postgres(self._template, count)
        with psycopg.connect(self._template) as connection:
            for body in self.collections:
                connection.execute(
                    "INSERT INTO stac_collections VALUES (%s, %s, %s, now(), now())",
                    (orjson.loads(body)["id"], body, "0" * 64),
                )
        with contextlib.closing(open_stores(config)) as stores:
            projector = open_projector(config, stores, wanted=(), batch=BATCH)
            projector.prepare(migrate=True, rebuild=False)

    def fresh(self) -> str:
        """Return the address of a copy of it."""
        return self._create(urlsplit(self._template).path.removeprefix("/"))

    def _create(self, template: str) -> str:
        name = f"projection_{next(self._names)}"
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return urlunsplit(urlsplit(self._server.url)._replace(path=f"/{name}"))


def changed(bodies: list[bytes]) -> list[bytes]:
    """Return the items with another text in each."""
    return [body.replace(b'"filler":"x', b'"filler":"y') for body in bodies]


def loader_times_s(prepared: Prepared) -> Iterator[float]:
    """Yield how long the Loader takes for all items, then for all of them changed."""
    database = PgstacDB(dsn=prepared.fresh())
    try:
        loader = Loader(database)
        loader.load_collections(iter(prepared.collections), Methods.upsert)
        for bodies in (prepared.bodies, changed(prepared.bodies)):
            start = time.perf_counter()
            loader.load_items(iter(bodies), Methods.upsert)
            yield time.perf_counter() - start
    finally:
        database.disconnect()
        database.close()


def projection_times_s(prepared: Prepared) -> Iterator[float]:
    """Yield how long the projection takes for the same."""
    url = prepared.fresh()
    config = load_config(environment={}, flags={"database.url": url})
    with contextlib.closing(open_stores(config)) as stores:
        for _ in range(2):
            projector = open_projector(config, stores, wanted=(), batch=BATCH)
            start = time.perf_counter()
            projector.once()
            yield time.perf_counter() - start
            assert projector.report.items == len(prepared.bodies)
            _change(url)


def single_times_s(prepared: Prepared) -> Iterator[float]:
    """Yield how long single upserts take for all items, by that of a few; then of changed ones."""
    with psycopg.connect(prepared.fresh(), autocommit=True) as connection:
        connection.execute("SET search_path TO pgstac, public")
        for body in prepared.collections:
            connection.execute("SELECT upsert_collection(%s::jsonb)", (body.decode(),))
        few = prepared.bodies[:: max(10, len(prepared.bodies) // SINGLE)]
        for bodies in (few, changed(few)):
            start = time.perf_counter()
            for body in bodies:
                connection.execute("SELECT upsert_item(%s::jsonb)", (body.decode(),))
            yield (time.perf_counter() - start) / len(few) * len(prepared.bodies)


def _change(url: str) -> None:
    """Change every item in place; each change is noted."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE stac_items SET body = convert_to("
            "replace(convert_from(body, 'UTF8'), '\"filler\":\"x', '\"filler\":\"y'), 'UTF8')"
        )


SIDES: dict[str, Callable[[Prepared], Iterator[float]]] = {
    "ours": projection_times_s,
    "loader": loader_times_s,
    "single": single_times_s,
}


def benchmarks(*, quick: bool) -> list[Row]:
    """Return rows for the first copy and for changes, beside each; none without PostGIS."""
    binaries = postgis_binaries()
    if binaries is None:
        print("PostGIS is not installed: the projection is not measured")
        return []
    count, rounds = (1000, 1) if quick else (20_000, 5)
    server = PostgresServer(new_folder("tallgrass-bench-"), binaries=binaries)
    server.start()
    try:
        prepared = Prepared(server, count)
        found = [
            {name: list(SIDES[name](prepared)) for name in in_turn(number, tuple(SIDES))}
            for number in range(rounds)
        ]
    finally:
        server.remove()
    return [
        beside(
            f"{what}: rate / {whose}",
            [(count / each["ours"][number], count / each[side][number]) for each in found],
            "items/s", at_least=least, peer=f"pypgstac, {whose}", steady=side == "single",
        )
        for side, whose, least in (
            ("loader", "its Loader alone", 0.8),
            ("single", "single upserts", 3.0),
        )
        for number, what in enumerate(("first copy to pgstac", "changed items to pgstac"))
    ]  # fmt: skip

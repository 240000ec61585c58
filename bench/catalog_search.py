"""Searching 1,000,000 items by place and time: the first page, on both databases.

The items are written by plain SQL, without a ledger beside them: 30 days of radars, satellites
(one of them across the antimeridian), models and global files. Each search is for a place and a
time that the one before did not ask for. The figure is a share of 100 ms: the search as the API
runs it, from the parsed request to the page's bytes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from bench.report import Row, row
from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.clock import format_instant
from tallgrass.config import load_config
from tallgrass.stac.geometry import geometry_of
from tallgrass.stac.place import place_of_box
from tallgrass.stac.search import ItemSearch, reach_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.stac.geometry import Box

ITEMS = 1_000_000
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 30
LIMIT_MS = 100.0
SEARCHES = 60

_COLUMNS = (
    "collection_id", "item_id", "wal_id", "attempt_no", "body", "sha256", "west", "south", "east",
    "north", "start_at", "end_at", "datetime_at", "reach", "created_at", "updated_at",
)  # fmt: skip
#: Collection, share, how long an item lasts, and its places; None for many small ones.
KINDS: tuple[tuple[str, float, timedelta, Box | None], ...] = (
    ("nexrad-l2", 0.5, timedelta(minutes=5), None),
    ("goes-abi", 0.2, timedelta(minutes=5), (-152.0, 14.5, -52.9, 56.8)),
    ("goes-west", 0.1, timedelta(minutes=10), (156.0, -81.3, -53.0, 81.3)),
    ("hrrr", 0.1, timedelta(0), (-134.1, 21.1, -60.9, 52.6)),
    ("gfs", 0.09, timedelta(hours=6), (-180.0, -90.0, 180.0, 90.0)),
    ("climate", 0.01, timedelta(days=30), (-125.0, 24.0, -66.0, 50.0)),
)


def site_box(random: Random) -> Box:
    """Return what a radar sees."""
    west, south = round(random.uniform(-125, -68), 3), round(random.uniform(25, 47), 3)
    return west, south, round(west + 4.2, 3), round(south + 4.2, 3)


def rows(count: int, seed: int = 1) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of items, in order of time."""
    random = Random(seed)
    sites = [site_box(random) for _ in range(160)]
    weights = [share for _, share, _, _ in KINDS]
    for number in range(count):
        collection, _, length, box = random.choices(KINDS, weights)[0]
        start = FIRST + timedelta(days=DAYS) * number / count
        end, middle = start + length, start + length / 2
        box = box or random.choice(sites)
        name = f"{collection}_{start:%Y%m%d_%H%M%S}_V06-{random.getrandbits(96):024x}"
        body = _body(collection, name, box, middle)
        now = format_instant(start)
        yield (
            collection, name, f"{random.getrandbits(128):032x}", 1, body, sha256_hex(body), *box,
            now, format_instant(end), format_instant(middle), reach_of(start, middle, end).value,
            now, now,
        )  # fmt: skip


def _body(collection: str, name: str, box: Box, middle: datetime) -> bytes:
    """Return an item of common size."""
    return canonical_bytes(
        {
            "type": "Feature",
            "stac_version": "1.1.0",
            "id": name,
            "collection": collection,
            "geometry": geometry_of(box),
            "bbox": box,
            "properties": {"datetime": format_instant(middle), "filler": "x" * 500},
            "assets": {"data": {"href": f"s3://noaa-{collection}/{name}"}},
            "links": [],
        }
    )


def fill_sqlite(path: Path, count: int) -> None:
    """Write items into a migrated file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        marks = ", ".join("?" for _ in _COLUMNS)
        connection.executemany(
            f"INSERT INTO stac_items ({', '.join(_COLUMNS)}) VALUES ({marks})", rows(count)
        )
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_postgres(url: str, count: int) -> None:
    """Write items into a migrated database; there is no ledger to refer to."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY stac_items ({', '.join(_COLUMNS)}) FROM STDIN".encode()) as copy,
        ):
            for values in rows(count):
                copy.write_row(values)
        connection.execute("VACUUM ANALYZE stac_items")


def search_times_ms(url: str, searches: int) -> tuple[list[float], int]:
    """Return how long first pages took, and how many items they held."""
    config = load_config(environment={}, flags={"database.url": url})
    stores = open_stores(config, read_only=True)
    random = Random(7)
    times, found = [], 0
    try:
        for number in range(searches + 1):
            west, south = random.uniform(-130, -70), random.uniform(20, 50)
            since = FIRST + timedelta(days=DAYS) * random.random()
            wanted = ItemSearch(
                place=place_of_box([west, south, west + random.random(), south + random.random()]),
                since=since,
                until=since + timedelta(hours=random.choice([1, 24, 24 * 7])),
            )
            start = time.perf_counter()
            page = stores.catalog.page(wanted, size=10)
            if number:  # The first opens the connection.
                times.append(1000 * (time.perf_counter() - start))
                found += len(page.items)
    finally:
        stores.close()
    return times, found


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return one row for each database."""
    count = 50_000 if quick else ITEMS
    found = []
    for name, url in (
        ("sqlite", f"sqlite:///{folder / 'search.db'}"),
        ("postgres", new_postgres()),
    ):
        migrate_database(load_config(environment={}, flags={"database.url": url}))
        if name == "sqlite":
            fill_sqlite(folder / "search.db", count)
        else:
            fill_postgres(url, count)
        times, items = search_times_ms(url, SEARCHES)
        assert items > SEARCHES, "the searches find next to nothing"
        title = f"catalog search, {count:,} items, {name}: first page / {LIMIT_MS:g} ms"
        found.append(row(title, [each / LIMIT_MS for each in times], at_most=1.0))
    return found

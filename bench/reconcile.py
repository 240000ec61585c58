"""Reconciliation of 1,000,000 listed objects: its rate beside the bare listing, and its memory.

The bucket is a server of this machine that only lists; the ledger holds a record, an attempt and
an item of each object, but of one in a thousand. The floor is obstore's own listing of the same
bucket by the same server. The command runs as a process; its peak memory is compared with that of a
tenth of the objects.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import psycopg
from obstore.store import S3Store

from bench.bucket import BUCKET, EVERY, FIRST, PREFIX, SIZE, etag_of, key_of, serving, start_of
from bench.processes import run_tallgrass
from bench.report import Row, beside, in_turn, row
from tallgrass.clock import format_instant
from tallgrass.ledger.identity import wal_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OBJECTS = 1_000_000
#: One object in so many was never announced.
DROPPED = 1000
#: Of as many objects as that, a process is measured without its start.
MANY = 100_000

_RECORD = (
    "wal_id", "dataset", "object_uri", "provider", "queue", "event_time", "time_range_start",
    "time_range_end", "status", "attempts", "integrity_status", "metadata_status", "stac_status",
    "provenance_status", "stac_item_id", "stac_collection_id", "ingest_run_id", "worker_id",
    "replay_reason", "created_at", "updated_at", "version", "recorded_by", "budget_from",
    "lease_expiries", "applied_attempt",
)  # fmt: skip
_ATTEMPT = (
    "wal_id", "attempt_no", "status", "intent", "queue", "event_time", "object_etag", "object_size",
    "read_etag", "code_version", "config_version", "ingest_run_id", "worker_id",
    "worker_incarnation", "claim_id", "claimed_at", "claimed_from", "claimed_version", "commit_id",
    "closed_at", "closed_version", "integrity_status", "metadata_status", "stac_status",
    "provenance_status",
)  # fmt: skip
_ITEM = (
    "collection_id", "item_id", "wal_id", "attempt_no", "body", "sha256", "west", "south", "east",
    "north", "start_at", "end_at", "created_at", "updated_at", "datetime_at", "reach",
)  # fmt: skip
_TABLES = {"wal_records": _RECORD, "wal_attempts": _ATTEMPT, "stac_items": _ITEM}
_UUID = "6ba7b812-9dad-41d1-80b4-00c04fd430c8"
_OK = ("ok", "ok", "created", "ok")


def rows(count: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield record, attempt and item of each announced object, in order of data time."""
    for number in range(count):
        if number % DROPPED == DROPPED - 1:
            continue
        at, uri = format_instant(start_of(number)), f"s3://{BUCKET}/{key_of(number)}"
        name, item = wal_id("goes-glm", uri, start_of(number)), f"item-{number:09}"
        yield (
            (
                name, "goes-glm", uri, "aws", "q", at, at, at, "succeeded", 1, *_OK, item,
                "goes-glm", "bench", "bench", "none", at, at, 3, "bench", 0, 0, 1,
            ),
            (
                name, 1, "applied", "ingest", "q", at, etag_of(number), SIZE, etag_of(number),
                "1", "1", "bench", "bench", _UUID, _UUID, at, "pending", 2, _UUID, at, 3, *_OK,
            ),
            (
                "goes-glm", item, name, 1, b"{}", "0" * 64, 0.0, 0.0, 1.0, 1.0, at, at, at, at, at,
                "hour",
            ),
        )  # fmt: skip


def fill_sqlite(path: Path, count: int) -> None:
    """Write into a migrated file, without the triggers that let records begin as pending only."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        inserts = [
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            for table, columns in _TABLES.items()
        ]
        for parts in rows(count):
            for statement, part in zip(inserts, parts, strict=True):
                connection.execute(statement, part)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_postgres(url: str, count: int) -> None:
    """Write into a migrated database, as a replica would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for place, (table, columns) in enumerate(_TABLES.items()):
            statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                for parts in rows(count):
                    copy.write_row(parts[place])
            connection.execute(f"VACUUM ANALYZE {table}".encode())


def bare_s(endpoint: str, count: int) -> float:
    """List the bucket with obstore alone; return the seconds it took."""
    store = S3Store(
        BUCKET,
        endpoint=endpoint,
        region="us-east-1",
        skip_signature=True,
        client_options={"allow_http": True},
    )
    begin, seen = time.perf_counter(), 0
    for page in store.list(PREFIX, chunk_size=1000):
        seen += len(page)
    took = time.perf_counter() - begin
    assert seen == count, seen
    return took


def rounds_of(count: int) -> list[int]:
    """Return how many objects are listed in each round: all, then a quarter of them."""
    return [count, count // 4, count // 4] if count >= MANY else [count]


def listing_rate(count: int, took: float, few: int, few_s: float) -> float:
    """Return objects a second, of many without what starting a process takes."""
    return (count - few) / (took - few_s) if count >= MANY else count / took


def run_command(url: str, endpoint: str, count: int) -> tuple[float, float]:
    """Reconcile all objects in a process; return the seconds it took, and its megabytes."""
    took, size_mb, printed = run_tallgrass(
        *("--database", url, "reconcile", "--dataset", "goes-glm"),
        *("--since", format_instant(FIRST), "--until", format_instant(FIRST + count * EVERY)),
        *("--bucket", BUCKET, "--prefix", PREFIX, "--objects", "cloud"),
        *("--limit", "0", "--output", "json"),
        environment={"TALLGRASS_OBJECTS_ENDPOINT_URL": endpoint},
    )
    told = json.loads(printed)
    found = {kind: number for kind, number in told["counts"].items() if number}
    assert found == {"never_notified": count // DROPPED}, found
    assert told["listed"] == count, told
    return took, size_mb


def measured(name: str, url: str, count: int) -> list[Row]:
    """Return the rows of one database, which holds all objects but those never announced."""
    rates, sizes = [], []
    few = count // 10
    for number, listed in enumerate(rounds_of(count)):
        with serving(listed) as endpoint, serving(few) as smaller:
            small_s, small_mb = run_command(url, smaller, few)
            done = {
                side: (bare_s(endpoint, listed), 0.0)
                if side == "bare"
                else run_command(url, endpoint, listed)
                for side in in_turn(number, ("ours", "bare"))
            }
        took, size_mb = done["ours"]
        rates.append((listing_rate(listed, took, few, small_s), listed / done["bare"][0]))
        if listed == count:
            sizes.append(size_mb / small_mb)
    title = f"reconcile, {count:,} listed objects, {name}"
    return [
        beside(f"{title}: rate / bare listing", rates, "objects/s", at_least=0.5),
        row(f"{title}: memory / that of a tenth", sizes, at_most=1.5),
    ]

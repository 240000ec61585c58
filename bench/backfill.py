"""Backfill of 1,000,000 listed objects: its rate beside the bare listing, and its memory.

Bucket, ledger and floor are those of the reconciliation: the ledger lacks one object in a thousand,
which becomes due, and is taken away again after each round. A backfill into an empty ledger writes
a record an object, and is only told.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg

from bench.bucket import BUCKET, PREFIX, serving
from bench.processes import run_tallgrass
from bench.reconcile import DROPPED, OBJECTS, ROUNDS, bare_s, fill_postgres, fill_sqlite
from bench.report import Row, row
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FORGET = "DELETE FROM wal_records WHERE status = 'pending'"


def run_command(url: str, endpoint: str) -> tuple[float, float, dict[str, Any]]:
    """Backfill the bucket in a process; return seconds, megabytes and its report."""
    took, size_mb, printed = run_tallgrass(
        *("--database", url, "backfill", "--dataset", "goes-glm"),
        *("--bucket", BUCKET, "--prefix", PREFIX, "--objects", "cloud", "--actor", "bench"),
        *("--output", "json"),
        environment={"TALLGRASS_OBJECTS_ENDPOINT_URL": endpoint},
    )
    return took, size_mb, json.loads(printed)


def forget(url: str) -> None:
    """Take away what a backfill recorded, past the triggers that forbid it."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(_FORGET)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FORGET)


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return three rows for each database."""
    count = 50_000 if quick else OBJECTS
    found = []
    for name in ("sqlite", "postgres"):
        urls = [
            f"sqlite:///{folder / each}.db" if name == "sqlite" else new_postgres()
            for each in ("full", "empty")
        ]
        for url in urls:
            migrate_database(load_config(environment={}, flags={"database.url": url}))
        if name == "sqlite":
            fill_sqlite(folder / "full.db", count)
        else:
            fill_postgres(urls[0], count)
        found += measured(name, urls[0], urls[1], count)
    return found


def measured(name: str, full: str, empty: str, count: int) -> list[Row]:
    """Return the rows of one database."""
    ratios, sizes = [], []
    with serving(count) as endpoint, serving(count // 10) as smaller:
        few = count // 10
        for _ in range(ROUNDS):
            small_s, small_mb, _ = run_command(full, smaller)
            forget(full)
            took, size_mb, told = run_command(full, endpoint)
            missing = count // DROPPED
            assert (told["recorded"], told["known"]) == (missing, count - missing), told
            forget(full)
            # What the further objects took: a process that starts is no listing.
            rate, bare = (count - few) / (took - small_s), count / bare_s(endpoint, count)
            print(f"{name}: {rate:,.0f}/s, bare {bare:,.0f}/s, {size_mb:.0f} MB")
            ratios.append(rate / bare)
            sizes.append(size_mb / small_mb)
        took, _, told = run_command(empty, smaller)
        assert told["recorded"] == count // 10, told
        new = bare_s(smaller, count // 10) / took
    title = f"backfill, {count:,} listed objects, {name}"
    return [
        row(f"{title}: rate / bare listing", ratios, at_least=0.5),
        row(f"{title}: memory / that of a tenth", sizes, at_most=1.5),
        row(f"backfill, {count // 10:,} new objects, {name}: rate / bare listing", [new]),
    ]

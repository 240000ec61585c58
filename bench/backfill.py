"""Backfill of 1,000,000 listed objects: its rate beside the bare listing, and its memory.

Bucket, ledger and floor are those of the reconciliation: the ledger lacks one object in a thousand,
which becomes due, and is taken away again after each round. A backfill into an empty ledger writes
a record an object, and is only told.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import psycopg

from bench.bucket import BUCKET, PREFIX, serving
from bench.processes import run_tallgrass
from bench.reconcile import (
    DROPPED,
    bare_s,
    listing_rate,
    rounds_of,
)
from bench.report import Row, beside, in_turn, row

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


def _known(full: str, endpoint: str, count: int) -> tuple[float, float]:
    """Backfill where most is known; return the seconds it took, and its megabytes."""
    took, size_mb, told = run_command(full, endpoint)
    missing = count // DROPPED
    assert (told["recorded"], told["known"]) == (missing, count - missing), told
    forget(full)
    return took, size_mb


def measured(name: str, full: str, empty: str, count: int) -> list[Row]:
    """Return the rows of one database."""
    rates, sizes = [], []
    few = count // 10
    with serving(few) as smaller:
        for number, listed in enumerate(rounds_of(count)):
            small_s, small_mb, _ = run_command(full, smaller)
            forget(full)
            with serving(listed) as endpoint:
                done = {
                    side: (bare_s(endpoint, listed), 0.0)
                    if side == "bare"
                    else _known(full, endpoint, listed)
                    for side in in_turn(number, ("ours", "bare"))
                }
            took, size_mb = done["ours"]
            rates.append((listing_rate(listed, took, few, small_s), listed / done["bare"][0]))
            if listed == count:
                sizes.append(size_mb / small_mb)
        took, _, told = run_command(empty, smaller)
        assert told["recorded"] == few, told
        new = bare_s(smaller, few) / took
    title = f"backfill, {count:,} listed objects, {name}"
    return [
        beside(f"{title}: rate / bare listing", rates, "objects/s", at_least=0.5),
        row(f"{title}: memory / that of a tenth", sizes, at_most=1.5),
        row(f"backfill, {count // 10:,} new objects, {name}: rate / bare listing", [new]),
    ]

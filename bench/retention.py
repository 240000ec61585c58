"""Retention beside ingest: how much slower the pipeline is while 1,000,000 attempts leave.

A process of its own archives and removes, at the pace that `tallgrass retention apply` has by
default; it goes on in every second round and rests in the others. Rounds with it and without it
alternate in one run, so that a busy machine slows both.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from bench.pipeline import BATCH, BATCHES, Pipeline, message_of
from bench.report import Row, beside, in_turn, warm
from tallgrass.bootstrap.retaining import open_retention, paced, writing_pace
from tallgrass.bootstrap.retention_run import RATE
from tallgrass.bootstrap.stores import open_stores
from tallgrass.clock import format_instant
from tallgrass.config import load_config
from tallgrass.garbage import rare_collections
from tallgrass.inventory.retention import ArchiveKind
from tallgrass.ledger.identity import wal_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ATTEMPTS = 1_000_000
#: Closed attempts of one unit that no longer count, before the last.
OLD_OF_UNIT = 10
ROUNDS = 13
_AT = format_instant(datetime(2020, 1, 1, tzinfo=UTC))
_UUID = "6ba7b812-9dad-41d1-80b4-00c04fd430c8"
_RECORD = (
    "wal_id", "dataset", "object_uri", "provider", "queue", "event_time", "time_range_start",
    "time_range_end", "status", "attempts", "last_error_code", "integrity_status",
    "metadata_status", "stac_status", "provenance_status", "ingest_run_id", "worker_id",
    "replay_reason", "created_at", "updated_at", "version", "recorded_by", "budget_from",
    "lease_expiries",
)  # fmt: skip
_ATTEMPT = (
    "wal_id", "attempt_no", "status", "intent", "queue", "event_time", "object_etag", "object_size",
    "evidence", "code_version", "config_version", "ingest_run_id", "worker_id",
    "worker_incarnation", "claim_id", "claimed_at", "claimed_from", "claimed_version", "commit_id",
    "closed_at", "closed_version", "error_code", "error_message", "integrity_status",
    "metadata_status", "stac_status", "provenance_status",
)  # fmt: skip
_UNITS = BATCH * BATCHES
_UNKNOWN = ("unknown",) * 4


def _records(units: int) -> Iterator[tuple[Any, ...]]:
    for number in range(units):
        uri = f"s3://noaa-goes19/old/{number:09}.nc"
        name = wal_id("goes-glm", uri, datetime(2020, 1, 1, tzinfo=UTC))
        yield (
            name, "goes-glm", uri, "aws", "q", _AT, _AT, _AT, "failed", OLD_OF_UNIT + 1, "io_error",
            *_UNKNOWN, "bench", "bench", "none", _AT, _AT, 1, "bench", 0, 0,
        )  # fmt: skip


def _attempts(units: int) -> Iterator[tuple[Any, ...]]:
    evidence = b'{"format":"netcdf","pad":"' + b"x" * 500 + b'"}'
    for record in _records(units):
        for number in range(1, OLD_OF_UNIT + 2):
            yield (
                record[0], number, "failed", "ingest", "q", _AT, "etag", 1000, evidence, "1", "1",
                "bench", "bench", _UUID, _UUID, _AT, "pending", 2 * number, _UUID, _AT,
                2 * number + 1, "io_error", "it broke", *_UNKNOWN,
            )  # fmt: skip


def _fill(url: str, units: int) -> None:
    tables = (("wal_records", _RECORD, _records), ("wal_attempts", _ATTEMPT, _attempts))
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for table, columns, rows in tables:
                places = ", ".join("?" * len(columns))
                statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
                connection.executemany(statement, rows(units))
            for _, sql in triggers:
                connection.execute(sql)
            connection.execute("COMMIT")
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table, columns, rows in tables:
            copying = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()
            with connection.cursor() as cursor, cursor.copy(copying) as copy:
                for values in rows(units):
                    copy.write_row(values)
            connection.execute(f"VACUUM ANALYZE {table}".encode())


def _retain(url: str, folder: str, go: Any, done: Any) -> None:
    """Archive and remove at the command's pace, while `go` is set; count what has left."""
    flags: dict[str, str | int | float | bool] = {
        "database.url": url,
        "retention.attempts_days": 30,
        "retention.archive": folder,
    }
    config = load_config(environment={}, flags=flags)
    stores = open_stores(config)
    pace = writing_pace(RATE, sleep=time.sleep, monotonic=time.monotonic)
    retention = open_retention(config, stores, rest=lambda rows: (go.wait(), pace(rows)))
    steps = retention.steps([ArchiveKind.ATTEMPTS], actor="bench")
    for step in paced(steps, rows_per_s=RATE, sleep=time.sleep, monotonic=time.monotonic):
        if step.what == "removed":
            done.value += step.rows
        go.wait()
    stores.close()


def _beside(name: str, url: str, folder: Path, attempts: int, rounds: int) -> Row:
    pipeline = Pipeline(url, folder)
    _fill(url, attempts // OLD_OF_UNIT)
    context = multiprocessing.get_context("spawn")
    go, done = context.Event(), context.Value("q", 0)
    child = context.Process(target=_retain, args=(url, str(folder / "archive"), go, done))
    rates = []
    try:
        with rare_collections():
            _round(pipeline, 0)
            go.set()
            child.start()
            while not done.value and child.is_alive():
                time.sleep(0.05)
            for number in range(1, rounds + 1):
                spent = {}
                for turn, side in enumerate(in_turn(number, ("beside", "alone"))):
                    if side == "beside":
                        go.set()
                    else:
                        go.clear()
                        time.sleep(0.3)  # what it had begun ends
                    spent[side] = _round(pipeline, 2 * number + turn)
                rates.append((_UNITS / spent["beside"], _UNITS / spent["alone"]))
        if not done.value:
            raise AssertionError("nothing left while ingest was measured")
    finally:
        child.kill()
        child.join()
        pipeline.close()
    title = f"{name}: ingest beside retention / alone"
    return beside(title, warm(rates), "units/s", at_least=0.9)


def _round(pipeline: Pipeline, number: int) -> float:
    pipeline.queue.send([message_of(number * _UNITS + each) for each in range(_UNITS)])
    begin = time.perf_counter()
    for _ in range(BATCHES):
        pipeline.round()
    return time.perf_counter() - begin


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return the ratio on each database."""
    attempts, rounds = (20_000, 1) if quick else (ATTEMPTS, ROUNDS)
    places = {"SQLite": f"sqlite:///{folder}/retention.db", "PostgreSQL": new_postgres()}
    return [_beside(name, url, folder / name, attempts, rounds) for name, url in places.items()]

"""A dry run over 1,000,000 records: how soon it speaks, what it holds, what a candidate costs.

Records and attempts are written by plain SQL, in order of data time: four datasets, three units of
ten failed, the others succeeded, half of those by this code and configuration (hits). All are
candidates. The floor is the same walk of the index by the bare driver: the record's columns, row by
row. The command itself runs as a process that writes the plan to a pipe.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

import tallgrass
from bench.report import Row, beside, in_turn, row
from tallgrass.bootstrap.datasets import config_version, open_catalogue
from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.clock import format_instant
from tallgrass.config import load_config
from tallgrass.ledger.identity import wal_id
from tallgrass.replay.selection import Purpose, Selection, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallgrass.config import Config

RECORDS = 1_000_000
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DATASETS = ("goes-glm", "goes-abi", "nexrad-l2", "hrrr")
MEMORY_MB_MAX = 300.0

_RECORD = (
    "wal_id", "dataset", "object_uri", "provider", "queue", "event_time", "time_range_start",
    "time_range_end", "status", "attempts", "last_error_code", "integrity_status",
    "metadata_status", "stac_status", "provenance_status", "stac_item_id", "stac_collection_id",
    "ingest_run_id", "worker_id", "replay_reason", "created_at", "updated_at", "version",
    "recorded_by", "budget_from", "lease_expiries", "applied_attempt",
)  # fmt: skip
_ATTEMPT = (
    "wal_id", "attempt_no", "status", "intent", "queue", "event_time", "sns_message_id",
    "sqs_message_id", "object_etag", "object_size", "object_sequencer", "evidence", "code_version",
    "config_version", "ingest_run_id", "worker_id", "worker_incarnation", "claim_id", "claimed_at",
    "claimed_from", "claimed_version", "commit_id", "closed_at", "closed_version", "error_code",
    "integrity_status", "metadata_status", "stac_status", "provenance_status",
)  # fmt: skip
_UUID = "6ba7b812-9dad-41d1-80b4-00c04fd430c8"
_FLOOR_COLUMNS = "wal_id, dataset, status, version, attempts, budget_from, last_error_code"


def rows(count: int, current: str) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield a record and its attempt, in order of data time."""
    for number in range(count):
        start = FIRST + timedelta(seconds=number)
        at, dataset = format_instant(start), DATASETS[number % len(DATASETS)]
        uri = f"s3://noaa-goes19/{dataset}/{start:%Y/%j/%H}/OR_{dataset}_G19_s{number:014}.nc"
        failed, hit = number % 10 < 3, number % 2 == 0  # noqa: PLR2004 - three of ten
        name = wal_id(dataset, uri, start)
        words = ("failed",) * 4 if failed else ("ok", "ok", "created", "ok")
        code = "io_error" if failed else None
        item = (None, None) if failed else (f"{dataset}-{number}", f"kfm-{dataset}")
        record = (
            name, dataset, uri, "aws", "nodd-primary", at, at, at,
            "failed" if failed else "succeeded", 1, code, *words, *item, "bench", "bench", "none",
            at, at, 3, "bench", 0, 0, None if failed else 1,
        )  # fmt: skip
        attempt = (
            name, 1, "failed" if failed else "applied", "ingest", "nodd-primary", at,
            f"sns-{number}", f"sqs-{number}", "9b2cf535f27731c974343645a3985328", 384_512,
            "0065F1B2C3D4E5F607", b'{"format":"netcdf4"}' + b" " * 400,
            tallgrass.__version__ if hit else "0.0.9", current, "bench", "bench",
            _UUID, _UUID, at, "pending", 2, _UUID, at, 3, code, *words,
        )  # fmt: skip
        yield record, attempt


def fill_sqlite(path: Path, count: int, current: str) -> None:
    """Write into a migrated file, without the triggers that let records begin as pending only."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for record, attempt in rows(count, current):
            connection.execute(_insert("wal_records", _RECORD), record)
            connection.execute(_insert("wal_attempts", _ATTEMPT), attempt)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def fill_postgres(url: str, count: int, current: str) -> None:
    """Write into a migrated database, as a replica would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table, columns, part in (("wal_records", _RECORD, 0), ("wal_attempts", _ATTEMPT, 1)):
            statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()
            with connection.cursor() as cursor, cursor.copy(statement) as copy:
                for pair in rows(count, current):
                    copy.write_row(pair[part])
            connection.execute(f"VACUUM ANALYZE {table}".encode())


def scan_s(url: str) -> float:
    """Walk the index with the bare driver; return the seconds it took."""
    sql = (
        f"SELECT {_FLOOR_COLUMNS} FROM wal_records WHERE dataset = ? AND status = ? ORDER BY wal_id"
    )
    lite = url.startswith("sqlite")
    connection: Any = (
        sqlite3.connect(url.removeprefix("sqlite:///")) if lite else psycopg.connect(url)
    )
    seen = 0
    with contextlib.closing(connection):
        begin = time.perf_counter()
        for dataset in DATASETS:
            for status in ("failed", "succeeded"):
                if lite:
                    cursor = connection.execute(sql, (dataset, status))
                else:
                    cursor = connection.cursor(name="walk")
                    cursor.itersize = 2000
                    cursor.execute(sql.replace("?", "%s").encode(), (dataset, status))
                for _ in cursor:
                    seen += 1
                cursor.close()
        took = time.perf_counter() - begin
    assert seen, "nothing to walk"
    return took


def plan_s(config: Config, count: int) -> float:
    """Make the whole plan; return the seconds it took."""
    stores = open_stores(config, read_only=True)
    selection = Selection(datasets=DATASETS, data_time=Span(FIRST, None), purpose=Purpose.REPAIR)
    try:
        begin = time.perf_counter()
        plan = open_plan(config, stores, PlanRequest(selection=selection, reason="test"))
        plan.stream.first_line()
        for _ in plan.rows():
            pass
        took = time.perf_counter() - begin
    finally:
        stores.close()
    summary = plan.stream.summary
    assert summary.candidates == count, summary
    assert summary.by_action["hit"], "no hit among the candidates"
    return took


def plan_and_scan_us(config: Config, url: str, count: int, number: int) -> tuple[float, float]:
    """Return microseconds a candidate of a plan and of a bare scan, who is first by turns."""
    sides = {"plan": lambda: plan_s(config, count), "scan": lambda: scan_s(url)}
    spent = {name: sides[name]() / count * 1e6 for name in in_turn(number, tuple(sides))}
    return spent["plan"], spent["scan"]


def run_command(url: str, *, whole: bool) -> tuple[float, float]:
    """Run the dry run as a process, to its end or first row; return seconds and megabytes."""
    flags = [f"--dataset={name}" for name in DATASETS]
    begin = time.perf_counter()
    words = [
        sys.executable, "-m", "tallgrass", "--database", url, "replay", "--dry-run", *flags,
        "--since", "2026-01-01", "--include-succeeded", "--plan-out", "-",
    ]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    first = time.perf_counter() - begin
    peak_mb = _peak_mb(process.pid)
    while whole and process.stdout.read(1 << 20):
        peak_mb = max(peak_mb, _peak_mb(process.pid))
    if not whole:
        process.terminate()
    process.stdout.close()
    assert process.wait() == 0 or not whole, "the dry run failed"
    assert peak_mb, "the dry run ended before its memory was seen"
    return first, peak_mb


def _peak_mb(pid: int) -> float:
    """Return the most that a process held; what `wait4` tells begins with its parent's."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return three rows for each database."""
    count, rounds = (5_000, 1) if quick else (RECORDS, 3)
    found = []
    for name, url in (("sqlite", f"sqlite:///{folder / 'plan.db'}"), ("postgres", new_postgres())):
        flags: dict[str, Any] = {"database.url": url, "replay.max_events": RECORDS}
        config = load_config(environment={}, flags=flags)
        migrate_database(config)
        current = config_version(config, open_catalogue(config))
        if name == "sqlite":
            fill_sqlite(folder / "plan.db", count, current)
        else:
            fill_postgres(url, count, current)
        runs = [run_command(url, whole=not number) for number in range(rounds)]
        costs = [plan_and_scan_us(config, url, count, number) for number in range(rounds)]
        title = f"dry run, {count:,} records, {name}"
        found += [
            row(
                f"{title}: first output / 1 s",
                [first for first, _ in runs],
                at_most=1.0,
                limit=1.0,
                unit="s",
            ),
            row(
                f"{title}: memory / {MEMORY_MB_MAX:g} MB",
                [runs[0][1] / MEMORY_MB_MAX],
                at_most=1.0,
                limit=MEMORY_MB_MAX,
                unit="MB",
            ),
            beside(f"{title}: candidate / bare indexed scan", costs, "µs", at_most=6.0),
        ]
    return found

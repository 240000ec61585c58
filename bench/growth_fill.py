"""Many finished units at once: record, attempt and item of each, made by the database itself.

One unit a second from the beginning of 2026, in order of data time; items are of radars, satellites
(one across the antimeridian), models and global files. Triggers, which let a record begin as
pending only, are away while rows are made, and back before anything is measured.
"""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from bench.catalog_search import KINDS, site_box
from tallgrass.canonical_json import canonical_bytes
from tallgrass.stac.geometry import geometry_of
from tallgrass.stac.search import reach_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Rows of one statement on SQLite, which keeps what it writes in memory.
PIECE = 250_000

_MILLIS = int((START - datetime(1, 1, 1, tzinfo=UTC)).total_seconds()) * 1000
_OK = {
    "integrity_status": "'ok'", "metadata_status": "'ok'", "stac_status": "'created'",
    "provenance_status": "'ok'",
}  # fmt: skip
_FILLER = "x" * 300
_WHO = {"queue": "'q'", "ingest_run_id": "'bench'", "worker_id": "'bench'"}
#: Units with places and lengths of their own; then they come again.
SHAPES = 1600
_COLUMNS = (
    "number integer PRIMARY KEY, collection text, lasts integer, reach text, west float8,"
    " south float8, east float8, north float8, outline text"
)


class _Sqlite:
    """How SQLite says it."""

    series = (
        "WITH RECURSIVE series(n) AS"
        " (SELECT {first} UNION ALL SELECT n + 1 FROM series WHERE n < {last}) "
    )
    uuid = "{}"
    body = "CAST({} AS BLOB)"

    @staticmethod
    def time(seconds: str) -> str:
        """Return an instant some seconds after the beginning."""
        epoch = int(START.timestamp())
        return f"strftime('%Y-%m-%dT%H:%M:%S.000000Z', {epoch} + {seconds}, 'unixepoch')"

    @staticmethod
    def hexed(value: str, digits: int) -> str:
        """Return a number in hexadecimal digits."""
        return f"printf('%0{digits}x', {value})"


class _Postgres:
    """How PostgreSQL says it."""

    series = "WITH series(n) AS (SELECT generate_series({first}::bigint, {last}::bigint)) "
    uuid = "({})::uuid"
    body = "convert_to({}, 'UTF8')"

    @staticmethod
    def time(seconds: str) -> str:
        """Return an instant some seconds after the beginning."""
        return f"to_timestamp({int(START.timestamp())} + {seconds})"

    @staticmethod
    def hexed(value: str, digits: int) -> str:
        """Return a number in hexadecimal digits."""
        return f"lpad(to_hex({value}), {digits}, '0')"


Dialect = type[_Sqlite] | type[_Postgres]


def fill_sqlite(path: str, first: int, last: int) -> None:
    """Write units with these numbers into a migrated file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -200000")
        connection.execute(f"CREATE TEMP TABLE shapes ({_COLUMNS})")
        connection.executemany(f"INSERT INTO shapes VALUES ({', '.join('?' * 9)})", shapes())
        for at in range(first, last + 1, PIECE):
            connection.execute("BEGIN")
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements(_Sqlite, at, min(at + PIECE - 1, last)):
                connection.execute(statement)
            for _, sql in triggers:
                connection.execute(sql)
            connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_postgres(url: str, first: int, last: int) -> None:
    """Write units with these numbers into a migrated database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        connection.execute(f"CREATE TEMP TABLE shapes ({_COLUMNS})".encode())
        with connection.cursor() as cursor, cursor.copy("COPY shapes FROM STDIN") as copy:
            for shape in shapes():
                copy.write_row(shape)
        connection.execute("ANALYZE shapes")
        for statement in statements(_Postgres, first, last):
            connection.execute(statement.encode())
        connection.execute("VACUUM ANALYZE wal_records, wal_attempts, stac_items")
        # What was made at once is on the disk before anything is measured.
        connection.execute("CHECKPOINT")


def statements(dialect: Dialect, first: int, last: int) -> list[str]:
    """Return what writes the three tables."""
    at, none = dialect.time("n"), dialect.uuid.format(f"'{_uuid()}'")
    wal_id = dialect.uuid.format(_wal_id(dialect.hexed))
    collection = "CASE n % 4 WHEN 0 THEN 'goes-glm' WHEN 1 THEN 'goes-abi' "
    collection += "WHEN 2 THEN 'nexrad-l2' ELSE 'hrrr' END"
    etag = f"'9b2cf535f27731c9' || {dialect.hexed('n', 16)}"
    times = dict.fromkeys(("event_time", "time_range_start", "time_range_end"), at)
    record = {
        "wal_id": wal_id, "dataset": collection, "provider": "'aws'", **times, **_WHO, **_OK,
        "object_uri": "'s3://noaa-growth/GLM-L2-LCFA/2026/OR_GLM-L2-LCFA_G19_grown-' || n || '.nc'",
        "status": "'succeeded'", "attempts": "1", "last_attempt_at": at,
        "stac_item_id": "'item-' || n", "stac_collection_id": collection,
        "replay_reason": "'none'", "created_at": at, "updated_at": at, "version": "3",
        "recorded_by": "'bench'", "budget_from": "0", "lease_expiries": "0", "applied_attempt": "1",
    }  # fmt: skip
    attempt = {
        "wal_id": wal_id, "attempt_no": "1", "status": "'applied'", "intent": "'ingest'", **_WHO,
        **_OK, "event_time": at, "object_etag": etag, "object_size": "384512", "read_etag": etag,
        "evidence": dialect.body.format("'{\"format\":\"netcdf4\"}'"), "code_version": "'1'",
        "config_version": "'1'", "worker_incarnation": none, "claim_id": none, "claimed_at": at,
        "claimed_from": "'pending'", "claimed_version": "2", "commit_id": none, "closed_at": at,
        "closed_version": "3",
    }  # fmt: skip
    series = dialect.series.format(first=first, last=last)
    tables = (("wal_records", record, ""), ("wal_attempts", attempt, ""))
    shaped = f" JOIN shapes ON shapes.number = n % {SHAPES}"
    made = (*tables, ("stac_items", _item(dialect, wal_id), shaped))
    return [
        f"{series}INSERT INTO {table} ({', '.join(row)})"  # a series first: both take it there
        f" SELECT {', '.join(row.values())} FROM series{join} ORDER BY n"
        for table, row, join in made
    ]


def shapes() -> Iterator[tuple[Any, ...]]:
    """Yield what makes items differ, as they are mixed in feeds."""
    random = Random(1)
    sites = [site_box(random) for _ in range(160)]
    weights = [share for _, share, _, _ in KINDS]
    for number in range(SHAPES):
        collection, _, length, place = random.choices(KINDS, weights)[0]
        box = place or random.choice(sites)
        reach = reach_of(START, START + length / 2, START + length).value
        outline = canonical_bytes(geometry_of(box)).decode()
        yield (number, collection, int(length.total_seconds()), reach, *box, outline)


def _item(dialect: Dialect, wal_id: str) -> dict[str, str]:
    at, time = dialect.time("n"), dialect.time
    name = f"collection || '_V06-' || {dialect.hexed('n', 12)}"
    text = (
        '\'{"type":"Feature","stac_version":"1.1.0","collection":"\' || collection || '
        f'\'","id":"\' || {name} || \'","geometry":\' || outline || \',"filler":"{_FILLER}"}}\''
    )
    return {
        "collection_id": "collection", "item_id": name, "wal_id": wal_id, "attempt_no": "1",
        "body": dialect.body.format(text), "sha256": f"'{'0' * 64}'",
        "west": "west", "south": "south", "east": "east", "north": "north",
        "start_at": at, "end_at": time("n + lasts"), "datetime_at": time("n + lasts / 2"),
        "reach": "reach", "created_at": at, "updated_at": at,
    }  # fmt: skip


def _wal_id(hexed: Callable[[str, int], str]) -> str:
    """Return an id as the ledger makes it, with digits of the number for those of a hash."""
    time = hexed(f"{_MILLIS} + n * 1000", 12)
    mixed = hexed("(n * 2654435761) % 281474976710656", 12)
    return (
        f"substr({time}, 1, 8) || '-' || substr({time}, 9, 4) || '-8' || {hexed('n % 4096', 3)}"
        f" || '-8' || {hexed('(n * 31) % 4096', 3)} || '-' || {mixed}"
    )


def _uuid() -> str:
    return "6ba7b812-9dad-41d1-80b4-00c04fd430c8"

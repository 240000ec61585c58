"""Writes the console's store: in bulk, by plain SQL, a few thousand units at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from bench.console_governance import governance_rows
from bench.console_rows import Unit, Units
from bench.pipeline import BUCKET, Pipeline, key_of, message_of, sample_rows
from tallgrass.bootstrap.stores import open_stores, record_collections
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.garbage import rare_collections
from tallgrass.nodes import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.console_rows import Rows, Values

#: Units whose rows are written together.
CHUNK = 5000
LETTERS, NODE_RUNS = 5000, 100


class Writer(Protocol):
    """Takes rows of a table, all with the same columns."""

    def write(self, table: str, rows: Sequence[Values]) -> None:
        """Write them."""


class SqliteWriter:
    """One transaction on a migrated file, without its triggers until it ends."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        # Nothing is lost by a crash here, and without a journal each page is written once.
        self.connection.execute("PRAGMA journal_mode = OFF")
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("PRAGMA cache_size = -400000")
        self.connection.execute("BEGIN")
        found = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        self._triggers = self.connection.execute(found).fetchall()
        for name, _ in self._triggers:
            self.connection.execute(f"DROP TRIGGER {name}")

    def write(self, table: str, rows: Sequence[Values]) -> None:
        """Write rows."""
        marks = ", ".join("?" * len(rows[0]))
        statement = f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})"
        self.connection.executemany(statement, (tuple(row.values()) for row in rows))

    def close(self) -> None:
        """Commit, with triggers and journal as they were."""
        for _, sql in self._triggers:
            self.connection.execute(sql)
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.close()


class PostgresWriter:
    """A migrated database, written to as a replica is: without triggers."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("SET session_replication_role = replica")
        self._tables: set[str] = set()

    def write(self, table: str, rows: Sequence[Values]) -> None:
        """Write rows."""
        self._tables.add(table)
        statement = f"COPY {table} ({', '.join(rows[0])}) FROM STDIN".encode()
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(tuple(row.values()))

    def close(self) -> None:
        """Let the planner know what is there."""
        for table in sorted(self._tables):
            self.connection.execute(f"VACUUM ANALYZE {table}".encode())
        self.connection.close()


def fill(url: str, folder: Path, count: int) -> None:
    """Write a store of so many units behind an address that a pipeline has migrated."""
    sample = _sample(folder)
    now = datetime.now(UTC)
    units = Units(sample, [each.id for each in default_catalogue().datasets], now)
    lite = url.startswith("sqlite:///")
    writer = SqliteWriter(url.removeprefix("sqlite:///")) if lite else PostgresWriter(url)
    with contextlib.closing(writer), rare_collections():
        kept: list[Unit] = []
        each = units.each(count)
        while chunk := list(islice(each, CHUNK)):
            kept += chunk
            _write(writer, _merged(units, chunk))
        _write(writer, governance_rows(now, kept))
    stores = open_stores(load_config(environment={}, flags={"database.url": url}))
    try:
        record_collections(stores, default_catalogue())
        stores.audit.seal()
    finally:
        stores.close()


def _sample(folder: Path) -> Mapping[str, Values]:
    """Return the rows that the pipeline writes for one unit; times and ids are text."""
    pipeline = Pipeline(f"sqlite:///{folder}/sample.db", folder / "sample")
    pipeline.queue.send([message_of(0)])
    pipeline.round()
    try:
        return sample_rows(pipeline.stores, f"s3://{BUCKET}/{key_of(0)}")
    finally:
        pipeline.close()


def _merged(units: Units, chunk: Sequence[Unit]) -> Rows:
    found: Rows = {}
    for unit in chunk:
        for table, rows in units.rows(unit).items():
            found.setdefault(table, []).extend(rows)
    return found


def _write(writer: Writer, found: Rows) -> None:
    for table, rows in found.items():
        # Rows of a table may leave different columns to their defaults.
        for part in _alike(rows):
            writer.write(table, part)


def _alike(rows: Sequence[Values]) -> Iterator[list[Values]]:
    kinds: dict[tuple[str, ...], list[Values]] = {}
    for row in rows:
        kinds.setdefault(tuple(row), []).append(row)
    yield from kinds.values()


def fill_queue(path: Path, letters: int = LETTERS) -> None:
    """Bury letters in an embedded queue that is there."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)"
            " VALUES (?, ?, ?, 5, ?)",
            (
                (f"dead-{each}", *["2026-01-01T00:00:00.000000Z"] * 2, message_of(9_000_000 + each))
                for each in range(letters)
            ),
        )
        connection.execute("COMMIT")


def fill_nodes(folder: Path, runs: int = NODE_RUNS) -> None:
    """Let a runner of reliable nodes make runs of three nodes each."""

    def add(state: dict[str, Any]) -> dict[str, Any]:
        return {"x": state["x"] + 1}

    with NodeRunner(folder, pipeline="bench") as runner:
        for number in range(runs):
            for node in ("read", "shape", "publish"):
                runner.run(
                    node_id=node,
                    code_version="1",
                    inputs={"x": number},
                    exec_fn=add,
                    run_id=f"run-{number}",
                )

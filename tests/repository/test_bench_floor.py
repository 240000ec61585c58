"""The benchmark's floors write what the ledger and the pipeline write."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import LocalStore

from bench.catalog_floor import CATALOG, PostgresCatalog, SqliteCatalog
from bench.floor import SqliteFloor
from bench.pipeline import Pipeline, message_of, teach
from bench.pipeline_floor import FloorQueue, PipelineFloor
from tests.support.backends import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.postgres import Databases
    from tests.support.backends import Backend

TABLES = ("wal_records", "wal_attempts")


def _shape(connection: sqlite3.Connection) -> dict[str, list[str]]:
    columns = {t: [r[1] for r in connection.execute(f"PRAGMA table_info({t})")] for t in TABLES}
    indexes = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name IN (?, ?)"
        " AND sql IS NOT NULL ORDER BY name",
        TABLES,
    )
    return {**columns, "indexes": [name for (name,) in indexes]}


def test_the_floor_has_the_ledgers_columns_and_indexes(backend: Backend, tmp_path: Path) -> None:
    """A cheaper floor would flatter nobody: it has every column and index that the ledger has."""
    if backend.name != "sqlite":
        columns = backend.sql(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_name IN ('wal_records', 'wal_attempts') ORDER BY table_name"
        )
        floor = _shape(SqliteFloor(tmp_path / "floor.db").connection)
        assert sorted(columns) == sorted((t, name) for t in TABLES for name in floor[t])
        return
    shipped = _shape(backend.connect())
    assert _shape(SqliteFloor(tmp_path / "floor.db").connection) == shipped


#: What differs from run to run: chosen by chance, or the time of the run.
BY_CHANCE = {"claim_id", "commit_id", "outbox_id", "written"}
BY_TIME = {"created_at", "updated_at", "last_attempt_at", "claimed_at", "closed_at"}
WRITTEN = (*TABLES, *CATALOG)


def _written(connection: Any) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, without what differs from run to run."""
    tables = {}
    for table in WRITTEN:
        key = {"outbox": "subject", "outbox_delivery": "outbox_id"}.get(table, "wal_id")
        rows = read_rows(connection, f"SELECT * FROM {table} ORDER BY {key}")
        due = {"due_at", "ready_at"} if table == "outbox_delivery" else set()
        differs = BY_CHANCE | BY_TIME | due
        tables[table] = [{name: row[name] for name in row if name not in differs} for row in rows]
        if table == "outbox_delivery":
            assert all(row["due_at"] == row["ready_at"] == row["updated_at"] for row in rows)
        if table == "provenance":
            for row in tables[table]:
                row["run"] = json.loads(row["run"])
                for name in ("startedAtTime", "endedAtTime"):
                    assert len(row["run"]["nonDeterministic"].pop(name)) == len(
                        "2026-01-01T00:00:00.000000Z"
                    )
    return tables


@pytest.mark.parametrize("reads", [False, True], ids=["event", "header-reads"])
def test_the_pipelines_floor_writes_the_pipelines_rows(
    backend: Backend, tmp_path: Path, request: pytest.FixtureRequest, *, reads: bool
) -> None:
    """From the same messages the floor makes every row, column and byte that the pipeline makes."""
    objects = tmp_path / "objects"
    objects.mkdir()
    source = f"file:{objects}" if reads else "event"
    pipeline = Pipeline(backend.url, tmp_path / "pipeline", source)
    database: SqliteCatalog | PostgresCatalog
    if backend.name == "sqlite":
        database = SqliteCatalog(tmp_path / "floor.db")
    else:
        databases: Databases = request.getfixturevalue("postgres_databases")
        database = PostgresCatalog(databases.create())
    queue = FloorQueue(tmp_path / "floor-queue.db")
    floor = PipelineFloor(queue, database, LocalStore(objects) if reads else None)
    teach(pipeline, floor, objects if reads else None)

    bodies = [message_of(number, folder=objects if reads else None) for number in range(30)]
    pipeline.queue.send(bodies)
    pipeline.round()
    raw = backend.connect()
    sent = read_rows(raw, "SELECT sns_message_id, sqs_message_id FROM wal_attempts")
    ids = {row["sns_message_id"]: row["sqs_message_id"] for row in sent}
    queue.send([(ids[json.loads(body)["MessageId"]], body) for body in bodies])
    assert floor.round(len(bodies)) == len(bodies)

    shipped, bare = _written(raw), _written(database.connection)
    assert [len(shipped[table]) for table in WRITTEN] == [len(bodies)] * len(WRITTEN)
    for table in WRITTEN:
        assert bare[table] == shipped[table]
    for connection in (queue.connection, database.connection):
        connection.close()
    pipeline.close()


def _keys(connection: Any, table: str) -> list[list[str]]:
    """Return the columns of each index of a table on SQLite, those of its keys included."""
    indexes = connection.execute(f"PRAGMA index_list({table})").fetchall()
    return sorted(
        [column[2] for column in connection.execute(f"PRAGMA index_info({index[1]})")]
        for index in indexes
    )


def test_the_pipelines_floor_has_the_same_keys(tmp_path: Path) -> None:
    """Every index of the catalog and of the queue is paid for by the floor too."""
    pipeline = Pipeline(f"sqlite:///{tmp_path}/ledger.db", tmp_path / "pipeline")
    pipeline.close()
    for shipped, bare, tables in (
        (tmp_path / "ledger.db", SqliteCatalog(tmp_path / "floor.db"), WRITTEN),
        (
            tmp_path / "pipeline" / "queue.db",
            FloorQueue(tmp_path / "queue.db"),
            ("messages", "deliveries"),
        ),
    ):
        connection = sqlite3.connect(shipped)
        for table in tables:
            assert _keys(bare.connection, table) == _keys(connection, table)
            columns = f"SELECT name FROM pragma_table_info('{table}')"
            assert (
                bare.connection.execute(columns).fetchall()
                == connection.execute(columns).fetchall()
            )
        connection.close()
        bare.connection.close()

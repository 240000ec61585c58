"""The benchmark's floor writes what the ledger writes."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from bench.floor import SqliteFloor

if TYPE_CHECKING:
    from pathlib import Path

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

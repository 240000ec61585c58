"""How a database is, found out by reading alone: schema, rights, place, version, clock."""

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tallgrass.clock import Clock
from tallgrass.errors import DatabaseUnusable
from tallgrass.storage.driver_errors import from_sqlite
from tallgrass.storage.migrations import check_schema
from tallgrass.storage.sqlite import filesystem_of
from tallgrass.storage.unit_of_work import Database

#: Codes of a schema that this release must not use as it is.
_SCHEMA_CODES = ("schema_missing", "schema_too_new", "migration_edited")

_POSTGRES_FACTS = """SELECT current_setting('server_version') AS version,
  pg_is_in_recovery() AS standby, clock_timestamp() AS now,
  to_regclass('wal_records') IS NOT NULL AS has_tables,
  has_schema_privilege(current_schema(), 'CREATE') AS may_create"""
_POSTGRES_RIGHTS = """SELECT has_table_privilege('wal_records', 'INSERT')
  AND has_table_privilege('wal_records', 'UPDATE') AS may_write"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a check found."""

    dialect: str
    place: str
    #: `current`, or the code that says what is wrong with the schema.
    schema: str
    applied: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str | None = None
    writable: bool
    #: Version of the server or of the library.
    version: str
    #: How far the database's clock is ahead of this machine's; None where they are the same clock.
    clock_ahead_s: float | None = None
    #: SQLite's file system and settings; empty on PostgreSQL.
    details: Mapping[str, str] = field(default_factory=dict)


def inspect(database: Database, clock: Clock) -> Health:
    """Look at a database; one that cannot be reached raises."""
    facts = _sqlite(database) if database.dialect == "sqlite" else _postgres(database, clock)
    return Health(dialect=database.dialect, place=database.place, **_schema(database), **facts)


def _schema(database: Database) -> dict[str, Any]:
    try:
        state = check_schema(database)
    except DatabaseUnusable as error:
        if error.code not in _SCHEMA_CODES:
            raise
        return {"schema": error.code, "problem": str(error)}
    if state.missing:
        problem = f"{database.place} lacks {', '.join(state.missing)}"
        return {
            "schema": "schema_outdated",
            "applied": state.applied,
            "missing": state.missing,
            "problem": problem,
        }
    return {"schema": "current", "applied": state.applied}


def _sqlite(database: Database) -> dict[str, Any]:
    path = Path(database.place)
    with database.reading() as tx:
        connection = tx.connection  # type: ignore[attr-defined]
        try:
            version = connection.execute("SELECT sqlite_version()").fetchone()[0]
            journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
        except sqlite3.Error as error:  # here SQLite reads the file for the first time
            raise from_sqlite(error, database.place) from error
    point, kind = filesystem_of(path)
    return {
        "writable": os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK),
        "version": f"SQLite {version}",
        "details": {
            "file_system": f"{kind} at {point}" if kind else "unknown",
            "journal_mode": journal,
            "size": f"{page_size * pages:,} bytes",
        },
    }


def _postgres(database: Database, clock: Clock) -> dict[str, Any]:
    with database.reading() as tx:
        connection = tx.connection  # type: ignore[attr-defined]
        before = clock()
        facts = connection.execute(_POSTGRES_FACTS).fetchone()
        after = clock()
        may_write = facts["may_create"]
        if facts["has_tables"]:
            may_write = connection.execute(_POSTGRES_RIGHTS).fetchone()["may_write"]
    return {
        "writable": bool(may_write) and not facts["standby"],
        "version": f"PostgreSQL {facts['version']}",
        "clock_ahead_s": round(_ahead_s(facts["now"], before, after), 3),
    }


def _ahead_s(theirs: datetime, before: datetime, after: datetime) -> float:
    """Compare with the middle of the question, so that the way there and back does not count."""
    return (theirs - (before + (after - before) / 2)).total_seconds()

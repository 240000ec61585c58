"""Archives as the oracle sees them: rows that left count as if they were still in their tables.

Over a connection, views of its own hide the tables behind their union with the archives' rows, so
that every promise is judged as if nothing had ever left. It reads the files itself. The connection
is one of sqlite3, or whatever takes the same statements (`?` for parameters) to PostgreSQL.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Table → its key.
_KEYS = {
    "wal_attempts": ("wal_id", "attempt_no"),
    "outbox": ("outbox_id",),
    "outbox_delivery": ("outbox_id",),
    "outbox_attempts": ("outbox_id", "attempt"),
    "audit_log": ("entry_id",),
    "audit_seals": ("position",),
}
_TABLES = {
    "attempts": ("wal_attempts",),
    "events": ("outbox", "outbox_delivery"),
    "audit": ("audit_log", "audit_seals"),
}
_BYTES = {"evidence", "payload"}


@dataclass(frozen=True)
class _Dialect:
    """How a database names its own schema, and what it tells of it."""

    schema: str
    is_shown: str
    #: Name and declaration of each column, without what the table demands of it.
    columns: str
    #: The statement behind a view, as text that may be run again.
    history: str


_SQLITE = _Dialect(
    schema="main",
    is_shown="SELECT count(*) FROM sqlite_temp_schema WHERE name = 'seen_archives'",
    columns="SELECT name, name FROM pragma_table_info(?, 'main')",
    history="SELECT substr(sql, instr(sql, ' AS') + 3) FROM main.sqlite_schema"
    " WHERE name = 'wal_history'",
)
_POSTGRES = _Dialect(
    schema="public",
    is_shown="SELECT count(*) FROM pg_class WHERE relname = 'seen_archives'"
    " AND relnamespace = pg_my_temp_schema()",
    columns="SELECT CAST(attname AS text), attname || ' ' || format_type(atttypid, atttypmod)"
    " FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
    " AND attrelid = CAST('public.' || ? AS regclass) ORDER BY attnum",
    history="SELECT pg_get_viewdef('public.wal_history')",
)


def _dialect(database: Any) -> _Dialect:
    return _SQLITE if isinstance(database, sqlite3.Connection) else _POSTGRES


def see_archives(database: Any) -> list[str]:
    """Show what left for archives since the last look; return files that are not as recorded."""
    _show(database)
    faults = []
    rows = database.execute(
        "SELECT archive_id, kind, place, name, sha256, row_count FROM archives"
        " WHERE abandoned_at IS NULL AND verified_at IS NOT NULL"
        " AND archive_id NOT IN (SELECT archive_id FROM seen_archives)"
    ).fetchall()
    for archive_id, kind, place, name, sha256, count in rows:
        content = (Path(place) / name).read_bytes()
        lines = [json.loads(line) for line in gzip.decompress(content).splitlines()[1:]]
        if hashlib.sha256(content).hexdigest() != sha256 or len(lines) != count:
            faults.append(f"archive {archive_id} is not what was recorded of it")
        for table in _TABLES[kind]:
            _insert(database, table, lines)
        for line in lines if kind == "events" else ():
            tries = [{**each, "outbox_id": line["outbox_id"]} for each in line["attempts"]]
            _insert(database, "outbox_attempts", tries)
        database.execute("INSERT INTO seen_archives VALUES (?)", (archive_id,))
    return faults


def _show(database: Any) -> None:
    dialect = _dialect(database)
    if database.execute(dialect.is_shown).fetchone()[0]:
        return
    # Read before tables are hidden: PostgreSQL would tell of hidden ones by their full names.
    history = database.execute(dialect.history).fetchone()[0]
    database.execute("CREATE TEMP TABLE seen_archives (archive_id INTEGER PRIMARY KEY)")
    for table, keys in _KEYS.items():
        columns = _columns(database, table)
        names, declared = ", ".join(columns), ", ".join(columns.values())
        key, same = ", ".join(keys), " AND ".join(f"m.{name} = x.{name}" for name in keys)
        hidden = f"{dialect.schema}.{table}"
        database.execute(f"CREATE TEMP TABLE gone_{table} ({declared}, PRIMARY KEY ({key}))")
        database.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {names} FROM {hidden} UNION ALL"
            f" SELECT {names} FROM gone_{table} AS x"
            f" WHERE NOT EXISTS (SELECT 1 FROM {hidden} AS m WHERE {same})"
        )
    # Made again here, the view looks at the tables as they are seen here.
    database.execute(f"CREATE TEMP VIEW wal_history AS {history}")


def _insert(database: Any, table: str, lines: Iterable[Mapping[str, Any]]) -> None:
    columns = _columns(database, table)
    places = ", ".join("?" for _ in columns)
    database.executemany(
        f"INSERT INTO gone_{table} ({', '.join(columns)}) VALUES ({places})",
        [[_value(name, line.get(name)) for name in columns] for line in lines],
    )


def _columns(database: Any, table: str) -> dict[str, str]:
    return dict(database.execute(_dialect(database).columns, (table,)).fetchall())


def _value(name: str, value: Any) -> Any:
    return value.encode() if name in _BYTES and isinstance(value, str) else value

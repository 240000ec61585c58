"""Archives as the oracle sees them: rows that left count as if they were still in their tables.

Over a connection of sqlite3, views of its own hide the tables behind their union with the archives'
rows, so that every promise is judged as if nothing had ever left. It reads the files itself.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from sqlite3 import Connection

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


def see_archives(database: Connection) -> list[str]:
    """Show what left for archives since the last look; return files that are not as recorded."""
    _show(database)
    faults = []
    rows = database.execute(
        "SELECT archive_id, kind, place, name, sha256, row_count FROM archives"
        " WHERE abandoned_at IS NULL AND verified_at IS NOT NULL"
        " AND archive_id NOT IN (SELECT archive_id FROM temp.seen_archives)"
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
        database.execute("INSERT INTO temp.seen_archives VALUES (?)", (archive_id,))
    return faults


def _show(database: Connection) -> None:
    known = "SELECT count(*) FROM sqlite_temp_schema WHERE name = 'seen_archives'"
    if database.execute(known).fetchone()[0]:
        return
    database.execute("CREATE TEMP TABLE seen_archives (archive_id INTEGER PRIMARY KEY)")
    for table, keys in _KEYS.items():
        names = ", ".join(_columns(database, table))
        key, same = ", ".join(keys), " AND ".join(f"m.{name} = x.{name}" for name in keys)
        database.execute(f"CREATE TEMP TABLE gone_{table} ({names}, PRIMARY KEY ({key}))")
        database.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {names} FROM main.{table} UNION ALL"
            f" SELECT {names} FROM gone_{table} AS x"
            f" WHERE NOT EXISTS (SELECT 1 FROM main.{table} AS m WHERE {same})"
        )
    # Made again here, the view looks at the tables as they are seen here.
    made = database.execute("SELECT sql FROM main.sqlite_schema WHERE name = 'wal_history'")
    database.execute(made.fetchone()[0].replace("CREATE VIEW", "CREATE TEMP VIEW", 1))


def _insert(database: Connection, table: str, lines: Iterable[Mapping[str, Any]]) -> None:
    columns = _columns(database, table)
    places = ", ".join("?" for _ in columns)
    database.executemany(
        f"INSERT INTO gone_{table} ({', '.join(columns)}) VALUES ({places})",
        [[_value(name, line.get(name)) for name in columns] for line in lines],
    )


def _columns(database: Connection, table: str) -> list[str]:
    return [
        row[0] for row in database.execute(f"SELECT name FROM pragma_table_info('{table}', 'main')")
    ]


def _value(name: str, value: Any) -> Any:
    return value.encode() if name in _BYTES and isinstance(value, str) else value

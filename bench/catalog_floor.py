"""The floor of the catalog: items, provenance, events and deliveries beside the ledger's tables.

Same columns, keys and values as shipped, written by bare driver calls. Imports nothing of the
package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from bench.floor import (
    ATTEMPT_COLUMNS,
    CLOSED_ATTEMPT,
    CLOSED_RECORD,
    RECORD_COLUMNS,
    PostgresFloor,
    SqliteFloor,
)

if TYPE_CHECKING:
    from pathlib import Path

Rows = list[tuple[Any, ...]]


def columns_of(text: str) -> list[str]:
    """Return the names in a text."""
    return text.split()


ITEM_COLUMNS = columns_of(
    "collection_id item_id wal_id attempt_no body sha256 west south east north start_at end_at "
    "created_at updated_at datetime_at reach"
)
PROVENANCE_COLUMNS = columns_of("wal_id activity_id attempt_no body sha256 run created_at")
OUTBOX_COLUMNS = columns_of(
    "outbox_id subject pipeline_id event_name dataset_id version idempotency_key target payload "
    "care_label created_at governance_ref"
)
DELIVERY_COLUMNS = columns_of(
    "written outbox_id target dataset_id status attempt budget_from due_at ready_at claimed_by "
    "error_code last_error updated_at"
)
CATALOG = {
    "stac_items": (ITEM_COLUMNS, ("PRIMARY KEY (collection_id, item_id)", "UNIQUE (wal_id)")),
    "provenance": (PROVENANCE_COLUMNS, ("PRIMARY KEY (wal_id, activity_id)",)),
    "outbox": (
        OUTBOX_COLUMNS,
        ("PRIMARY KEY (outbox_id)", "UNIQUE (subject, idempotency_key, target)"),
    ),
    "outbox_delivery": (DELIVERY_COLUMNS, ("UNIQUE (outbox_id)",)),
}
#: What searches, dispatchers and pages go by.
INDEXES = (
    (
        "CREATE INDEX stac_items_searched ON stac_items (collection_id, reach, datetime_at, item_id"
        ", start_at, end_at, west, south, east, north)"
    ),
    (
        "CREATE INDEX outbox_delivery_due ON outbox_delivery (target, ready_at, outbox_id)"
        " WHERE ready_at IS NOT NULL"
    ),
    (
        "CREATE INDEX outbox_delivery_open ON outbox_delivery"
        " (target, dataset_id, written, outbox_id) WHERE status <> 'dispatched'"
    ),
    "CREATE INDEX outbox_delivery_failed ON outbox_delivery (outbox_id) WHERE status = 'failed'",
    (
        "CREATE INDEX outbox_delivery_coded ON outbox_delivery (error_code, outbox_id)"
        " WHERE error_code IS NOT NULL"
    ),
)
#: Columns that are bytes, which PostgreSQL gets as text within JSON.
_BYTES = frozenset({"evidence", "body", "run", "payload"})
_NUMBERS = frozenset({"west", "south", "east", "north"})
_TIMES = frozenset(
    {"start_at", "end_at", "datetime_at", "created_at", "updated_at", "due_at", "ready_at"}
)
_UUIDS = frozenset({"wal_id", "outbox_id", "claimed_by"})
_INTEGERS = frozenset({"attempt_no", "attempt", "budget_from"})


class SqliteCatalog(SqliteFloor):
    """The ledger's floor with the tables of the catalog."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._inserts = []
        for table, (columns, keys) in CATALOG.items():
            typed = ", ".join(f"{name} {_sqlite_type(name)}" for name in columns)
            self.connection.execute(f"CREATE TABLE {table} ({typed}, {', '.join(keys)})")
            marks = ", ".join("CAST(? AS BLOB)" if name in _BYTES else "?" for name in columns)
            self._inserts.append(f"INSERT INTO {table} VALUES ({marks})")
        for index in INDEXES:
            self.connection.execute(index)
        self._close_attempt = self._close_attempt.replace(
            "evidence = ?", "evidence = CAST(? AS BLOB)"
        )

    def open_attempts(self, records: Rows, attempts: Rows) -> None:
        """Write claimed records and their open attempts."""
        self.claim(records, attempts)

    def close_attempts(self, records: Rows, attempts: Rows, catalog: tuple[Rows, ...]) -> None:
        """Write the outcomes, items, provenance and events."""
        run, many = self.connection.execute, self.connection.executemany
        run("BEGIN IMMEDIATE")
        many(self._close_attempt, attempts)
        many(self._close_record, records)
        for statement, rows in zip(self._inserts, catalog, strict=True):
            many(statement, rows)
        run("COMMIT")


def _sqlite_type(name: str) -> str:
    if name in _BYTES:
        return "BLOB"
    if name in _NUMBERS:
        return "REAL"
    if name == "written":
        return "INTEGER PRIMARY KEY"
    return "INTEGER" if name in _INTEGERS else "TEXT"


class PostgresCatalog(PostgresFloor):
    """The ledger's floor with the tables of the catalog."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._inserts = []
        for table, (columns, keys) in CATALOG.items():
            typed = ", ".join(f"{name} {_postgres_type(name)}" for name in columns)
            self.connection.execute(f"CREATE TABLE {table} ({typed}, {', '.join(keys)})".encode())
            sent = ", ".join(
                f"{name} {'text' if name in _BYTES else _postgres_type(name)}" for name in columns
            )
            values = ", ".join(
                f"convert_to(x.{name}, 'UTF8')" if name in _BYTES else f"x.{name}"
                for name in columns
            )
            self._inserts.append(
                f"INSERT INTO {table} SELECT {values}"
                f" FROM json_to_recordset(%s::json) AS x ({sent})".encode()
            )
        for index in INDEXES:
            self.connection.execute(index.replace(", start_at,", ") INCLUDE (start_at,").encode())

    def open_attempts(self, records: Rows, attempts: Rows) -> None:
        """Write claimed records and their open attempts."""
        self.claim(_json(RECORD_COLUMNS, records), _json(ATTEMPT_COLUMNS, attempts))

    def close_attempts(self, records: Rows, attempts: Rows, catalog: tuple[Rows, ...]) -> None:
        """Write the outcomes, items, provenance and events."""
        run = self.connection.execute
        run("BEGIN")
        run(self._close_attempt, (_json([*CLOSED_ATTEMPT, "wal_id", "attempt_no"], attempts),))
        run(self._close_record, (_json([*CLOSED_RECORD, "wal_id"], records),))
        for statement, (columns, _), rows in zip(
            self._inserts, CATALOG.values(), catalog, strict=True
        ):
            run(statement, (_json(columns, rows),))
        run("COMMIT")


def _postgres_type(name: str) -> str:
    if name in _BYTES:
        return "bytea"
    if name in _NUMBERS:
        return "double precision"
    if name in _TIMES:
        return "timestamptz"
    if name == "written":
        return "xid8"
    return "uuid" if name in _UUIDS else "integer" if name in _INTEGERS else "text"


def _json(columns: list[str], rows: Rows) -> str:
    return orjson.dumps([dict(zip(columns, row, strict=True)) for row in rows]).decode()

"""The floor: bare driver calls that write the same rows, and nothing else.

Same tables, columns, keys, indexes and values as the shipped ledger, in the same two transactions a
batch; without checks, triggers, foreign keys, reads or decisions. Imports nothing of the package.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from pathlib import Path


def _words(text: str) -> list[str]:
    return text.split()


RECORD_COLUMNS = _words(
    "wal_id dataset object_uri provider queue event_time time_range_start time_range_end status "
    "attempts last_attempt_at last_error_code last_error_message integrity_status metadata_status "
    "stac_status provenance_status stac_item_id stac_collection_id stac_item_href ingest_run_id "
    "worker_id replay_reason created_at updated_at version recorded_by replay_run_id extensions "
    "due_at retry_after rerun_intent next_object budget_from lease_expiries applied_attempt"
)
ATTEMPT_COLUMNS = _words(
    "wal_id attempt_no status intent queue event_time sns_message_id sqs_message_id object_etag "
    "object_size object_sequencer object_version_id read_etag evidence code_version config_version "
    "replay_run_id ingest_run_id worker_id worker_incarnation claim_id claimed_at claimed_from "
    "claimed_version commit_id closed_at closed_version error_code error_message integrity_status "
    "metadata_status stac_status provenance_status item_sha256 provenance_sha256 prov_activity_id "
    "openlineage_run_id issues"
)
INTEGERS = {
    "attempts", "version", "budget_from", "lease_expiries", "applied_attempt", "attempt_no",
    "object_size", "claimed_version", "closed_version",
}  # fmt: skip
UUIDS = {"wal_id", "worker_incarnation", "claim_id", "commit_id"}
TIMES = {
    "event_time", "time_range_start", "time_range_end", "last_attempt_at", "created_at",
    "updated_at", "due_at", "retry_after", "claimed_at", "closed_at",
}  # fmt: skip
INDEXES = (
    "CREATE UNIQUE INDEX wal_records_object_uri ON wal_records (object_uri)",
    "CREATE INDEX wal_records_by_dataset ON wal_records (dataset, status, wal_id)",
    "CREATE INDEX wal_records_due ON wal_records (due_at) WHERE due_at IS NOT NULL",
    (
        "CREATE INDEX wal_records_stale ON wal_records (wal_id)"
        " WHERE status = 'succeeded' AND last_error_code IS NOT NULL"
    ),
    "CREATE UNIQUE INDEX wal_attempts_open ON wal_attempts (wal_id) WHERE status = 'pending'",
)
#: What the close changes.
CLOSED_RECORD = _words(
    "status updated_at version last_error_code last_error_message integrity_status metadata_status "
    "stac_status provenance_status stac_item_id stac_collection_id stac_item_href applied_attempt "
    "budget_from due_at retry_after"
)
CLOSED_ATTEMPT = _words(
    "status commit_id closed_at closed_version error_code error_message integrity_status "
    "metadata_status stac_status provenance_status read_etag evidence item_sha256 "
    "provenance_sha256 prov_activity_id openlineage_run_id issues"
)


def _create(table: str, columns: list[str], key: str, types: dict[str, str]) -> str:
    typed = ", ".join(f"{name} {types.get(name, types[''])}" for name in columns)
    return f"CREATE TABLE {table} ({typed}, PRIMARY KEY ({key}))"


def _tables(types: dict[str, str]) -> list[str]:
    return [
        _create("wal_records", RECORD_COLUMNS, "wal_id", types),
        _create("wal_attempts", ATTEMPT_COLUMNS, "wal_id, attempt_no", types),
    ]


class SqliteFloor:
    """`executemany` on tuples that are ready."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000"):
            self.connection.execute(f"PRAGMA {pragma}")
        types = {"": "TEXT", "evidence": "BLOB", **dict.fromkeys(INTEGERS, "INTEGER")}
        for statement in (*_tables(types), *INDEXES):
            self.connection.execute(statement)
        marks = ", ".join("?" * len(RECORD_COLUMNS))
        self._insert_record = f"INSERT INTO wal_records VALUES ({marks})"
        marks = ", ".join("?" * len(ATTEMPT_COLUMNS))
        self._insert_attempt = f"INSERT INTO wal_attempts VALUES ({marks})"
        sets = ", ".join(f"{name} = ?" for name in CLOSED_RECORD)
        self._close_record = f"UPDATE wal_records SET {sets} WHERE wal_id = ?"
        sets = ", ".join(f"{name} = ?" for name in CLOSED_ATTEMPT)
        self._close_attempt = f"UPDATE wal_attempts SET {sets} WHERE wal_id = ? AND attempt_no = ?"

    def claim(self, records: list[tuple[Any, ...]], attempts: list[tuple[Any, ...]]) -> None:
        """Write claimed records and their open attempts."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(self._insert_record, records)
        self.connection.executemany(self._insert_attempt, attempts)
        self.connection.execute("COMMIT")

    def close(self, records: list[tuple[Any, ...]], attempts: list[tuple[Any, ...]]) -> None:
        """Write the outcomes."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(self._close_attempt, attempts)
        self.connection.executemany(self._close_record, records)
        self.connection.execute("COMMIT")


class PostgresFloor:
    """One statement a table and transaction; rows travel as one JSON text, the fastest way."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        types = {
            "": "text", "evidence": "bytea", **dict.fromkeys(INTEGERS, "integer"),
            **dict.fromkeys(UUIDS, "uuid"), **dict.fromkeys(TIMES, "timestamptz"),
        }  # fmt: skip
        for statement in (*_tables(types), *INDEXES):
            self.connection.execute(statement.encode())
        self._insert_record = _insert("wal_records", RECORD_COLUMNS, types)
        self._insert_attempt = _insert("wal_attempts", ATTEMPT_COLUMNS, types)
        self._close_record = _update("wal_records", CLOSED_RECORD, ["wal_id"], types)
        self._close_attempt = _update(
            "wal_attempts", CLOSED_ATTEMPT, ["wal_id", "attempt_no"], types
        )

    def claim(self, records: str, attempts: str) -> None:
        """Write claimed records and their open attempts."""
        self.connection.execute("BEGIN")
        self.connection.execute(self._insert_record, (records,))
        self.connection.execute(self._insert_attempt, (attempts,))
        self.connection.execute("COMMIT")

    def close(self, records: str, attempts: str) -> None:
        """Write the outcomes."""
        self.connection.execute("BEGIN")
        self.connection.execute(self._close_attempt, (attempts,))
        self.connection.execute(self._close_record, (records,))
        self.connection.execute("COMMIT")


def _row_type(columns: list[str], types: dict[str, str]) -> str:
    typed = (
        f"{name} {'text' if name == 'evidence' else types.get(name, types[''])}" for name in columns
    )
    return f"json_to_recordset(%s::json) AS x ({', '.join(typed)})"


def _value(name: str) -> str:
    return "convert_to(x.evidence, 'UTF8')" if name == "evidence" else f"x.{name}"


def _insert(table: str, columns: list[str], types: dict[str, str]) -> bytes:
    values = ", ".join(_value(name) for name in columns)
    return f"INSERT INTO {table} SELECT {values} FROM {_row_type(columns, types)}".encode()


def _update(table: str, columns: list[str], keys: list[str], types: dict[str, str]) -> bytes:
    sets = ", ".join(f"{name} = {_value(name)}" for name in columns)
    match = " AND ".join(f"t.{name} = x.{name}" for name in keys)
    rows = _row_type([*columns, *keys], types)
    return f"UPDATE {table} AS t SET {sets} FROM {rows} WHERE {match}".encode()


def as_json(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Write rows as PostgreSQL gets them."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows])

"""What the oracle reads: raw tables and the queue; it imports nothing of the package."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Row = dict[str, Any]

_TABLES = {
    "records": "SELECT * FROM wal_records ORDER BY wal_id",
    "attempts": "SELECT * FROM wal_attempts ORDER BY wal_id, attempt_no",
    "transitions": "SELECT * FROM wal_transitions ORDER BY wal_id, to_version",
    "history": "SELECT * FROM wal_history ORDER BY wal_id, version",
    "items": "SELECT * FROM stac_items ORDER BY collection_id, item_id",
    "replaced": "SELECT * FROM replaced_items ORDER BY wal_id, attempt_no",
    "provenance": "SELECT * FROM provenance ORDER BY wal_id, activity_id",
    "outbox": "SELECT * FROM outbox ORDER BY subject, outbox_id",
    "deliveries": "SELECT * FROM outbox_delivery ORDER BY outbox_id",
    "delivery_attempts": "SELECT * FROM outbox_attempts ORDER BY outbox_id, attempt",
    "poison": "SELECT * FROM poison_messages ORDER BY poison_id",
    "workers": "SELECT * FROM workers ORDER BY incarnation",
    "audit": "SELECT * FROM audit_log ORDER BY entry_id",
    "seals": "SELECT * FROM audit_seals ORDER BY position",
    "runs": "SELECT * FROM replay_runs ORDER BY replay_run_id",
    "run_records": "SELECT * FROM replay_run_records ORDER BY replay_run_id, wal_id",
    "approvals": "SELECT * FROM approvals ORDER BY approval_id",
    "decisions": "SELECT * FROM approval_decisions ORDER BY approval_id, actor",
}


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The whole database as rows of plain values, alike on SQLite and PostgreSQL."""

    records: list[Row]
    attempts: list[Row]
    transitions: list[Row]
    history: list[Row]
    items: list[Row]
    provenance: list[Row]
    outbox: list[Row]
    deliveries: list[Row]
    delivery_attempts: list[Row]
    poison: list[Row]
    workers: list[Row]
    audit: list[Row]
    seals: list[Row]
    runs: list[Row] = field(default_factory=list)
    run_records: list[Row] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    #: Ids that items had before.
    replaced: list[Row] = field(default_factory=list)
    attempts_of: dict[str, list[Row]] = field(default_factory=dict)
    record_of: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attempt in self.attempts:
            self.attempts_of.setdefault(attempt["wal_id"], []).append(attempt)
        self.record_of.update({record["wal_id"]: record for record in self.records})

    def applied(self, wal_id: str) -> list[Row]:
        """Return the attempts of a unit that took effect, in order."""
        return [a for a in self.attempts_of.get(wal_id, ()) if a["status"] == "applied"]


@dataclass(frozen=True, kw_only=True)
class QueueContents:
    """Bodies that wait, and bodies that were given up."""

    waiting: list[bytes] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)


def read_tables(database: Any) -> Tables:
    """Read everything over a raw connection of sqlite3 or psycopg."""
    found: dict[str, Any] = {name: read_rows(database, sql) for name, sql in _TABLES.items()}
    return Tables(**found)


def read_rows(database: Any, query: str, *parameters: object) -> list[Row]:
    """Run a query; times and ids come as SQLite holds them."""
    cursor = database.execute(query, parameters) if parameters else database.execute(query)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    if isinstance(cursor, sqlite3.Cursor):  # its values are plain
        return [dict(zip(names, row, strict=True)) for row in rows]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in rows]


def read_queue(file: Path | str | QueueContents | None) -> QueueContents:
    """Read the embedded queue's file; of another queue its contents were read before."""
    if file is None:
        return QueueContents()
    if isinstance(file, QueueContents):
        return file
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return QueueContents(
            waiting=[r["body"] for r in read_rows(connection, "SELECT body FROM messages")],
            dead=[r["body"] for r in read_rows(connection, "SELECT body FROM dead_letters")],
        )
    finally:
        connection.close()


def announced_objects(body: bytes) -> set[str]:
    """Return the objects whose creation a message announces; none for what is no such message."""
    return {
        f"s3://{s3['bucket']['name']}/{unquote_plus(s3['object']['key'])}"
        for record in _created(body)
        if (s3 := record.get("s3")) and "key" in s3.get("object", {})
    }


def announced_versions(body: bytes) -> set[tuple[str, str]]:
    """Return the objects whose creation a message announces, each with its etag."""
    return {
        (f"s3://{s3['bucket']['name']}/{unquote_plus(s3['object']['key'])}", s3["object"]["eTag"])
        for record in _created(body)
        if (s3 := record.get("s3")) and {"key", "eTag"} <= s3.get("object", {}).keys()
    }


def _created(body: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        message = json.loads(body)
        if isinstance(message, dict) and isinstance(message.get("Message"), str):
            message = json.loads(message["Message"])
    except ValueError:
        return
    if not isinstance(message, dict) or not isinstance(message.get("Records"), list):
        return
    for record in message["Records"]:
        if "ObjectCreated" in record.get("eventName", ""):
            yield record


def sha256(content: bytes) -> str:
    """Return the hash as hex digits."""
    return hashlib.sha256(content).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, bool | int | float | str | bytes) or value is None:
        return value
    return str(value)

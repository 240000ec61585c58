"""The pipeline's floor: messages to the same rows by templates and bare driver calls.

It receives from the same embedded queue, parses the same JSON, computes the same ids and hashes,
fills the same bytes into templates that were learned from one shipped unit, and writes the same
rows in two transactions; no checks, no decisions, no triggers. GOES-19 GLM files only. Imports
nothing of the package.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import orjson

if TYPE_CHECKING:
    from pathlib import Path

    from obstore.store import LocalStore

    from bench.catalog_floor import PostgresCatalog, Rows, SqliteCatalog

#: Threads that read, as many as the pipeline has.
READERS = 8

Values = dict[str, Any]

QUEUE_TABLES = (
    (
        "CREATE TABLE messages (position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,"
        " message_id TEXT, sent_at TEXT, body BLOB)"
    ),
    (
        "CREATE TABLE deliveries (position INTEGER NOT NULL PRIMARY KEY, visible_at TEXT,"
        " receive_count INTEGER, delivery_id TEXT)"
    ),
    "CREATE INDEX deliveries_visible_at ON deliveries (visible_at)",
)
_YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TIMES_OF_KEY = re.compile(r".*_s(\d{14})_e(\d{14})_c\d{14}\.nc")


def text_of(instant: datetime) -> str:
    """Return an instant as the package writes it."""
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % (  # noqa: UP031 - the fastest way
        instant.year,
        instant.month,
        instant.day,
        instant.hour,
        instant.minute,
        instant.second,
        instant.microsecond,
    )


def _goes_time(digits: str) -> datetime:
    hour, minute, second, tenth = digits[7:9], digits[9:11], digits[11:13], digits[13]
    first_day = datetime(
        int(digits[:4]), 1, 1, int(hour), int(minute), int(second), int(tenth) * 100_000, UTC
    )
    return first_day + timedelta(days=int(digits[4:7]) - 1)


def _prefixed(*parts: str) -> bytes:
    encoded = [part.encode() for part in parts]
    return b"".join([len(part).to_bytes(4, "big") + part for part in encoded])


def _uuid5(namespace: str, name: str) -> str:
    named = bytes.fromhex(namespace.replace("-", "")) + name.encode()
    digits = hashlib.sha1(named, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _netstring(text: str) -> str:
    return f"{len(text)}:{text},"


class FloorQueue:
    """The embedded queue's file by bare calls: hide what is handed out, then delete it."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000"):
            self.connection.execute(f"PRAGMA {pragma}")
        for statement in QUEUE_TABLES:
            self.connection.execute(statement)

    def send(self, messages: list[tuple[str, bytes]]) -> None:
        """Put messages in; not part of any cost."""
        now = text_of(datetime.now(UTC))
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        for message_id, body in messages:
            row = run(
                "INSERT INTO messages (message_id, sent_at, body) VALUES (?, ?, ?)",
                (message_id, now, body),
            )
            run("INSERT INTO deliveries VALUES (?, ?, 0, NULL)", (row.lastrowid, now))
        run("COMMIT")

    def receive(self, limit: int) -> list[tuple[int, str, bytes]]:
        """Return position, id and body of messages, hidden for five minutes."""
        now = datetime.now(UTC)
        self.connection.execute("BEGIN IMMEDIATE")
        rows = self.connection.execute(
            "SELECT d.position, m.message_id, m.body FROM deliveries AS d"
            " JOIN messages AS m ON m.position = d.position WHERE d.visible_at <= ?"
            " ORDER BY d.visible_at, d.position LIMIT ?",
            (text_of(now), limit),
        ).fetchall()
        until, delivery = text_of(now + timedelta(seconds=300)), uuid.uuid4().hex
        self.connection.executemany(
            "UPDATE deliveries SET visible_at = ?, delivery_id = ?,"
            " receive_count = receive_count + 1 WHERE position = ?",
            [(until, delivery, row[0]) for row in rows],
        )
        self.connection.execute("COMMIT")
        return rows

    def delete(self, positions: list[tuple[int]]) -> None:
        """Remove messages and their deliveries."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("DELETE FROM deliveries WHERE position = ?", positions)
        self.connection.executemany("DELETE FROM messages WHERE position = ?", positions)
        self.connection.execute("COMMIT")


class Templates:
    """Bytes and constants of one shipped unit, with its own values taken out."""

    def __init__(self, sample: dict[str, Values], values: Values, run: Values) -> None:
        self.attempt, self.item = sample["wal_attempts"], sample["stac_items"]
        self.event, self.record = sample["outbox"], sample["wal_records"]
        self.evidence = _template(self.attempt["evidence"], values)
        self.body = _template(self.item["body"], values)
        self.document = _template(sample["provenance"]["body"], values)
        self.run = _template(sample["provenance"]["run"], {**values, **run})
        self.payload = _template(self.event["payload"], values)


def _template(body: bytes, values: Values) -> str:
    """Replace each value by its name; the longest first, as some contain others."""
    text = bytes(body).decode().replace("%", "%%")
    for name, value in sorted(values.items(), key=lambda pair: -len(str(pair[1]))):
        if isinstance(value, int):
            text = re.sub(rf":{value}(?=[,}}])", f":%({name})s", text)
        else:
            text = text.replace(f"{value}", f"%({name})s")
    return text


class PipelineFloor:
    """Takes batches from a floor queue into a floor database."""

    def __init__(
        self,
        queue: FloorQueue,
        database: SqliteCatalog | PostgresCatalog | None,
        objects: LocalStore | None = None,
    ) -> None:
        self._queue = queue
        self._database = database
        self._objects = objects
        self._pool = ThreadPoolExecutor(READERS)
        self._templates: Templates | None = None
        #: Deliveries so far: their order.
        self._written = 0
        #: Versions of code and configuration.
        self._code = ("", "")

    def learn(self, sample: dict[str, Values], message_id: str, body: bytes) -> None:
        """Take constants and templates from the rows of one shipped unit and its message."""
        attempt = sample["wal_attempts"]
        self._code = (attempt["code_version"], attempt["config_version"])
        told = orjson.loads(bytes(sample["provenance"]["run"]))["nonDeterministic"]
        run = {"started": told["startedAtTime"], "ended": told["endedAtTime"]}
        values = self.values(message_id, body)
        # What the floor computes from the bytes that it fills.
        values |= {
            "evidence_sha256": hashlib.sha256(bytes(attempt["evidence"])).hexdigest(),
            "item_sha256": attempt["item_sha256"],
            "key_hash": sample["outbox"]["idempotency_key"],
        }
        self._templates = Templates(sample, values, run)

    def round(self, limit: int) -> int:
        """Take one batch from the queue to the committed rows; return its units."""
        started = text_of(datetime.now(UTC))
        messages = self._queue.receive(limit)
        units = [self.values(message_id, body) for _, message_id, body in messages]
        units.sort(key=lambda unit: unit["wal_id"])
        self._claim(units, text_of(datetime.now(UTC)))
        if self._objects is not None:
            list(self._pool.map(self._read, [units[at::READERS] for at in range(READERS)]))
        now = text_of(datetime.now(UTC))
        for unit in units:
            unit["started"], unit["ended"] = started, now
            self.fill(unit)
        self._close(units, text_of(datetime.now(UTC)))
        self._queue.delete([(position,) for position, _, _ in messages])
        return len(units)

    def _read(self, units: list[Values]) -> None:
        """Read files as the pipeline does: whole, with their MD5, and looked at once more."""
        store = self._objects
        assert store is not None
        for unit in units:
            content = bytes(store.get(unit["path"]).bytes())
            store.head(unit["path"])
            unit["etag"] = hashlib.md5(content, usedforsecurity=False).hexdigest()
            unit["size"] = len(content)

    def values(self, message_id: str, body: bytes) -> Values:
        """Return all that a message determines."""
        envelope = orjson.loads(body)
        details = orjson.loads(envelope["Message"])["Records"][0]["s3"]
        described, bucket = details["object"], details["bucket"]["name"]
        key = unquote_plus(described["key"])
        times = _TIMES_OF_KEY.fullmatch(key)
        start, end = _goes_time(times[1]), _goes_time(times[2])  # type: ignore[index]
        uri = f"s3://{bucket}/{key}"
        start_text, etag, size = text_of(start), described["eTag"], described["size"]
        digest = hashlib.sha256(_prefixed("goes-glm", uri, start_text)).hexdigest()
        millis = f"{(start - _YEAR_ONE) // _MILLISECOND:012x}"
        variant = "89ab"[int(digest[3], 16) & 3]
        wal_id = f"{millis[:8]}-{millis[8:]}-8{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"
        named = hashlib.sha256(_prefixed("aws", bucket, key)).hexdigest()[:24]
        version = f"-{_netstring(etag)}{_netstring(str(size))}"
        code, config = self._code
        program = f"{_netstring(code)}{_netstring(config)}"
        source = hashlib.sha256(f"{_netstring(uri)}{version}".encode()).hexdigest()
        return {
            "wal_id": wal_id,
            "key": key,
            "path": f"{bucket}/{key}",
            "uri": uri,
            "item_id": f"{key.rpartition('/')[2]}-{named}",
            "start": start_text,
            "end": text_of(end),
            "middle": text_of(start + (end - start) / 2),
            "etag": etag,
            "size": size,
            "sequencer": described["sequencer"],
            "event_time": text_of(datetime.fromisoformat(envelope["Timestamp"])),
            "sns_message_id": envelope["MessageId"],
            "sqs_message_id": message_id,
            "activity": _uuid5(wal_id, f"8:activity,{version}{program}"),
            "lineage_run": _uuid5(wal_id, "3:run,1:1,"),
            "source": source,
        }

    def fill(self, unit: Values) -> None:
        """Fill the templates, one from the hashes of another."""
        form = self._templates
        assert form is not None
        unit["evidence"] = form.evidence % unit
        unit["evidence_sha256"] = hashlib.sha256(unit["evidence"].encode()).hexdigest()
        unit["body"] = form.body % unit
        unit["item_sha256"] = sha256 = hashlib.sha256(unit["body"].encode()).hexdigest()
        unit["document"] = form.document % unit
        unit["document_sha256"] = hashlib.sha256(unit["document"].encode()).hexdigest()
        unit["run"] = form.run % unit
        reference = f"{_netstring(unit['uri'])}-{_netstring(unit['sequencer'])}"
        reference += _netstring(unit["etag"])
        parts = ("kfm-nodd-ingest", "nodd.item.created", "goes-glm", reference, sha256)
        unit["key_hash"] = f"sha256:{hashlib.sha256(_prefixed(*parts)).hexdigest()}"
        unit["payload"] = form.payload % unit

    def _claim(self, units: list[Values], now: str) -> None:
        form = self._templates
        assert form is not None
        record, attempt, claim_id = form.record, form.attempt, str(uuid.uuid4())
        who, run_id = record["worker_id"], record["ingest_run_id"]
        records: Rows = [
            (
                unit["wal_id"], "goes-glm", unit["uri"], "aws", record["queue"],
                unit["event_time"], unit["start"], unit["end"], "in_progress", 1, now, None, None,
                "unknown", "unknown", "unknown", "unknown", None, None, None, run_id, who, "none",
                now, now, 2, who, None, None, None, None, None, None, 0, 0, None,
            )
            for unit in units
        ]  # fmt: skip
        attempts: Rows = [
            (
                unit["wal_id"], 1, "pending", "ingest", record["queue"], unit["event_time"],
                unit["sns_message_id"], unit["sqs_message_id"], unit["etag"], unit["size"],
                unit["sequencer"], None, None, None, *self._code, None, run_id, who,
                attempt["worker_incarnation"], claim_id, now, "pending", 2, None, None, None, None,
                None, "unknown", "unknown", "unknown", "unknown", None, None, None, None, None,
            )
            for unit in units
        ]  # fmt: skip
        assert self._database is not None
        self._database.open_attempts(records, attempts)

    def _close(self, units: list[Values], now: str) -> None:
        form = self._templates
        assert form is not None
        box = tuple(form.item[side] for side in ("west", "south", "east", "north"))
        ok, commit_id = ("ok", "ok", "created", "ok"), str(uuid.uuid4())
        records: Rows = []
        attempts: Rows = []
        items: Rows = []
        documents: Rows = []
        events: Rows = []
        deliveries: Rows = []
        for unit in units:
            wal_id, name, sha256 = unit["wal_id"], unit["item_id"], unit["item_sha256"]
            activity = f"urn:prov:activity:{unit['activity']}"
            records.append((
                "succeeded", now, 3, None, None, *ok, name, "goes-glm",
                f"collections/goes-glm/items/{name}.json", 1, 1, None, None, wal_id,
            ))  # fmt: skip
            attempts.append((
                "applied", commit_id, now, 3, None, None, *ok, unit["etag"], unit["evidence"],
                sha256, unit["document_sha256"], activity, unit["lineage_run"], None, wal_id, 1,
            ))  # fmt: skip
            items.append((
                "goes-glm", name, wal_id, 1, unit["body"], sha256, *box, unit["start"], unit["end"],
                now, now, unit["middle"], "hour",
            ))  # fmt: skip
            documents.append((
                wal_id, activity, 1, unit["document"], unit["document_sha256"], unit["run"], now,
            ))  # fmt: skip
            outbox_id = str(uuid.uuid4())
            events.append((
                outbox_id, wal_id, "kfm-nodd-ingest", "nodd.item.created", "goes-glm",
                f"1.0.0+{sha256[:16]}", unit["key_hash"], "file", unit["payload"], "public", now,
                None,
            ))  # fmt: skip
            self._written += 1
            deliveries.append((
                self._written, outbox_id, "file", "goes-glm", "pending", 0, 0, now, now, None, None,
                None, now,
            ))  # fmt: skip
        assert self._database is not None
        self._database.close_attempts(records, attempts, (items, documents, events, deliveries))

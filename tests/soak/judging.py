"""What a soak left, judged page by page: a million units do not fit into memory at once.

Each page of units is copied, with all that belongs to it and with what left for archives, into a
small database in memory, which the oracle judges as it judges any other.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.judgement import Judgement, _kind, doubles, stale_writes
from tests.chaos.roles import connect
from tests.oracle.tables import QueueContents, announced_objects, read_rows, read_tables
from tests.oracle.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.oracle.tables import Row

PAGE = 5000
#: Table → the column that names the unit.
_BY_UNIT = {
    "wal_records": "wal_id",
    "wal_attempts": "wal_id",
    "wal_transitions": "wal_id",
    "stac_items": "wal_id",
    "replaced_items": "wal_id",
    "provenance": "wal_id",
    "outbox": "subject",
}
_BY_EVENT = ("outbox_delivery", "outbox_attempts")
_WHOLE = (
    "workers", "audit_log", "audit_seals", "replay_runs", "replay_run_records", "approvals",
    "approval_decisions",
)  # fmt: skip
_POISON = "poison_messages"
#: What archives hold, by their kind.
_ARCHIVED = {"attempts": ("wal_attempts",), "events": ("outbox", *_BY_EVENT)}
_KEYS = {
    "wal_attempts": "wal_id, attempt_no",
    "outbox": "outbox_id",
    "outbox_delivery": "outbox_id",
    "outbox_attempts": "outbox_id, attempt",
}
_BYTES = {"evidence", "payload"}
#: What no two rows of the whole database may share.
_UNIQUE = {
    "wal_records": "object_uri",
    "stac_items": "collection_id, item_id",
    "outbox": "subject, idempotency_key, target",
}


@dataclass(kw_only=True)
class _Left:
    """All that is judged, and what was found so far."""

    database: Any
    #: Tables as SQLite has them: name → columns; and the view of the history.
    columns: dict[str, list[str]]
    history: str
    archived: sqlite3.Connection
    queue: QueueContents
    #: Object → what must become of it, as JSON.
    units: dict[str, str]
    poison: Counter[str]
    #: Events that the target has.
    arrived: set[str]
    dead: dict[str, list[bytes]] = field(default_factory=dict)
    found: Judgement = field(default_factory=Judgement)
    counts: Counter[str] = field(default_factory=Counter)

    def ask(self, query: str, *parameters: object) -> list[Row]:
        """Ask the database, of either kind."""
        is_sqlite = isinstance(self.database, sqlite3.Connection)
        return read_rows(
            self.database, query if is_sqlite else query.replace("?", "%s"), *parameters
        )


def judge_soak(
    database_url: str,
    queue: QueueContents,
    manifests: Path,
    events: Path,
    model: sqlite3.Connection,
    scratch: sqlite3.Connection,
) -> dict[str, Any]:
    """Judge everything; `model` has the tables as SQLite makes them, `scratch` may be filled."""
    units, poison = _manifest(manifests)
    columns, history = _schema(model)
    with closing(connect(database_url)) as database:
        left = _Left(
            database=database, columns=columns, history=history, archived=scratch, queue=queue,
            units=units, poison=poison, arrived=_arrived(events),
        )  # fmt: skip
        for body in queue.dead:
            for uri in announced_objects(body):
                left.dead.setdefault(uri, []).append(body)
        _read_archives(left)
        seen: set[str] = set()
        for page in _pages(left):
            seen.update(record["object_uri"] for record in page)
            _judge_page(left, page)
        _judge_rest(left, seen)
        left.found.duplicate += _twice(left)
    left.found.counts = dict(left.counts)
    return left.found.to_json()


# --- one page -------------------------------------------------------------------------------------


def _pages(left: _Left) -> Iterator[list[Row]]:
    after = ""
    query = f"SELECT wal_id, object_uri FROM wal_records WHERE {{}} ORDER BY wal_id LIMIT {PAGE}"
    while page := (
        left.ask(query.format("wal_id > ?"), after) if after else left.ask(query.format("1 = 1"))
    ):
        yield page
        after = page[-1]["wal_id"]


def _judge_page(left: _Left, page: Sequence[Row]) -> None:
    uris = {record["object_uri"] for record in page}
    dead = {body for uri in uris for body in left.dead.get(uri, ())}
    # A dead letter may be of a unit on another page, too: it comes along.
    partners = sorted({uri for body in dead for uri in announced_objects(body)} - uris)
    with closing(_copied(left, page[0]["wal_id"], page[-1]["wal_id"], partners)) as memory:
        known = (left.units[uri] for uri in sorted({*uris, *partners}) if uri in left.units)
        manifest = {"units": [json.loads(unit) for unit in known], "poison": {}}
        judged = QueueContents(waiting=list(left.queue.waiting), dead=sorted(dead))
        _sort(left, verdict(memory, judged, manifest))
        tables = read_tables(memory)
    left.found.duplicate += doubles(tables)
    left.found.stale += stale_writes(tables)
    for delivery in tables.deliveries:
        if delivery["status"] != "dispatched":
            left.found.lost.append(f"event {delivery['outbox_id']} is {delivery['status']}")
        elif delivery["outbox_id"] not in left.arrived:
            left.found.lost.append(f"event {delivery['outbox_id']} never came to its target")
    left.counts.update(
        {
            "units": len(page),
            "attempts": len(tables.attempts),
            "items": len(tables.items),
            "events": len(tables.outbox),
        }
    )


def _copied(left: _Left, first: str, last: str, partners: Sequence[str]) -> sqlite3.Connection:
    """Return a database in memory with all that belongs to some units."""
    memory = _empty(left)
    archived = _asking(left.archived)
    for table, column in _BY_UNIT.items():
        query = f"SELECT * FROM {table} WHERE {column} BETWEEN ? AND ?"
        _insert(memory, left.columns, table, left.ask(query, first, last))
        if table in _KEYS:
            _insert(memory, left.columns, table, archived(query, first, last))
    for table in _BY_EVENT:
        query = (
            f"SELECT * FROM {table} WHERE outbox_id IN"
            " (SELECT outbox_id FROM outbox WHERE subject BETWEEN ? AND ?)"
        )
        for source in (left.ask, archived):
            _insert(memory, left.columns, table, source(query, first, last))
    for table in _WHOLE:
        _insert(memory, left.columns, table, left.ask(f"SELECT * FROM {table}"))
    for uri in partners:
        for record in left.ask("SELECT * FROM wal_records WHERE object_uri = ?", uri):
            if not first <= record["wal_id"] <= last:
                _add_partner(left, memory, record)
    return memory


def _add_partner(left: _Left, memory: sqlite3.Connection, record: Row) -> None:
    with closing(_copied(left, record["wal_id"], record["wal_id"], ())) as alone:
        for table in (*_BY_UNIT, *_BY_EVENT):
            rows = read_rows(alone, f"SELECT * FROM {table}")
            _insert(memory, left.columns, table, rows)


def _empty(left: _Left) -> sqlite3.Connection:
    memory = sqlite3.connect(":memory:", isolation_level=None)
    for table, columns in left.columns.items():
        _create(memory, table, columns)
    memory.execute(left.history)
    return memory


# --- what no page holds ---------------------------------------------------------------------------


def _judge_rest(left: _Left, seen: set[str]) -> None:
    """Judge units that are in no ledger, and messages that are of no unit."""
    missing = [json.loads(unit) for uri, unit in left.units.items() if uri not in seen]
    dead = [
        body for body in left.queue.dead
        if not announced_objects(body) & seen
    ]  # fmt: skip
    with closing(_empty(left)) as memory:
        _insert(memory, left.columns, _POISON, left.ask(f"SELECT * FROM {_POISON}"))
        manifest = {"units": missing, "poison": dict(left.poison)}
        _sort(left, verdict(memory, QueueContents(dead=dead), manifest))


def _twice(left: _Left) -> Iterator[str]:
    for table, names in _UNIQUE.items():
        query = f"SELECT {names} FROM {table} GROUP BY {names} HAVING count(*) > 1"
        for row in left.ask(query):
            yield f"{table}: {tuple(row.values())} is there more than once"


def _sort(left: _Left, violations: Iterable[str]) -> None:
    for text in violations:
        _kind(left.found, text.partition(":")[0]).append(text)


# --- what is read once ----------------------------------------------------------------------------


def _manifest(file: Path) -> tuple[dict[str, str], Counter[str]]:
    units: dict[str, str] = {}
    poison: Counter[str] = Counter()
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            manifest = json.loads(line)
            units.update({unit["object_uri"]: json.dumps(unit) for unit in manifest["units"]})
            poison.update(manifest["poison"])
    return units, poison


def _arrived(events: Path) -> set[str]:
    found = set()
    with events.open("rb") as lines:
        for line in lines:
            try:
                found.add(json.loads(line)["id"])
            except ValueError:
                continue  # a torn line of a dispatcher that was killed counts for nothing
    return found


def _schema(model: sqlite3.Connection) -> tuple[dict[str, list[str]], str]:
    names = (*_BY_UNIT, *_BY_EVENT, *_WHOLE, _POISON)
    columns = {
        name: [row[0] for row in model.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        for name in names
    }
    view = model.execute("SELECT sql FROM sqlite_schema WHERE name = 'wal_history'").fetchone()[0]
    return columns, view


def _read_archives(left: _Left) -> None:
    """Bring all archived rows back into tables of their own."""
    for table in _KEYS:
        _create(left.archived, table, left.columns[table])
    left.archived.execute("CREATE INDEX by_subject ON outbox (subject)")
    query = "SELECT * FROM archives WHERE abandoned_at IS NULL AND verified_at IS NOT NULL"
    for archive in left.ask(query):
        content = (Path(archive["place"]) / archive["name"]).read_bytes()
        lines = [json.loads(line) for line in gzip.decompress(content).splitlines()[1:]]
        digest = hashlib.sha256(content).hexdigest()
        if digest != archive["sha256"] or len(lines) != archive["row_count"]:
            left.found.lost.append(f"archive {archive['name']} is not what was recorded of it")
        for table in _ARCHIVED[archive["kind"]]:
            rows = lines if table != "outbox_attempts" else _tries(lines)
            _insert(left.archived, left.columns, table, rows)
        left.counts[f"archived {archive['kind']}"] += len(lines)


def _tries(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "outbox_id": line["outbox_id"]} for line in lines for each in line["attempts"]]


def _asking(database: sqlite3.Connection) -> Any:
    return lambda query, *parameters: read_rows(database, query, *parameters)


def _create(database: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
    key = f", PRIMARY KEY ({_KEYS[table]})" if table in _KEYS else ""
    database.execute(f"CREATE TABLE {table} ({', '.join(columns)}{key})")


def _insert(
    database: sqlite3.Connection,
    columns: Mapping[str, Sequence[str]],
    table: str,
    rows: Iterable[Mapping[str, Any]],
) -> None:
    """Add rows; one that is in an archive and not yet gone from its table is there once."""
    names = columns[table]
    verb = "INSERT OR IGNORE" if table in _KEYS else "INSERT"
    database.executemany(
        f"{verb} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
        [[_value(name, row.get(name)) for name in names] for row in rows],
    )


def _value(name: str, value: Any) -> Any:
    return value.encode() if name in _BYTES and isinstance(value, str) else value

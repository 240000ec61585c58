"""Ledger export and import: JSON Lines that carry records with their whole history.

A header, then one line a row in order of wal_id, then a trailer with the number of lines and the
SHA-256 of all before it. An import is checked whole before its first row is written, happens in one
transaction, and leaves ids, versions and history as they were.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO
from uuid import UUID

import orjson

from tallgrass.canonical_json import canonical_bytes, canonical_text
from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput, Refused
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.record import WalAttempt, WalRecord, field_models
from tallgrass.ledger.replay_reasons import CustomReason, require_reason
from tallgrass.storage.actor_store import require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Database, Row, Transaction

FORMAT = "tallgrass-wal-export"
FORMAT_VERSION = 2
PAGE_SIZE = 500

_TRANSITION_FIELDS = (
    "wal_id", "occurred_at", "kind", "from_status", "to_status", "from_version", "to_version",
    "actor", "reason", "replay_run_id", "approval_ref",
)  # fmt: skip
_ANNOTATION_FIELDS = ("wal_id", "attempt_no", "noted_at", "actor", "kind", "note")
_RECORD_FIELDS = tuple(model.name for model in field_models(WalRecord))
_ATTEMPT_FIELDS = tuple(model.name for model in field_models(WalAttempt))

#: Columns that hold canonical JSON as text.
_JSON_FIELDS = frozenset({"extensions", "issues", "next_object"})

#: Columns that others are found by, or judged.
_NAMES = frozenset({"wal_id", "object_uri", "replay_reason"})
_INTEGER_MAX = 2**63 - 1

#: What files of version 1 lack: null there.
_SINCE_VERSION_2 = {"attempt": frozenset({"issues"})}

#: Kind of line → its fields, in the order of the import statement.
_LINES = {
    "record": _RECORD_FIELDS,
    "attempt": _ATTEMPT_FIELDS,
    "transition": _TRANSITION_FIELDS,
    "annotation": _ANNOTATION_FIELDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did."""

    records: int
    already_there: int
    #: Notes on attempts of records that were there already.
    notes: int


def export_lines(database: Database) -> Iterator[bytes]:
    """Yield the export line by line, page by page: no cursor stays open for long."""
    digest = hashlib.sha256()
    count = 0
    for line in _body_lines(database):
        digest.update(line)
        count += 1
        yield line
    yield _line({"end": {"lines": count, "sha256": digest.hexdigest()}})


def _body_lines(database: Database) -> Iterator[bytes]:
    yield _line({"format": FORMAT, "version": FORMAT_VERSION})
    after = "00000000-0000-0000-0000-000000000000"
    while True:
        with database.reading() as tx:
            records = tx.select("export_page", after=after, size=PAGE_SIZE)
            ids = [row["wal_id"] for row in records]
            if not ids:
                return
            pages = [
                ("record", records),
                ("attempt", tx.select("export_attempts", rows=ids)),
                ("transition", tx.select("export_transitions", rows=ids)),
                ("annotation", tx.select("export_annotations", rows=ids)),
            ]
        for kind, rows in pages:
            for row in rows:
                yield _line({kind: _plain_row(row, _LINES[kind])})
        after = ids[-1]


def read_export(file: BinaryIO) -> str:
    """Check a whole export; return its SHA-256. A cut, changed or foreign file is refused."""
    digest = hashlib.sha256()
    number = version = 0
    for number, line in enumerate(file, start=1):
        value = _parsed(line, number)
        if number == 1:
            version = _require_readable(value)
        elif "end" in value:
            end = {"lines": number - 1, "sha256": digest.hexdigest()}
            if value["end"] != end or file.read(1):
                raise InvalidInput(
                    f"line {number}: the file was changed or cut since it was written",
                    code="import_invalid",
                )
            return end["sha256"]  # type: ignore[return-value]
        else:
            _require_known_line(value, number, version)
        digest.update(line)
    raise InvalidInput(
        f"the file ends after line {number} without its trailer: it was cut", code="import_invalid"
    )


def import_lines(
    runner: TransactionRunner,
    file: BinaryIO,
    *,
    actor: Acting,
    source: str,
    ids: Callable[[], UUID],
    custom_reasons: dict[str, CustomReason],
) -> Imported:
    """Import a checked export in one transaction; records that are there already must be equal."""
    sha256 = read_export(file)

    def work(tx: Transaction) -> Imported:
        file.seek(0)
        known_by = require_acting(tx, actor, Role.OPERATOR, "importing a ledger")
        now = tx.now()
        import_id = str(ids())
        tx.execute(
            "open_import",
            import_id=import_id,
            actor=name_of(actor),
            source=source,
            sha256=sha256,
            now=now,
        )
        result = _import(tx, _body(file), custom_reasons, now)
        tx.execute("finish_import", import_id=import_id, now=now)
        entry = AuditEntry(
            actor=name_of(actor),
            action="import",
            subject=import_id,
            reason=source,
            detail={
                **known_by,
                "records": result.records,
                "already_there": result.already_there,
                "notes": result.notes,
                "sha256": sha256,
            },
        )
        write_audit(tx, now, [entry])
        return result

    return run_guarded(runner, work, actor, "import", source)


def _import(
    tx: Transaction,
    lines: Iterator[tuple[str, dict[str, object]]],
    custom_reasons: dict[str, CustomReason],
    now: datetime,
) -> Imported:
    imported = there = notes = 0
    for page in _pages(lines):
        records = page["record"]
        ids = [row["wal_id"] for row in records]
        existing = {row["wal_id"]: row for row in tx.select("export_records", rows=ids)}
        _require_own_objects(tx, records)
        for row in records:
            reason = require_reason(row["replay_reason"], custom_reasons)  # type: ignore[arg-type]
            row["replay_reason"] = reason
            _require_same(row, existing.get(str(row["wal_id"])))
            if custom := custom_reasons.get(reason):
                values = [(custom.code, custom.description, custom.approval_ref)]
                tx.write("insert_reasons", values, now=now)
        for kind, rows in page.items():
            fresh = [row for row in rows if row["wal_id"] not in existing]
            tx.write(f"import_{kind}s", [_columns(row, kind) for row in fresh])
        imported += len(ids) - len(existing)
        there += len(existing)
        notes += _import_notes(tx, page["annotation"], existing)
    return Imported(records=imported, already_there=there, notes=notes)


def _require_own_objects(tx: Transaction, records: list[dict[str, object]]) -> None:
    """Refuse an object that is known under another id: it has one record in a ledger."""
    objects = [row["object_uri"] for row in records]
    ids = {row["object_uri"]: row["wal_id"] for row in tx.select("known_objects", rows=objects)}
    for row in records:
        known = ids.setdefault(row["object_uri"], row["wal_id"])
        if known != row["wal_id"]:
            raise Refused(
                f"{row['object_uri']} is in the ledger as {known}, not as {row['wal_id']}",
                code="import_conflict",
            )


def _import_notes(tx: Transaction, rows: list[dict[str, object]], there: Mapping[str, Row]) -> int:
    """Add the notes that known units lack: a note changes nothing of its unit's record."""
    stored = tx.select("export_annotations", rows=list(there))
    known = [_plain_row(row, _ANNOTATION_FIELDS) for row in stored]
    fresh = [row for row in rows if row["wal_id"] in there and row not in known]
    tx.write("import_annotations", [_columns(row, "annotation") for row in fresh])
    return len(fresh)


def _pages(
    lines: Iterator[tuple[str, dict[str, object]]],
) -> Iterator[dict[str, list[dict[str, object]]]]:
    """Gather lines into pages that begin with their records, as the export wrote them."""
    page: dict[str, list[dict[str, object]]] = {kind: [] for kind in _LINES}
    past_records = False
    for kind, row in lines:
        if kind == "record" and (past_records or len(page["record"]) >= PAGE_SIZE):
            yield page
            page, past_records = {name: [] for name in _LINES}, False
        past_records = past_records or kind != "record"
        if past_records and not page["record"]:
            raise InvalidInput(f"the first {kind} stands before any record", code="import_invalid")
        page[kind].append(row)
    if page["record"]:
        yield page


def _body(file: Iterable[bytes]) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(file, start=1):
        value = _parsed(line, number)
        if number > 1 and "end" not in value:
            yield next(iter(value.items()))  # type: ignore[misc]


def _require_same(row: dict[str, object], existing: Row | None) -> None:
    if existing is None:
        return
    stored = _plain_row(existing, _RECORD_FIELDS)
    if stored != row:
        differing = sorted(name for name in stored if stored[name] != row.get(name))
        raise Refused(
            f"{row['wal_id']} is in the ledger with other {', '.join(differing)}",
            code="import_conflict",
        )


def _require_readable(header: dict[str, object]) -> int:
    """Return the version of a file that this release reads."""
    version = header.get("version")
    if header.get("format") != FORMAT or version not in range(1, FORMAT_VERSION + 1):
        raise InvalidInput(
            f"line 1: not a {FORMAT} of version 1 to {FORMAT_VERSION}", code="import_invalid"
        )
    return version  # type: ignore[return-value]  # only integers equal those of a range


def _require_known_line(value: dict[str, object], number: int, version: int) -> None:
    kind, row = next(iter(value.items()), ("", None))
    fields = set(_LINES.get(kind, ()))
    if version < FORMAT_VERSION:
        fields -= _SINCE_VERSION_2.get(kind, frozenset())
    if len(value) != 1 or not fields or not isinstance(row, dict) or set(row) != fields:
        raise InvalidInput(
            f"line {number}: not a record, attempt, transition or annotation of this version",
            code="import_invalid",
        )
    wrong = [name for name, found in row.items() if not _is_storable(name, found)]
    if wrong:
        raise InvalidInput(
            f"line {number}: {', '.join(sorted(wrong))} cannot be stored", code="import_invalid"
        )


def _is_storable(name: str, value: object) -> bool:
    """Tell whether a value has a form that a column can have."""
    if name in _NAMES and not isinstance(value, str):
        return False
    if isinstance(value, int):
        return abs(value) <= _INTEGER_MAX
    return name in _JSON_FIELDS or not isinstance(value, dict | list)


def _parsed(line: bytes, number: int) -> dict[str, object]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidInput(f"line {number}: not JSON ({exc})", code="import_invalid") from exc
    if not isinstance(value, dict):
        raise InvalidInput(f"line {number}: not an object", code="import_invalid")
    return value


def _line(value: dict[str, object]) -> bytes:
    return canonical_bytes(value) + b"\n"


def _plain_row(row: Row, names: tuple[str, ...]) -> dict[str, object]:
    """Write a row the same way from either database; JSON columns as what they hold."""
    values = {name: _plain(row[name]) for name in names}
    for name in _JSON_FIELDS & values.keys():
        text = values[name]
        values[name] = None if text is None else orjson.loads(str(text))
    return values


def _columns(row: dict[str, object], kind: str) -> list[object]:
    """Return the columns of an imported row, in the order of its statement."""
    values = ((name, row.get(name)) for name in _LINES[kind])
    return [
        canonical_text(value) if name in _JSON_FIELDS and value is not None else value
        for name, value in values
    ]


def _plain(value: object) -> object:
    """Write a column's value the same way from either database."""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, bytes):
        return value.decode()
    return value

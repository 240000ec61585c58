"""Rows of the database as the ledger's types, and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from tallgrass.canonical_json import canonical_text
from tallgrass.clock import format_instant, to_utc
from tallgrass.governance.audit import StoredEntry
from tallgrass.ledger.claim import NOT_REPLAYED, OwnedItem, Replayed
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.record import WalAttempt, WalRecord
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import (
    AttemptStatus,
    CheckStatus,
    Intent,
    ProvenanceStatus,
    StacStatus,
    Status,
)
from tallgrass.storage.unit_of_work import Row


def instant(value: str | datetime) -> datetime:
    """Read a time column: text on SQLite, a datetime on PostgreSQL."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return to_utc(value)


def instant_or_none(value: str | datetime | None) -> datetime | None:
    """Read a time column that may be null."""
    return None if value is None else instant(value)


def record_from(row: Row) -> WalRecord:
    """Read a row of wal_records."""
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - sqlite3.Row has only keys()
    for name in ("event_time", "time_range_start", "time_range_end", "created_at", "updated_at"):
        values[name] = instant(values[name])
    for name in ("last_attempt_at", "due_at", "retry_after"):
        values[name] = instant_or_none(values[name])
    for name in ("extensions", "next_object"):
        values[name] = None if values[name] is None else orjson.loads(values[name])
    values["status"] = Status(values["status"])
    values["rerun_intent"] = _intent_or_none(values["rerun_intent"])
    return WalRecord(**_with_operator_statuses(values))


def attempt_from(row: Row) -> WalAttempt:
    """Read a row of wal_attempts."""
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - sqlite3.Row has only keys()
    values["event_time"] = instant(values["event_time"])
    values["claimed_at"] = instant(values["claimed_at"])
    values["closed_at"] = instant_or_none(values["closed_at"])
    values["issues"] = issues_from(values["issues"])
    values["status"] = AttemptStatus(values["status"])
    values["intent"] = Intent(values["intent"])
    values["claimed_from"] = Status(values["claimed_from"])
    return WalAttempt(**_with_operator_statuses(values))


def issues_text(issues: Sequence[str]) -> str | None:
    """Write an attempt's issues; null where there are none."""
    return canonical_text(list(issues)) if issues else None


def issues_from(text: str | None) -> tuple[str, ...] | None:
    """Read what `issues_text` wrote."""
    return None if text is None else tuple(orjson.loads(text))


def known_from(row: Row, first_intent: Intent = Intent.INGEST) -> Known:
    """Read what a receipt or a due unit is decided by."""
    return Known(
        wal_id=row["wal_id"],
        dataset=row["dataset"],
        status=Status(row["status"]),
        version=row["version"],
        attempts=row["attempts"],
        budget_from=row["budget_from"],
        lease_expiries=row["lease_expiries"],
        last_error_code=row["last_error_code"],
        due_at=instant_or_none(row["due_at"]),
        retry_after=instant_or_none(row["retry_after"]),
        rerun_intent=_intent_or_none(row["rerun_intent"]),
        replay_run_id=row["replay_run_id"],
        replay_reason=row["replay_reason"],
        held_until=instant_or_none(row["held_until"]),
        first_intent=first_intent,
    )


def due_from(row: Row) -> Known:
    """Read a due unit; one that was listed, and not announced, is backfilled until it succeeds."""
    if row["next_object"] is not None:
        wish = orjson.loads(row["next_object"]).get("intent", Intent.INGEST)
        return known_from(row, Intent(wish))
    backfilled = row["attempt_intent"] == Intent.BACKFILL.value
    return known_from(row, Intent.BACKFILL if backfilled else Intent.INGEST)


def known_object(row: Row) -> ObjectReference:
    """Return the newest object known of a unit, with its etag as read if it was read."""
    if row["next_object"] is not None:
        return next_object_from(row["next_object"])[0]
    return ObjectReference(
        etag=row["read_etag"] or row["object_etag"],
        size=row["object_size"],
        sequencer=row["object_sequencer"],
        version_id=row["object_version_id"],
    )


def owned_item_from(row: Row) -> OwnedItem | None:
    """Read the item that a unit owns, if it owns one."""
    if row["item_id"] is None:
        return None
    return OwnedItem(
        collection_id=row["item_collection_id"],
        item_id=row["item_id"],
        sha256=row["item_sha256"],
        activity_id=row["item_activity_id"],
    )


def replayed_from(row: Row) -> Replayed:
    """Read what a replay repeats."""
    if row["replay_run_id"] is None:
        return NOT_REPLAYED
    return Replayed(
        mode=row["replay_mode"],
        original_run=row["original_run"],
        original_attempt=row["original_attempt"],
    )


def next_object_text(unit: IngestUnit, intent: Intent = Intent.INGEST) -> str:
    """Write the object and event that the next attempt shall take, and why if not to ingest it."""
    object_ref = unit.object_ref
    wish = {} if intent is Intent.INGEST else {"intent": intent.value}
    sender = unit.event.traceparent
    traced = {} if sender is None else {"traceparent": sender}
    return canonical_text(
        {
            "etag": object_ref.etag,
            "event_time": format_instant(unit.event.event_time),
            "sequencer": object_ref.sequencer,
            "size": object_ref.size,
            "sns_message_id": unit.event.sns_message_id,
            "version_id": object_ref.version_id,
            **wish,
            **traced,
        }
    )


def next_object_from(text: str) -> tuple[ObjectReference, EventMetadata]:
    """Read what `next_object_text` wrote. No queue message stands behind it any more."""
    values = orjson.loads(text)
    return (
        ObjectReference(
            etag=values["etag"],
            size=values["size"],
            sequencer=values["sequencer"],
            version_id=values["version_id"],
        ),
        EventMetadata(
            event_time=instant(values["event_time"]),
            sns_message_id=values["sns_message_id"],
            traceparent=values.get("traceparent"),
        ),
    )


def due_unit_from(row: Row) -> IngestUnit:
    """Read a due unit with the object and event of its next attempt."""
    if row["next_object"] is not None:
        return unit_from(row, *next_object_from(row["next_object"]))
    event = EventMetadata(
        event_time=instant(row["attempt_event_time"] or row["event_time"]),
        sns_message_id=row["sns_message_id"],
    )
    return unit_from(row, object_from(row), event)


def object_from(row: Row) -> ObjectReference:
    """Read the object of an attempt, as it was announced."""
    return ObjectReference(
        etag=row["object_etag"],
        size=row["object_size"],
        sequencer=row["object_sequencer"],
        version_id=row["object_version_id"],
    )


def unit_from(row: Row, object_ref: ObjectReference, event: EventMetadata) -> IngestUnit:
    """Read what a record says of its unit, for one object and event of it."""
    return IngestUnit(
        wal_id=row["wal_id"],
        dataset=row["dataset"],
        object_uri=row["object_uri"],
        provider=row["provider"],
        queue=row["queue"],
        time_range_start=instant(row["time_range_start"]),
        time_range_end=instant(row["time_range_end"]),
        event=event,
        object_ref=object_ref,
        extensions=None if row["extensions"] is None else orjson.loads(row["extensions"]),
    )


def entry_from(row: Row, position: int | None = None) -> StoredEntry:
    """Read a row of audit_log."""
    return StoredEntry(
        entry_id=row["entry_id"],
        occurred_at=instant(row["occurred_at"]),
        actor=row["actor"],
        action=row["action"],
        subject=row["subject"],
        reason=row["reason"],
        approval_ref=row["approval_ref"],
        detail=row["detail"],
        position=position,
    )


def _intent_or_none(value: str | None) -> Intent | None:
    return None if value is None else Intent(value)


def _with_operator_statuses(values: dict[str, Any]) -> Mapping[str, Any]:
    values["integrity_status"] = CheckStatus(values["integrity_status"])
    values["metadata_status"] = CheckStatus(values["metadata_status"])
    values["stac_status"] = StacStatus(values["stac_status"])
    values["provenance_status"] = ProvenanceStatus(values["provenance_status"])
    return values

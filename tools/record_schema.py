"""JSON Schema of a record and of an attempt, made from their field models."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tallgrass.ledger.redaction import MESSAGE_CHARS_MAX
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallgrass.ledger.record import FieldModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_INSTANT = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$"
_CODE = "^[a-z0-9_]{1,64}$"

#: What a field is besides its type.
_NARROWED: dict[str, dict[str, Any]] = {
    "wal_id": {
        "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    },
    "dataset": {"minLength": 1},
    "object_uri": {"pattern": "^[a-z][a-z0-9+.-]*://[A-Za-z0-9][A-Za-z0-9._-]*/."},
    "provider": {"minLength": 1},
    "last_error_code": {"pattern": _CODE},
    "last_error_message": {"maxLength": MESSAGE_CHARS_MAX},
    "error_code": {"pattern": _CODE},
    "error_message": {"maxLength": MESSAGE_CHARS_MAX},
    "issues": {
        "items": {"type": "string", "pattern": "^[a-z-]+:[a-z0-9_]{1,64}$"},
        "minItems": 1,
        "uniqueItems": True,
    },
    "replay_reason": {"pattern": "^[a-z][a-z0-9-]{1,63}$"},
    "version": {"minimum": 1},
    "applied_attempt": {"minimum": 1},
    "attempt_no": {"minimum": 1},
    "claimed_version": {"minimum": 2},
    "closed_version": {"minimum": 3},
    "worker_incarnation": {"pattern": _UUID},
    "claim_id": {"pattern": _UUID},
    "commit_id": {"pattern": _UUID},
    "rerun_intent": {"enum": ["reingest", "repair", "backfill"]},
    "claimed_from": {"enum": [Status.PENDING.value, Status.SUCCEEDED.value]},
    "extensions": {"propertyNames": {"pattern": "^ext_[a-z][a-z0-9_]{0,59}$"}},
}

_TEXT = {"type": "string"}

#: A success is what all four operators made of it, and it has its item.
_RECORD_RULES: list[dict[str, Any]] = [
    {
        "if": {"properties": {"status": {"const": "succeeded"}}},
        "then": {
            "properties": {
                "integrity_status": {"enum": ["ok", "suspect"]},
                "metadata_status": {"enum": ["ok", "suspect"]},
                "stac_status": {"enum": ["created", "updated", "no-op"]},
                "provenance_status": {"enum": ["ok", "partial"]},
                "stac_item_id": _TEXT,
                "stac_collection_id": _TEXT,
                "applied_attempt": {"type": "integer"},
            },
        },
        "else": {"properties": {"rerun_intent": {"type": "null"}}},
    },
    {
        "if": {"properties": {"status": {"enum": ["failed", "quarantined"]}}},
        "then": {"properties": {"last_error_code": _TEXT}},
    },
]

_ATTEMPT_RULES: list[dict[str, Any]] = [
    {
        "if": {"properties": {"status": {"const": "pending"}}},
        "then": {
            "properties": {
                name: {"type": "null"} for name in ("closed_at", "closed_version", "commit_id")
            },
        },
        "else": {
            "properties": {
                "closed_at": _TEXT,
                "closed_version": {"type": "integer"},
                "commit_id": _TEXT,
            },
        },
    },
    {
        "if": {"properties": {"status": {"enum": ["failed", "rolled_back"]}}},
        "then": {"properties": {"error_code": _TEXT}},
        "else": {"properties": {"error_code": {"type": "null"}}},
    },
]


def record_schema(models: Iterable[FieldModel]) -> dict[str, Any]:
    """Return the schema of a record as the ledger shows and exports it."""
    return _schema("WAL record", "One ingest unit as the ledger holds it.", models, _RECORD_RULES)


def attempt_schema(models: Iterable[FieldModel]) -> dict[str, Any]:
    """Return the schema of an attempt as the ledger shows and exports it."""
    return _schema("WAL attempt", "One claim of an ingest unit.", models, _ATTEMPT_RULES)


def _schema(
    title: str, description: str, models: Iterable[FieldModel], rules: list[dict[str, Any]]
) -> dict[str, Any]:
    properties = {model.name: _property(model) for model in models}
    return {
        "$schema": DIALECT,
        "title": title,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "allOf": rules,
    }


def _property(model: FieldModel) -> dict[str, Any]:
    entry = {"description": model.doc, **_of_kind(model), **_NARROWED.get(model.name, {})}
    if model.nullable:
        entry["type"] = [entry["type"], "null"]
        if "enum" in entry:
            entry["enum"] = [*entry["enum"], None]
    return entry


def _of_kind(model: FieldModel) -> dict[str, Any]:
    if issubclass(model.kind, StrEnum):
        return {"type": "string", "enum": list(model.vocabulary)}
    if issubclass(model.kind, datetime):
        return {"type": "string", "format": "date-time", "pattern": _INSTANT}
    if issubclass(model.kind, int):
        return {"type": "integer", "minimum": 0}
    if issubclass(model.kind, Mapping):
        return {"type": "object"}
    if issubclass(model.kind, tuple):
        return {"type": "array", "items": dict(_TEXT)}
    return dict(_TEXT)  # text, and bytes that hold text: evidence is canonical JSON

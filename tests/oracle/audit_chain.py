"""The audit log's chain, worked out again from its description alone."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.tables import Row, Tables

_FIELDS = (
    "entry_id",
    "occurred_at",
    "actor",
    "action",
    "subject",
    "reason",
    "approval_ref",
    "detail",
)


def chain_holds(tables: Tables) -> Iterator[str]:
    """Each seal is the hash of the one before, its own position and its entry."""
    entries = {entry["entry_id"]: entry for entry in tables.audit}
    previous = "0" * 64
    for position, seal in enumerate(tables.seals, start=1):
        if seal["position"] != position:
            yield f"audit: seal {seal['position']} stands at {position}"
        entry = entries.get(seal["entry_id"])
        if entry is None or _entry_hash(entry) != seal["entry_hash"]:
            yield f"audit: entry {seal['entry_id']} is not what was sealed"
        link = f"{previous}:{seal['position']}:{seal['entry_hash']}"
        if hashlib.sha256(link.encode()).hexdigest() != seal["chain_hash"]:
            yield f"audit: seal {position} does not follow from the one before"
        previous = seal["chain_hash"]


def holds_are_audited(tables: Tables) -> Iterator[str]:
    """Every quarantine of a unit is in the audit log."""
    named = {e["subject"] for e in tables.audit if e["action"].startswith("quarantine")}
    for record in tables.records:
        if record["status"] == "quarantined" and record["wal_id"] not in named:
            yield f"audit: nobody tells of the quarantine of {record['wal_id']}"


def _entry_hash(entry: Row) -> str:
    values = [entry[name] for name in _FIELDS]
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()

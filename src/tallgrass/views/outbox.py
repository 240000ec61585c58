"""Delivery attempts, in the form of the governance ledger and of the telemetry file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.clock import format_instant
from tallgrass.outbox.dispatch_rules import AttemptOutcome

if TYPE_CHECKING:
    from tallgrass.outbox.deliveries import LedgerEntry


def ledger_entry(entry: LedgerEntry) -> dict[str, object]:
    """Return an attempt in the form of the governance ledger."""
    return {
        "outbox_id": entry.outbox_id,
        "event_name": entry.event_name,
        "dataset_id": entry.dataset_id,
        "care_label": entry.care_label,
        "status": entry.outcome.value,
        "attempt": entry.attempt,
        "last_error": entry.error or entry.error_code,
        "target": entry.target,
        "recorded_at": format_instant(entry.ended_at),
    }


def telemetry_entry(entry: LedgerEntry) -> dict[str, object]:
    """Return an attempt in the form of the telemetry file."""
    latency = (entry.ended_at - entry.created_at).total_seconds() * 1000
    return {
        "outbox_id": entry.outbox_id,
        "pipeline_id": entry.pipeline_id,
        "event_name": entry.event_name,
        "dispatch_status": "success" if entry.outcome is AttemptOutcome.DISPATCHED else "failure",
        "attempt": entry.attempt,
        "latency_ms": max(0.0, round(latency, 3)),
        "duplicate_detected": entry.duplicate,
    }

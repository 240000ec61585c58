"""Replay runs and the results of their records as documents, the same for all fronts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tallgrass.clock import format_instant
from tallgrass.views.text import plain

if TYPE_CHECKING:
    from tallgrass.replay.run import Run, RunRecord, RunReport


def run_document(run: Run, report: RunReport) -> dict[str, Any]:
    """Return what a run was for and what it has come to."""
    order = run.order
    return {
        **report.document(),
        "mode": order.mode.value,
        "intent": order.intent.value,
        "reason": order.reason,
        "actor": run.actor,
        "approval_id": order.approval_id,
        "change_ref": order.change_ref,
        "incident_ref": order.incident_ref,
        "policy_ref": order.policy_ref,
        "plan_sha256": order.plan_sha256,
        "expected": list(order.expected),
        "code_version": order.code_version,
        "config_version": order.config_version,
        "started_at": format_instant(run.started_at),
        "finished_at": None if run.finished_at is None else format_instant(run.finished_at),
    }


def run_record_document(record: RunRecord) -> dict[str, Any]:
    """Return what came of one record of a run, with what it changed."""
    value: dict[str, Any] = plain(asdict(record))
    return value

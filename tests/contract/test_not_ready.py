"""Waiting in the ledger: by two edges at once, due by back-off, within the limit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tallgrass.retry import Backoff
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit, verdicts

if TYPE_CHECKING:
    from tests.support.backends import Backend

SLOW = LedgerRules(backoff=Backoff(base_s=100.0, cap_s=900.0), max_attempts=3)


@pytest.mark.conformance("C-11", "SM-4.5c")
def test_a_unit_that_waits_is_due_after_its_back_off(backend: Backend) -> None:
    """Two edges of one instant; nobody can claim it before its time, and its message may go."""
    scene = Scene(backend, SLOW, draw=lambda: 1.0)
    claim = scene.claim()
    result = scene.commit(failure(claim, "not_ready"))
    closed = result.closed[claim.wal_id]
    assert (closed.verdict, closed.error_code, closed.retry_s) == (
        Verdict.RETRY,
        "not_ready",
        100.0,
    )
    row = scene.row(claim.wal_id)
    assert (row["status"], row["last_error_code"]) == ("pending", "not_ready")
    due, since = (datetime.fromisoformat(row[name]) for name in ("due_at", "updated_at"))
    assert (due - since).total_seconds() == 100.0
    edges = backend.sql(
        "SELECT version, from_status, to_status, reason, occurred_at FROM wal_history"
        " WHERE version > 2 ORDER BY version"
    )
    assert [edge[:4] for edge in edges] == [
        (3, "in_progress", "failed", "not_ready"),
        (4, "failed", "pending", "not_ready"),
    ]
    assert edges[0][4] == edges[1][4] == row["updated_at"]
    assert scene.due() == []
    (again,) = scene.announce(unit(0))
    assert (again.decision.action, again.claim) == (Action.DUE, None)


def test_waiting_ends_at_the_limit(backend: Backend) -> None:
    """Each wait spends an attempt; the last one holds the unit for a person."""
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, max_attempts=3))
    claim = scene.claim()
    for _ in range(2):
        assert verdicts(scene.commit(failure(claim, "not_ready")))[claim.wal_id] is Verdict.RETRY
        (claim,) = scene.due()
    result = scene.commit(failure(claim, "missing_object"))
    assert verdicts(result) == {claim.wal_id: Verdict.QUARANTINED}
    row = scene.row(claim.wal_id)
    assert (row["status"], row["attempts"], row["due_at"]) == ("quarantined", 3, None)
    assert row["last_error_code"] == "missing_object"
    assert scene.due() == []


@pytest.mark.conformance("C-09")
def test_even_a_report_of_waiting_cannot_pass_the_limit(backend: Backend) -> None:
    """Whoever reports `not_ready` on the last attempt has the unit held."""
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, max_attempts=2))
    scene.commit(failure(scene.claim(), "not_ready"))
    (claim,) = scene.due()
    assert verdicts(scene.commit(failure(claim, "not_ready"))) == {
        claim.wal_id: Verdict.QUARANTINED
    }


def test_a_newer_object_ends_the_waiting(backend: Backend) -> None:
    """It is claimed at once, with a budget of its own."""
    scene = Scene(backend, SLOW, draw=lambda: 1.0)
    claim = scene.claim()
    scene.commit(failure(claim, "not_ready"))
    newer = scene.claim(overwritten(0))
    assert (newer.attempt_no, newer.budget_from) == (2, 1)
    scene.commit(success(newer))
    row = scene.row(claim.wal_id)
    assert (row["status"], row["last_error_code"], row["due_at"]) == ("succeeded", None, None)

"""Quarantine: by a person and by rule, from pending and from failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, unit
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from tests.support.backends import Backend

TWO = LedgerRules(max_attempts=2, backoff=NO_BACKOFF)


@pytest.mark.conformance("WAL-5.6", "SM-4.6a", "SM-4.6b")
def test_a_person_holds_a_pending_unit(backend: Backend) -> None:
    """Status, code (there was none), stamp and version change; it is no longer due."""
    scene = Scene(backend)
    wal_id = scene.park()
    before = scene.row(wal_id)
    scene.quarantine(wal_id)
    after = scene.row(wal_id)
    written = {"status", "last_error_code", "updated_at", "version", "due_at"}
    assert changed(before, after) == written
    assert (after["status"], after["last_error_code"]) == (
        "quarantined",
        "quarantined_by_operator",
    )
    assert after["version"] == before["version"] + 1
    assert scene.audit(wal_id) == [("ann", "quarantine", "looks wrong")]
    assert scene.due() == []


@pytest.mark.conformance("WAL-5.6", "SM-4.6a", "SM-4.6b")
def test_a_person_holds_a_failed_unit_and_its_code_stays(backend: Backend) -> None:
    """The code that says what went wrong is not overwritten by the hold."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "missing_object")
    message = scene.row(wal_id)["last_error_message"]
    scene.quarantine(wal_id)
    row = scene.row(wal_id)
    assert (row["status"], row["last_error_code"]) == ("quarantined", "missing_object")
    assert row["last_error_message"] == message
    edge = backend.sql("SELECT from_status, to_status, actor, reason FROM wal_transitions")
    assert edge == [("failed", "quarantined", "ann", "looks wrong")]


@pytest.mark.conformance("SM-4.6a")
@pytest.mark.parametrize("reason", ["", "   "])
def test_a_person_needs_a_reason(backend: Backend, reason: str) -> None:
    """Without one nothing is held."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.tables()
    with pytest.raises(InvalidInput):
        scene.stores.interventions.quarantine([(wal_id, 3)], reason=reason, actor="ann")
    assert scene.tables() == before


@pytest.mark.conformance("WAL-5.6", "C-09", "SM-4.6b")
@pytest.mark.parametrize("status", ["pending", "failed"])
def test_a_message_at_the_limit_holds_the_unit(backend: Backend, status: str) -> None:
    """By rule, from either status: no attempt is spent, the old code stays, the rule is audited."""
    scene = Scene(backend)
    wal_id = scene.fail()
    claim = scene.claim(0)
    scene.commit(failure(claim, "io_error" if status == "failed" else "not_ready"))
    strict = Scene(backend, TWO)
    before = strict.row(wal_id)
    assert before["status"] == status
    [receipt] = strict.announce(unit(0))
    assert (receipt.decision.action, receipt.claim) == (Action.QUARANTINE, None)
    after = strict.row(wal_id)
    assert (after["status"], after["attempts"]) == ("quarantined", 2)
    assert after["last_error_code"] == before["last_error_code"]
    edge = backend.sql(
        "SELECT from_status, to_status, actor, reason FROM wal_transitions"
        " WHERE kind = 'quarantine'"
    )
    assert edge == [(status, "quarantined", "w", "attempts_exhausted")]
    assert strict.audit(wal_id) == [("w", "quarantine", "attempts_exhausted")]


@pytest.mark.conformance("C-09")
def test_a_unit_that_kills_every_worker_stops_at_the_limit(backend: Backend) -> None:
    """Claims count, not reports: after its attempts are used up the claim itself holds it."""
    scene = Scene(backend, LedgerRules(max_attempts=3, backoff=NO_BACKOFF))
    wal_id = scene.claim(0).wal_id
    scene.crash()
    for _ in range(2):
        assert [claim.wal_id for claim in scene.due()] == [wal_id]
        scene.crash()
    assert scene.due() == []
    row = scene.row(wal_id)
    assert (row["status"], row["attempts"], row["due_at"]) == ("quarantined", 3, None)
    assert row["last_error_code"] == "lease_expired"
    assert scene.due() == []
    assert {row["status"] for row in scene.attempts(wal_id)} == {"rolled_back"}
    assert scene.history(wal_id)[-1][1:] == ("pending", "quarantined")


@pytest.mark.conformance("WAL-4.6", "SM-3.2")
def test_no_routine_verb_leaves_quarantine(backend: Backend) -> None:
    """Messages, the schedule, recovery and replay leave the held unit's status alone."""
    scene = Scene(backend)
    wal_id = scene.at("quarantined")
    before = scene.row(wal_id)
    scene.announce(unit(0))
    scene.due()
    scene.crash()
    put_back(scene.stores, [(wal_id, before["version"])])
    assert scene.row(wal_id) == before


@pytest.mark.conformance("C-10")
def test_a_message_for_a_held_unit_is_audited(backend: Backend) -> None:
    """It may go from the queue, and the log keeps which message and object it was."""
    scene = Scene(backend)
    wal_id = scene.at("quarantined")
    [receipt] = scene.announce(unit(0))
    assert receipt.decision.action is Action.HELD
    entry = backend.rows("SELECT * FROM audit_log WHERE action = 'message_for_quarantined'")[0]
    assert (entry["actor"], entry["subject"]) == ("w", wal_id)
    assert entry["reason"] == "quarantined_by_operator"
    assert '"sqs_message_id":"sqs-0"' in entry["detail"]


def test_a_newer_object_of_a_held_unit_is_kept_for_its_release(backend: Backend) -> None:
    """It is recorded and audited; status and budget stay, and the older one no longer counts."""
    scene = Scene(backend)
    wal_id = scene.at("quarantined")
    before = scene.row(wal_id)
    [receipt] = scene.announce(overwritten(0))
    assert receipt.decision.action is Action.RECORD_NEWER
    after = scene.row(wal_id)
    assert changed(before, after) == {"updated_at", "version", "next_object"}
    assert '"sequencer":"0055AED6DCD90281E6"' in after["next_object"]
    assert scene.audit(wal_id)[-1][1] == "newer_object_of_quarantined"
    [again] = scene.announce(overwritten(0))
    assert again.decision.action is Action.HELD

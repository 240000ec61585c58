"""Commit: what success and failure write, who may write it, all or nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput, TallgrassError, WorkerFenced
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, success, unit, units, verdicts

if TYPE_CHECKING:
    from tests.support.backends import Backend

STATUSES_AND_ITEM = {
    "integrity_status", "metadata_status", "stac_status", "provenance_status",
    "stac_item_id", "stac_collection_id", "stac_item_href",
}  # fmt: skip


@pytest.mark.conformance("SM-4.3b", "SM-4.3c", "WAL-5.3")
def test_success_writes_the_outcome_and_clears_the_last_error(backend: Backend) -> None:
    """Status, stamps, version, the operators' results; the error of an earlier attempt goes."""
    scene = Scene(backend)
    wal_id = scene.fail()
    claim = scene.claim(0)
    before = scene.row(wal_id)
    assert before["last_error_code"] == "io_error"
    scene.commit(success(claim))
    after = scene.row(wal_id)
    cleared = {"last_error_code", "last_error_message"}
    moved = {"status", "updated_at", "version", "applied_attempt", "budget_from"}
    assert changed(before, after) == moved | cleared | STATUSES_AND_ITEM
    assert after["status"] == "succeeded"
    assert after["version"] == before["version"] + 1
    assert (after["last_error_code"], after["last_error_message"]) == (None, None)
    assert (after["applied_attempt"], after["budget_from"]) == (2, 2)
    assert after["stac_item_id"] == f"item-{wal_id}"
    assert scene.attempts(wal_id)[1]["closed_at"] == after["updated_at"]


@pytest.mark.conformance("SM-4.4b")
def test_failure_writes_code_and_redacted_message(backend: Backend) -> None:
    """Status, both error fields without secrets, stamp, version; counts and identity stay."""
    scene = Scene(backend)
    claim = scene.claim()
    before = scene.row(claim.wal_id)
    message = "GET https://b.example/k?X-Amz-Signature=abc123secret by ann@example.org failed"
    scene.commit(failure(claim, "access_denied", message))
    after = scene.row(claim.wal_id)
    moved = {"status", "updated_at", "version", "last_error_code", "last_error_message"}
    assert changed(before, after) == moved | {"retry_after"}
    assert (after["status"], after["last_error_code"]) == ("failed", "access_denied")
    [attempt] = scene.attempts(claim.wal_id)
    for text in (after["last_error_message"], attempt["error_message"]):
        assert "failed" in text
        assert "abc123secret" not in text
        assert "ann@example.org" not in text
    assert (attempt["status"], attempt["error_code"]) == ("failed", "access_denied")
    assert attempt["closed_version"] == after["version"] == 3


@pytest.mark.conformance("SM-4.4a", "WAL-7.5", "C-11")
@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_a_worker_that_lost_its_lease_writes_nothing(backend: Backend, outcome: str) -> None:
    """After its fence, neither success nor failure of what it held gets into any table."""
    scene = Scene(backend)
    zombie = scene.worker
    claim = scene.claim()
    scene.crash()
    before = scene.tables()
    report = success(claim) if outcome == "success" else failure(claim)
    with pytest.raises(WorkerFenced):
        scene.commit(report, worker=zombie)
    assert scene.tables() == before
    # Nor through a live worker: the attempt is not that one's.
    assert scene.commit(report).lost == (claim.wal_id,)
    assert scene.tables() == before


@pytest.mark.conformance("SM-4.4a", "WAL-7.5")
def test_a_fenced_worker_loses_its_whole_batch(backend: Backend) -> None:
    """It is refused even for units that it has not yet lost: nothing of a batch stays."""
    scene = Scene(backend)
    claims = [r.claim for r in scene.announce(*units(3)) if r.claim]
    backend.sql("UPDATE workers SET fenced_at = ?", "2026-01-01T00:00:00.000000Z")
    before = scene.tables()
    with pytest.raises(WorkerFenced):
        scene.commit(*[success(claim) for claim in claims])
    with pytest.raises(WorkerFenced):
        scene.announce(*units(3, first=5))
    assert scene.tables() == before


@pytest.mark.conformance("SM-4.4a")
def test_a_lost_claim_is_reported_and_its_neighbours_are_written(backend: Backend) -> None:
    """Of a batch, what the worker still holds is committed; the rest is named as lost."""
    scene = Scene(backend)
    other = scene.register()
    mine, theirs = scene.claim(0), scene.claim(1, other)
    before = scene.row(theirs.wal_id), scene.attempts(theirs.wal_id)
    result = scene.commit(success(mine), success(theirs))
    assert result.lost == (theirs.wal_id,)
    assert verdicts(result) == {mine.wal_id: Verdict.SUCCEEDED}
    assert (scene.row(theirs.wal_id), scene.attempts(theirs.wal_id)) == before
    assert scene.row(mine.wal_id)["status"] == "succeeded"


@pytest.mark.conformance("SM-4.4a")
def test_a_claim_with_a_wrong_number_is_lost(backend: Backend) -> None:
    """The attempt number is the fencing token: another number closes nothing."""
    scene = Scene(backend)
    claim = scene.claim()
    before = scene.tables()
    forged = dataclasses.replace(claim, attempt_no=2)
    assert scene.commit(success(forged)).lost == (claim.wal_id,)
    assert scene.tables() == before


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"stac_status": StacStatus.FAILED}, "invalid_input"),
        ({"provenance_status": ProvenanceStatus.UNKNOWN}, "invalid_input"),
        ({"integrity_status": CheckStatus.FAILED}, "invalid_input"),
        ({"metadata_status": CheckStatus.UNKNOWN}, "invalid_input"),
        ({"error_code": "no such code"}, "unknown_code"),
        ({"error_code": "refused"}, "unknown_code"),
        ({"evidence": b"x" * 8193}, "invalid_input"),
        ({"stac_item_id": None}, "data_refused"),
    ],
    ids=["stac", "provenance", "integrity", "metadata", "text", "command", "evidence", "item"],
)
@pytest.mark.conformance("WAL-4.3", "WAL-5.3", "SM-9.2")
def test_a_batch_with_one_bad_outcome_writes_nothing(
    backend: Backend, bad: dict[str, object], code: str
) -> None:
    """A false success, a foreign code or too much evidence refuses its neighbours too."""
    scene = Scene(backend)
    claims = [r.claim for r in scene.announce(*units(3)) if r.claim]
    before = scene.tables()
    reports = [success(claims[0]), success(claims[1], **bad), success(claims[2])]
    with pytest.raises(TallgrassError) as caught:
        scene.commit(*reports)
    assert caught.value.code == code
    assert scene.tables() == before


@pytest.mark.conformance("WAL-4.3", "C-15", "SM-4.3a")
def test_partial_and_suspect_count_unless_the_rules_say_no(backend: Backend) -> None:
    """By default they make a success; where policy forbids them the report is refused."""
    lenient = Scene(backend)
    soft = {
        "integrity_status": CheckStatus.SUSPECT,
        "metadata_status": CheckStatus.SUSPECT,
        "provenance_status": ProvenanceStatus.PARTIAL,
    }
    claim = lenient.claim()
    lenient.commit(success(claim, **soft))
    assert lenient.row(claim.wal_id)["provenance_status"] == "partial"
    strict = Scene(
        backend, LedgerRules(backoff=NO_BACKOFF, allow_partial=False, allow_suspect=False)
    )
    held = strict.claim(1)
    for name, value in soft.items():
        with pytest.raises(InvalidInput):
            strict.commit(success(held, **{name: value}))
    assert strict.row(held.wal_id)["status"] == "in_progress"


@pytest.mark.conformance("C-05")
def test_a_governance_rejection_takes_two_edges_at_once(backend: Backend) -> None:
    """in_progress → failed → quarantined: two versions, one instant, both in history."""
    scene = Scene(backend)
    claim = scene.claim()
    result = scene.commit(failure(claim, "governance_hard_fail"))
    assert verdicts(result) == {claim.wal_id: Verdict.QUARANTINED}
    row = scene.row(claim.wal_id)
    assert (row["status"], row["version"]) == ("quarantined", 4)
    assert row["last_error_code"] == "governance_hard_fail"
    edges = backend.sql(
        "SELECT version, from_status, to_status, reason, occurred_at FROM wal_history"
        " WHERE version > 2 ORDER BY version"
    )
    assert [edge[:4] for edge in edges] == [
        (3, "in_progress", "failed", "governance_hard_fail"),
        (4, "failed", "quarantined", "governance_hard_fail"),
    ]
    assert edges[0][4] == edges[1][4] == row["updated_at"]
    assert scene.audit(claim.wal_id) == [("w", "quarantine", "governance_hard_fail")]


@pytest.mark.parametrize("code", ["handed_back", "not_ready"])
@pytest.mark.conformance("C-11", "SM-4.5c")
def test_a_unit_given_back_is_due_again(backend: Backend, code: str) -> None:
    """in_progress → failed → pending in one transaction; the code stays for whoever looks."""
    scene = Scene(backend)
    claim = scene.claim()
    assert verdicts(scene.commit(failure(claim, code))) == {claim.wal_id: Verdict.RETRY}
    row = scene.row(claim.wal_id)
    assert (row["status"], row["version"], row["last_error_code"]) == ("pending", 4, code)
    assert row["due_at"] is not None
    assert scene.history(claim.wal_id)[2:] == [
        (3, "in_progress", "failed"),
        (4, "failed", "pending"),
    ]
    kind = {"handed_back": "hand_back", "not_ready": "not_yet"}[code]
    assert backend.sql("SELECT kind, actor, reason FROM wal_transitions") == [(kind, "w", code)]
    assert [c.wal_id for c in scene.due()] == [claim.wal_id]


@pytest.mark.conformance("C-09")
def test_the_last_attempt_quarantines_at_commit(backend: Backend) -> None:
    """A retried code at the limit: failed → quarantined at once, with the code kept."""
    scene = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    wal_id = scene.fail()
    assert scene.row(wal_id)["status"] == "failed"
    result = scene.commit(failure(scene.claim(0), "missing_object"))
    assert verdicts(result) == {wal_id: Verdict.QUARANTINED}
    row = scene.row(wal_id)
    assert (row["status"], row["attempts"]) == ("quarantined", 2)
    assert row["last_error_code"] == "missing_object"
    last = backend.sql("SELECT kind, from_status, reason FROM wal_transitions ORDER BY 1")
    assert ("quarantine", "failed", "attempts_exhausted") in last
    assert scene.audit(wal_id) == [("w", "quarantine", "attempts_exhausted")]


@pytest.mark.parametrize(
    ("sqs_message_id", "code", "due"),
    [("m-1", "io_error", False), (None, "io_error", True), (None, "size_zero", False)],
)
def test_who_retries_a_failure(
    backend: Backend, sqs_message_id: str | None, code: str, *, due: bool
) -> None:
    """A message comes back by itself; without one the ledger retries, if the code is retried."""
    scene = Scene(backend)
    event = dataclasses.replace(unit(0).event, sqs_message_id=sqs_message_id)
    wal_id = scene.fail(0, code, event=event)
    row = scene.row(wal_id)
    assert (row["status"], row["due_at"] is not None) == ("failed", due)
    assert [claim.wal_id for claim in scene.due()] == ([wal_id] if due else [])


def test_a_report_on_another_unit_is_refused(backend: Backend) -> None:
    """A claim paired with the outcome of its neighbour writes nothing of either."""
    scene = Scene(backend)
    first, second = (r.claim for r in scene.announce(*units(2)))
    assert first is not None
    assert second is not None
    before = scene.tables()
    with pytest.raises(InvalidInput):
        scene.commit((first, success(second)[1]), (second, success(first)[1]))
    assert scene.tables() == before

"""Re-running a succeeded unit: its status never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import StacStatus
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit, verdicts

if TYPE_CHECKING:
    from tests.support.backends import Backend


def sequencer(number: int) -> str:
    """Return the number-th sequencer, in order."""
    return f"{0x0055AED6DCD90281E6 + number:018X}"


@pytest.mark.conformance("C-07", "C-03", "RP-3.5", "SM-3.3")
def test_an_overwritten_object_is_a_new_attempt_of_the_same_unit(backend: Backend) -> None:
    """Status stays succeeded, version grows by one a write, attempts equal attempt rows."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    before = scene.row(wal_id)
    claim = scene.claim(overwritten(0))
    held = scene.row(wal_id)
    assert changed(before, held) == {
        "attempts", "last_attempt_at", "updated_at", "version", "rerun_intent",
    }  # fmt: skip
    assert (held["status"], held["version"]) == ("succeeded", before["version"] + 1)
    scene.commit(success(claim, stac_status=StacStatus.UPDATED, item_sha256="c" * 64))
    after = scene.row(wal_id)
    assert (after["status"], after["version"]) == ("succeeded", before["version"] + 2)
    assert (after["stac_status"], after["applied_attempt"]) == ("updated", 2)
    assert (after["rerun_intent"], after["budget_from"]) == (None, 2)
    attempts = scene.attempts(wal_id)
    assert after["attempts"] == len(attempts) == 2
    assert [(a["intent"], a["status"]) for a in attempts] == [
        ("ingest", "applied"),
        ("reingest", "applied"),
    ]
    assert {edge[2] for edge in scene.history(wal_id)[2:]} == {"succeeded"}


@pytest.mark.conformance("C-07")
def test_a_failing_re_run_keeps_the_item_and_shows_stale(backend: Backend) -> None:
    """Item, operator statuses and status stay; the error makes it stale, and it is due again."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    claim = scene.claim(overwritten(0))
    before = scene.row(wal_id)
    result = scene.commit(failure(claim, "missing_object"))
    assert verdicts(result) == {wal_id: Verdict.FAILED}
    after = scene.row(wal_id)
    assert changed(before, after) == {
        "updated_at", "version", "last_error_code", "last_error_message", "due_at", "retry_after",
    }  # fmt: skip
    assert scene.stores.reader.record(wal_id).stale
    assert scene.stores.reader.stats().stale == {"goes-glm": 1}
    [again] = scene.due()
    assert again.intent == "reingest"
    assert again.unit.object_ref == overwritten(0).object_ref
    scene.commit(success(again))
    assert not scene.stores.reader.record(wal_id).stale


@pytest.mark.conformance("C-07", "C-09")
@pytest.mark.parametrize("ending", ["reports", "crashes"])
def test_a_re_run_stops_at_its_limit_without_quarantine(backend: Backend, ending: str) -> None:
    """At the limit it is no longer due; the unit stays succeeded and stale."""
    scene = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    wal_id = scene.succeed()
    claims = [scene.claim(overwritten(0))]
    while claims:
        if ending == "reports":
            scene.commit(*[failure(claim) for claim in claims])
        else:
            scene.crash()
        claims = scene.due()
    row = scene.row(wal_id)
    assert (row["status"], row["attempts"], row["due_at"]) == ("succeeded", 3, None)
    assert scene.stores.reader.record(wal_id).stale
    assert scene.due() == []
    newer = scene.announce(overwritten(0, sequencer(5)))[0]
    assert newer.decision.resets_budget


def test_a_re_run_with_a_code_that_is_not_retried_waits_for_a_person(backend: Backend) -> None:
    """It is stale and not due; only a newer object or a replay brings it on."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    scene.commit(failure(scene.claim(overwritten(0)), "stac_validation_failed"))
    assert scene.row(wal_id)["due_at"] is None
    assert scene.due() == []
    assert scene.announce(overwritten(0))[0].decision.action is Action.DUPLICATE


@pytest.mark.conformance("C-07")
def test_overwriting_a_unit_often_never_quarantines_it(
    backend: Backend, *, full_counts: bool
) -> None:
    """Each newer object starts a new budget: any number of overwrites ends succeeded."""
    count = 1000 if full_counts else 200
    scene = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    wal_id = scene.succeed()
    for number in range(1, count + 1):
        claim = scene.claim(overwritten(0, sequencer(number)))
        fails = number % 3 == 0
        scene.commit(failure(claim) if fails else success(claim))
    row = scene.row(wal_id)
    assert (row["status"], row["attempts"]) == ("succeeded", count + 1)
    assert row["version"] == 3 + 2 * count
    assert backend.sql("SELECT count(*) FROM wal_attempts") == [(count + 1,)]
    assert backend.sql("SELECT count(*) FROM wal_transitions") == [(0,)]


@pytest.mark.conformance("C-03")
def test_a_dataset_may_keep_its_first_version(backend: Backend) -> None:
    """Where the rules do not re-ingest, a newer object of a finished unit changes nothing."""
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, reingest=False))
    scene.succeed()
    before = scene.tables()
    [receipt] = scene.announce(overwritten(0))
    assert (receipt.decision.action, receipt.claim) == (Action.NOT_REINGESTED, None)
    assert scene.tables() == before


@pytest.mark.conformance("C-03")
def test_the_etag_as_read_is_what_a_later_event_is_compared_with(backend: Backend) -> None:
    """Without sequencers, an event that tells the etag which was read brings no new attempt."""
    scene = Scene(backend)
    claim = scene.claim(unit(0, object_ref=ObjectReference(etag="announced")))
    scene.commit(success(claim, read_etag="as-read"))
    [same] = scene.announce(unit(0, object_ref=ObjectReference(etag="as-read")))
    assert same.decision.action is Action.DUPLICATE
    [other] = scene.announce(unit(0, object_ref=ObjectReference(etag="third")))
    assert (other.decision.action, other.decision.intent) == (Action.CLAIM, "reingest")

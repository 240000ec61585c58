"""Creation and claim: what is written, and by whom it may be taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.ledger.receipt import Action
from tests.contract.scene import STATUSES, Scene, changed
from tests.support.backends import ManualClock
from tests.support.builders import failure, overwritten, success, unit, units
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.mark.conformance("WAL-5.1", "SM-4.1b", "WAL-4.1", "C-12")
def test_a_new_record_is_pending_without_attempts(backend: Backend) -> None:
    """Its two stamps are one instant, it has version 1, and nobody has attempted it."""
    scene = Scene(backend)
    row = scene.row(scene.park())
    assert row["status"] == "pending"
    assert row["attempts"] == 0
    assert row["version"] == 1
    assert row["created_at"] == row["updated_at"]
    assert row["last_attempt_at"] is None
    assert row["replay_reason"] == "none"
    assert backend.sql("SELECT count(*) FROM wal_attempts") == [(0,)]


@pytest.mark.conformance("WAL-5.1", "WAL-5.2")
def test_a_first_delivery_leaves_both_edges_in_history(backend: Backend) -> None:
    """Recorded, then claimed: null → pending → in_progress, one row and one open attempt."""
    scene = Scene(backend)
    wal_id = scene.claim().wal_id
    assert scene.history(wal_id) == [(1, None, "pending"), (2, "pending", "in_progress")]
    assert [row["status"] for row in scene.attempts(wal_id)] == ["pending"]


@pytest.mark.conformance("SM-4.2b", "WAL-5.2", "C-04")
def test_a_claim_sets_its_five_fields_in_one_write(backend: Backend) -> None:
    """Status, attempts, last_attempt_at, updated_at and version move together, no more."""
    scene = Scene(backend)
    wal_id = scene.park()
    before = scene.row(wal_id)
    [claim] = scene.due()
    after = scene.row(wal_id)
    five = {"status", "attempts", "last_attempt_at", "updated_at", "version"}
    assert changed(before, after) == five | {"due_at", "next_object"}
    assert (after["status"], after["attempts"], after["version"]) == ("in_progress", 1, 2)
    assert after["last_attempt_at"] == after["updated_at"]
    [attempt] = scene.attempts(wal_id)
    assert attempt["claimed_at"] == after["updated_at"]
    assert (attempt["attempt_no"], attempt["claimed_version"]) == (1, 2)
    assert (claim.attempt_no, claim.version) == (1, 2)


@pytest.mark.conformance("SM-2.1", "SM-4.2a", "WAL-4.1")
def test_only_idle_units_are_claimed_when_due(backend: Backend) -> None:
    """New and reset units are handed out, each once; all others never."""
    scene = Scene(backend)
    ids = {status: scene.at(status, number) for number, status in enumerate(STATUSES)}
    reset = scene.fail(8)
    version = scene.row(reset)["version"]
    put_back(scene.stores, [(reset, version)])
    others = {name: scene.row(ids[name]) for name in STATUSES if name != "pending"}
    assert {claim.wal_id for claim in scene.due()} == {ids["pending"], reset}
    assert scene.due() == []
    assert {name: scene.row(ids[name]) for name in others} == others


@pytest.mark.conformance("SM-4.2a", "SM-2.2b", "WAL-7.5")
@pytest.mark.parametrize("status", ["in_progress", "succeeded", "quarantined"])
def test_a_unit_that_is_not_idle_is_not_claimed(backend: Backend, status: str) -> None:
    """Neither its message nor the schedule claims it; row and attempts stay as they are."""
    scene = Scene(backend)
    wal_id = scene.at(status)
    before = scene.row(wal_id), scene.attempts(wal_id)
    other = scene.register("other")
    [receipt] = scene.announce(unit(0), worker=other)
    assert receipt.claim is None
    assert scene.due(worker=other) == []
    assert (scene.row(wal_id), scene.attempts(wal_id)) == before


@pytest.mark.conformance("SM-5.2a")
def test_each_receipt_reads_the_record_anew(backend: Backend) -> None:
    """The same process answers by what others wrote meanwhile, never by what it saw before."""
    first, second = Scene(backend), Scene(backend)
    claim = first.claim()
    assert second.announce(unit(0))[0].decision.action is Action.WAIT
    first.commit(failure(claim))
    retried = second.announce(unit(0))[0]
    assert retried.decision.action is Action.CLAIM
    assert first.announce(unit(0))[0].decision.action is Action.WAIT
    assert retried.claim is not None
    second.commit(success(retried.claim))
    assert first.announce(unit(0))[0].decision.action is Action.DUPLICATE
    assert first.row(claim.wal_id)["attempts"] == 2


def test_a_unit_twice_in_a_batch_is_taken_once(backend: Backend) -> None:
    """Both receipts carry the one claim, which is on the newest object."""
    scene = Scene(backend)
    first, second, third = scene.announce(unit(0), overwritten(0), unit(0))
    assert second.claim is not None
    assert second.claim.unit.object_ref.sequencer == "0055AED6DCD90281E6"
    for older in (first, third):
        assert older.claim is None
        assert older.decision.action is Action.IGNORE_OLDER
    twins = scene.announce(unit(1), unit(1))
    assert twins[0].claim == twins[1].claim is not None
    assert backend.sql("SELECT count(*) FROM wal_records") == [(2,)]
    assert backend.sql("SELECT count(*) FROM wal_attempts") == [(2,)]


def test_an_empty_batch_writes_nothing(backend: Backend) -> None:
    """No unit, no outcome, nothing due: no rows and no error."""
    scene = Scene(backend)
    assert scene.announce() == []
    assert scene.due() == []
    assert scene.commit().closed == {}
    assert backend.sql("SELECT count(*) FROM wal_records") == [(0,)]


@pytest.mark.conformance("WAL-3.13", "C-13")
def test_two_processes_of_one_name_are_told_apart(backend: Backend) -> None:
    """They share worker_id; the incarnation of the attempt says which of them holds the unit."""
    scene = Scene(backend)
    other = scene.register("w")
    claim = scene.claim(0, scene.worker)
    scene.claim(1, other)
    rows = backend.sql("SELECT worker_id, worker_incarnation FROM wal_attempts ORDER BY wal_id")
    assert [row[0] for row in rows] == ["w", "w"]
    assert {row[1] for row in rows} == {scene.worker.incarnation, other.incarnation}
    assert scene.commit(success(claim), worker=other).lost == (claim.wal_id,)
    assert scene.commit(success(claim)).lost == ()


def test_a_batch_with_an_undeclared_extension_writes_nothing(backend: Backend) -> None:
    """One unit with a field that its dataset did not declare refuses the whole batch."""
    scene = Scene(backend)
    with pytest.raises(InvalidInput, match="ext_orbit"):
        scene.announce(unit(0), unit(1, extensions={"ext_orbit": 1}))
    assert backend.sql("SELECT count(*) FROM wal_records") == [(0,)]


def test_due_units_are_handed_out_up_to_the_limit(backend: Backend) -> None:
    """The longest due come first, and a batch is never larger than asked for."""
    clock = ManualClock()
    scene = Scene(backend, clock=clock)
    for number in (3, 1, 4, 0, 2):
        scene.park(number)
        clock.advance(1)
    expected = [unit(number).wal_id for number in (3, 1, 4, 0, 2)]
    assert {claim.wal_id for claim in scene.due(2)} == set(expected[:2])
    assert {claim.wal_id for claim in scene.due(2)} == set(expected[2:4])
    assert [claim.wal_id for claim in scene.due(2)] == expected[4:]


def test_a_message_of_a_due_unit_is_claimed_with_the_message(backend: Backend) -> None:
    """A parked unit whose message arrives is claimed with the event of that message."""
    scene = Scene(backend)
    wal_id = scene.park()
    [receipt] = scene.announce(unit(0))
    assert receipt.claim is not None
    assert receipt.claim.has_message
    assert scene.attempts(wal_id)[0]["sqs_message_id"] == "sqs-0"
    assert scene.due() == []


@pytest.mark.conformance("WAL-3.6", "C-02", "C-04")
def test_attempts_are_claims_and_nothing_else(backend: Backend) -> None:
    """Messages, recoveries, replays and refusals leave `attempts` alone; each claim adds one."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.announce(unit(0, object_ref=overwritten(0).object_ref))
    scene.announce(unit(0))
    scene.crash()
    [claim] = scene.due()
    scene.commit(failure(claim, "stac_validation_failed"))
    version = scene.row(wal_id)["version"]
    put_back(scene.stores, [(wal_id, version)], codes=["stac_validation_failed"])
    assert scene.row(wal_id)["attempts"] == len(scene.attempts(wal_id)) == 3


def test_five_hundred_units_are_one_batch(backend: Backend) -> None:
    """A large batch is recorded, claimed and committed whole, in the order given."""
    scene = Scene(backend)
    batch = units(500)[::-1]
    receipts = scene.announce(*batch)
    assert [receipt.unit.wal_id for receipt in receipts] == [item.wal_id for item in batch]
    scene.commit(*[success(r.claim) for r in receipts if r.claim])
    assert backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status") == [
        ("succeeded", 500)
    ]

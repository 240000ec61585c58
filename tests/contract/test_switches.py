"""Kill switches: what is not yet claimed is parked, what runs goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.receipt import Action
from tests.contract.scene import Scene
from tests.support.builders import failure, overwritten, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend


def test_new_units_are_parked_and_run_after_the_release(backend: Backend) -> None:
    """Recorded as pending and due, their messages may go; once it is off they are claimed."""
    scene = Scene(backend)
    scene.switch(is_on=True, dataset="goes-glm")
    off, running = scene.announce(unit(0), unit(0, dataset="mrms"))
    assert (off.decision.action, off.claim) == (Action.PARK, None)
    assert running.claim is not None
    assert scene.row(off.unit.wal_id)["due_at"] is not None
    assert scene.due() == []
    scene.switch(is_on=False, dataset="goes-glm")
    [claim] = scene.due()
    assert claim.wal_id == off.unit.wal_id
    assert claim.unit.object_ref == unit(0).object_ref
    assert not claim.has_message


def test_a_freeze_stops_all_datasets(backend: Backend) -> None:
    """`*` parks whatever arrives and hands out nothing that is due."""
    scene = Scene(backend)
    scene.park(0)
    scene.switch(is_on=True)
    receipts = scene.announce(unit(1), unit(2, dataset="mrms"))
    assert {receipt.decision.action for receipt in receipts} == {Action.PARK}
    assert scene.due() == []
    scene.switch(is_on=False)
    assert len(scene.due()) == 3


def test_whether_something_is_due_is_told_without_taking_it(backend: Backend) -> None:
    """Told as a claim would find it: not what a switch holds, and nothing once it is claimed."""
    scene = Scene(backend)
    told: list[bool] = []

    def look() -> None:
        told.append(scene.ledger.has_due())

    look()
    scene.park(0)
    look()
    for dataset in ("goes-glm", "*"):
        scene.switch(is_on=True, dataset=dataset)
        look()
        scene.switch(is_on=False, dataset=dataset)
    scene.switch(is_on=True, dataset="mrms")
    look()
    assert told == [False, True, False, False, True]
    assert len(scene.due()) == 1
    assert not scene.ledger.has_due()


def test_what_is_in_progress_finishes(backend: Backend) -> None:
    """A switch that is turned on between claim and commit does not undo the work."""
    scene = Scene(backend)
    claim = scene.claim()
    scene.switch(is_on=True)
    assert scene.announce(unit(0))[0].decision.action is Action.WAIT
    scene.commit(success(claim))
    assert scene.row(claim.wal_id)["status"] == "succeeded"


@pytest.mark.conformance("SM-4.5c")
def test_a_failed_unit_is_parked_as_pending(backend: Backend) -> None:
    """It goes back with the switch as reason in the journal; error and attempts stay."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.switch(is_on=True)
    [receipt] = scene.announce(unit(0))
    assert receipt.decision.action is Action.PARK
    row = scene.row(wal_id)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    assert (row["last_error_code"], row["replay_reason"]) == ("io_error", "none")
    assert backend.sql("SELECT kind, actor, reason FROM wal_transitions") == [
        ("park", "w", "kill_switch")
    ]
    scene.switch(is_on=False)
    [claim] = scene.due()
    assert claim.unit.object_ref == unit(0).object_ref


def test_a_failed_unit_that_is_not_retried_stays_failed(backend: Backend) -> None:
    """A switch gives no new chance: its message goes to the dead letters as before."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "stac_validation_failed")
    before = scene.row(wal_id)
    scene.switch(is_on=True)
    assert scene.announce(unit(0))[0].decision.action is Action.LEAVE_FAILED
    assert scene.row(wal_id) == before


@pytest.mark.conformance("C-07", "C-03")
def test_a_newer_object_of_a_finished_unit_becomes_a_wish(backend: Backend) -> None:
    """It stays succeeded, with its re-run noted and due; after the release the new object runs."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    scene.switch(is_on=True)
    [receipt] = scene.announce(overwritten(0))
    assert receipt.decision.action is Action.PARK
    row = scene.row(wal_id)
    assert (row["status"], row["rerun_intent"]) == ("succeeded", "reingest")
    assert row["due_at"] is not None
    assert scene.announce(overwritten(0))[0].decision.action is Action.DUPLICATE
    assert scene.announce(unit(0))[0].decision.action is Action.IGNORE_OLDER
    scene.switch(is_on=False)
    [claim] = scene.due()
    assert (claim.intent, claim.unit.object_ref) == ("reingest", overwritten(0).object_ref)


def test_a_parked_unit_takes_the_newest_object(backend: Backend) -> None:
    """Of several announcements while it is parked, the newest object is the one that runs."""
    scene = Scene(backend)
    scene.switch(is_on=True)
    for sequencer in ("0055AED6DCD90281E7", "0055AED6DCD90281E9", "0055AED6DCD90281E8"):
        scene.announce(overwritten(0, sequencer))
    scene.switch(is_on=False)
    [claim] = scene.due()
    assert claim.unit.object_ref.sequencer == "0055AED6DCD90281E9"


def test_a_parked_newer_object_starts_a_new_budget(backend: Backend) -> None:
    """Attempts on the older object do not count against the one that waits."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.commit(failure(scene.claim(0)))
    scene.switch(is_on=True)
    scene.announce(overwritten(0))
    row = scene.row(wal_id)
    assert (row["status"], row["budget_from"]) == ("pending", 2)


@pytest.mark.parametrize("scope", ["replay", "dispatch", "nodes"])
def test_other_scopes_do_not_stop_ingest(backend: Backend, scope: str) -> None:
    """A switch of another scope leaves new units alone."""
    scene = Scene(backend)
    scene.stores.switches.set(SwitchScope(scope), "*", is_on=True, actor="ann", reason="x")
    assert scene.announce(unit(0))[0].claim is not None


def test_a_switch_is_set_by_somebody_for_a_reason(backend: Backend) -> None:
    """Who, why and when are kept, each change is audited, an unnamed one refused."""
    scene = Scene(backend)
    scene.switch(is_on=True, dataset="mrms")
    scene.switch(is_on=False, dataset="mrms")
    [switch] = scene.stores.switches.switches()
    assert (switch.dataset, switch.is_on, switch.actor) == ("mrms", False, "ann")
    assert scene.audit("ingest:mrms") == [
        ("ann", "switch_on", "test"),
        ("ann", "switch_off", "test"),
    ]
    for dataset, actor, reason in (("", "a", "r"), ("mrms", " ", "r"), ("mrms", "a", "")):
        with pytest.raises(InvalidInput):
            scene.stores.switches.set(
                SwitchScope.INGEST, dataset, is_on=True, actor=actor, reason=reason
            )
    assert not scene.stores.switches.switched_off(SwitchScope.INGEST).stops("mrms")

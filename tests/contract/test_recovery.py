"""Leases: who is fenced, what is freed, and what the journal tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import WorkerFenced
from tallgrass.ledger.receipt import Action
from tests.contract.scene import Scene
from tests.support.backends import ManualClock
from tests.support.builders import overwritten, success, unit, units

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.mark.conformance("SM-5.2b", "SM-2.2c", "C-11")
def test_a_lost_unit_goes_back_through_failed(backend: Backend) -> None:
    """in_progress → failed → pending in one transaction, due at once, attempt rolled back."""
    scene = Scene(backend)
    claim = scene.claim()
    assert scene.crash() == (claim.wal_id,)
    row = scene.row(claim.wal_id)
    assert (row["status"], row["version"], row["attempts"]) == ("pending", 4, 1)
    assert (row["last_error_code"], row["lease_expiries"]) == ("lease_expired", 1)
    assert row["due_at"] == row["updated_at"]
    [attempt] = scene.attempts(claim.wal_id)
    assert (attempt["status"], attempt["closed_version"]) == ("rolled_back", 3)
    assert scene.history(claim.wal_id)[2:] == [
        (3, "in_progress", "failed"),
        (4, "failed", "pending"),
    ]
    [again] = scene.due()
    assert (again.wal_id, again.attempt_no) == (claim.wal_id, 2)


@pytest.mark.conformance("SM-5.2c")
def test_each_recovery_is_in_the_journal(backend: Backend) -> None:
    """One row a unit with actor, reason, old and new version, and one entry of the audit log."""
    scene = Scene(backend)
    claims = [r.claim for r in scene.announce(*units(3)) if r.claim]
    scene.crash()
    edges = backend.sql(
        "SELECT wal_id, kind, actor, reason, from_version, to_version FROM wal_transitions"
        " ORDER BY wal_id"
    )
    assert edges == [
        (wal_id, "recovery", "recovery", "lease_expired", 3, 4)
        for wal_id in sorted(claim.wal_id for claim in claims)
    ]
    assert scene.audit("3 units") == [("recovery", "recover_units", "lease_expired")]


@pytest.mark.conformance("SM-5.2b", "WAL-7.5")
def test_a_fresh_lease_is_not_stolen(backend: Backend) -> None:
    """While the holder's lease runs, neither recovery nor a message takes its unit."""
    scene = Scene(backend)
    claim = scene.claim()
    other = scene.register("other")
    before = scene.tables()
    assert scene.stores.leases.recover().units == ()
    [receipt] = scene.announce(unit(0), worker=other)
    assert (receipt.decision.action, receipt.claim) == (Action.WAIT, None)
    assert 1 <= receipt.decision.wait_s <= 60
    assert scene.tables() == before
    assert scene.commit(success(claim)).lost == ()


@pytest.mark.conformance("SM-5.2b")
@pytest.mark.parametrize("late_s", [-1, 0, 1])
def test_the_boundary_is_the_end_of_the_lease(backend: Backend, late_s: int) -> None:
    """One second before its end a lease holds; at its end and later it is lost."""
    clock = ManualClock()
    scene = Scene(backend, clock=clock)
    claim = scene.claim()
    other = scene.register("other", lease_s=3600)
    if backend.name == "sqlite":
        clock.advance(60 + late_s)
    else:
        # The server's clock cannot be moved: the lease is, with the same distance to now.
        backend.sql(
            "UPDATE workers SET expires_at = clock_timestamp() - make_interval(secs => ?)"
            " WHERE incarnation = ?",
            late_s * 30,
            scene.worker.incarnation,
        )
    [receipt] = scene.announce(unit(0), worker=other)
    lost = late_s >= 0
    assert receipt.decision.action is (Action.DUE if lost else Action.WAIT)
    assert scene.row(claim.wal_id)["status"] == ("pending" if lost else "in_progress")


@pytest.mark.conformance("SM-2.2c", "SM-5.2a", "SM-5.2b")
def test_a_message_recovers_its_unit_on_the_way(backend: Backend) -> None:
    """A redelivery that meets a lost holder fences it and leaves the unit to the schedule."""
    scene = Scene(backend)
    claim = scene.claim()
    other = scene.register("other")
    backend.expire(scene.worker)
    [receipt] = scene.announce(unit(0), worker=other)
    assert receipt.decision.action is Action.DUE
    with pytest.raises(WorkerFenced):
        scene.commit(success(claim))
    [again] = scene.due(worker=other)
    scene.commit(success(again), worker=other)
    assert scene.row(claim.wal_id)["status"] == "succeeded"


@pytest.mark.conformance("SM-5.2b")
def test_a_heartbeat_keeps_the_lease(backend: Backend) -> None:
    """A worker that renews is not fenced, however often the sweep runs."""
    clock = ManualClock()
    scene = Scene(backend, clock=clock)
    scene.claim()
    for _ in range(5):
        clock.advance(40)
        backend_before = backend.sql("SELECT expires_at FROM workers")
        scene.stores.leases.renew(scene.worker)
        assert backend.sql("SELECT expires_at FROM workers") > backend_before
        assert scene.stores.leases.recover().workers == 0


def test_recovery_frees_one_worker_and_spares_the_others(backend: Backend) -> None:
    """Only the expired incarnation is fenced, though others bear the same name."""
    scene = Scene(backend)
    other = scene.register("w")
    mine, theirs = scene.claim(0), scene.claim(1, other)
    backend.expire(scene.worker)
    recovered = scene.stores.leases.recover()
    assert (recovered.workers, recovered.units) == (1, (mine.wal_id,))
    assert scene.commit(success(theirs), worker=other).lost == ()


def test_recovering_twice_changes_nothing_more(backend: Backend) -> None:
    """The second sweep finds nothing to do."""
    scene = Scene(backend)
    scene.claim()
    scene.crash()
    before = scene.tables()
    again = scene.stores.leases.recover()
    assert (again.workers, again.units) == (0, ())
    assert scene.tables() == before


@pytest.mark.conformance("C-07")
def test_a_lost_re_run_leaves_the_unit_succeeded_and_stale(backend: Backend) -> None:
    """Recovery goes by open attempts: the item stays, the re-run is due again."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    scene.claim(overwritten(0))
    item = scene.row(wal_id)["stac_item_id"]
    scene.crash()
    row = scene.row(wal_id)
    assert (row["status"], row["stac_item_id"]) == ("succeeded", item)
    assert (row["last_error_code"], row["rerun_intent"]) == ("lease_expired", "reingest")
    assert row["due_at"] is not None
    [again] = scene.due()
    assert again.unit.object_ref == overwritten(0).object_ref
    scene.commit(success(again))
    assert scene.row(wal_id)["last_error_code"] is None


@pytest.mark.conformance("C-11")
def test_a_worker_that_stops_hands_its_units_back(backend: Backend) -> None:
    """Its open attempts end as failed by `handed_back`, its units are due, it is no more."""
    scene = Scene(backend)
    first, rerun = scene.claim(0), scene.succeed(1)
    scene.claim(overwritten(1))
    stopped = scene.worker
    assert set(scene.stores.leases.stop(stopped)) == {first.wal_id, rerun}
    row = scene.row(first.wal_id)
    assert (row["status"], row["last_error_code"]) == ("pending", "handed_back")
    assert (row["lease_expiries"], row["version"]) == (0, 4)
    assert scene.row(rerun)["status"] == "succeeded"
    assert [a["status"] for a in scene.attempts(first.wal_id)] == ["failed"]
    assert backend.sql("SELECT kind, actor, reason FROM wal_transitions") == [
        ("hand_back", "w", "handed_back")
    ]
    with pytest.raises(WorkerFenced):
        scene.stores.leases.stop(stopped)
    assert scene.stores.leases.recover().workers == 0
    scene.worker = scene.register()
    assert {claim.wal_id for claim in scene.due()} == {first.wal_id, rerun}

"""What is given back unfinished, and what that costs: nothing, unless the unit itself is blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.rules import LedgerRules
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit, units

if TYPE_CHECKING:
    from tallgrass.ledger.claim import Claim
    from tests.support.backends import Backend

#: More often than any unit may be tried.
ROUNDS = 10
ALONE = "the connection to the store was lost while it had this unit alone"


def used(scene: Scene, wal_id: str) -> int:
    """Return how many attempts count against the unit's limit."""
    row = scene.row(wal_id)
    return int(row["attempts"] - row["budget_from"])


@pytest.mark.conformance("C-09", "C-11")
def test_stops_in_good_order_cost_nothing(backend: Backend) -> None:
    """However often its workers are asked to stop, a unit keeps its budget and its company."""
    scene = Scene(backend)
    held = sorted(r.claim.wal_id for r in scene.announce(*units(2)) if r.claim)
    for stops in range(1, ROUNDS + 1):
        scene.stores.leases.stop(scene.worker)
        assert [used(scene, wal_id) for wal_id in held] == [0, 0]
        assert [scene.row(wal_id)["attempts"] for wal_id in held] == [stops, stops]
        scene.worker = scene.register()
        assert sorted(claim.wal_id for claim in scene.due()) == held
    scene.stores.leases.hand_back(scene.worker)
    scene.commit(*(success(claim) for claim in scene.due()))
    assert {scene.row(wal_id)["status"] for wal_id in held} == {"succeeded"}


@pytest.mark.conformance("C-09")
@pytest.mark.parametrize("number", [1, 3])
def test_a_store_that_is_locked_or_full_costs_nothing(backend: Backend, number: int) -> None:
    """Alone or with others, more often than its limit: the unit is due, and nobody holds it."""
    scene = Scene(backend)
    claims = [receipt.claim for receipt in scene.announce(*units(number)) if receipt.claim]
    for _ in range(ROUNDS * number):
        scene.stores.leases.hand_back(scene.worker)
        claims = scene.due()
        assert claims
    for item in units(number):
        row = scene.row(item.wal_id)
        assert (used(scene, item.wal_id), row["status"]) in {(0, "pending"), (1, "in_progress")}
        assert row["attempts"] > ROUNDS - 2
    scene.stores.leases.hand_back(scene.worker)
    while claims := scene.due():
        scene.commit(*(success(claim) for claim in claims))
    assert backend.sql("SELECT status, count(*) FROM wal_records GROUP BY 1") == [
        ("succeeded", number)
    ]


@pytest.mark.conformance("C-09")
def test_a_batch_that_loses_the_store_costs_nothing(backend: Backend) -> None:
    """Nobody knows which of them it was, or whether it was any."""
    scene = Scene(backend)
    held = sorted(r.claim.wal_id for r in scene.announce(*units(2)) if r.claim)
    scene.stores.leases.hand_back(scene.worker, store_lost=True)
    for wal_id in held:
        row = scene.row(wal_id)
        assert (row["status"], row["lease_expiries"], used(scene, wal_id)) == ("pending", 1, 0)
        assert row["last_error_message"] != ALONE


@pytest.mark.conformance("C-09")
def test_a_unit_that_loses_the_store_alone_has_used_an_attempt(backend: Backend) -> None:
    """Its attempt says so, and at its limit it is held."""
    scene = Scene(backend, LedgerRules(max_attempts=3, backoff=NO_BACKOFF))
    wal_id = scene.claim().wal_id
    for lost in range(1, 4):
        assert scene.stores.leases.hand_back(scene.worker, store_lost=True) == (wal_id,)
        assert used(scene, wal_id) == lost
        assert scene.attempts(wal_id)[-1]["error_message"] == ALONE
        assert len(scene.due()) == (lost < 3)
    row = scene.row(wal_id)
    assert (row["status"], row["last_error_code"]) == ("quarantined", "handed_back")


def test_what_came_before_still_counts(backend: Backend) -> None:
    """A hand-back gives no new budget: failures of its own stay counted."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.fail()
    scene.claim()
    scene.stores.leases.hand_back(scene.worker)
    assert (scene.row(wal_id)["attempts"], used(scene, wal_id)) == (3, 2)


@pytest.mark.conformance("C-07", "C-09")
@pytest.mark.parametrize(
    ("verb", "spent", "suspected"),
    [("stop", 0, 0), ("locked", 0, 1), ("lost", 1, 1), ("reported", 0, 0)],
)
def test_a_re_run_is_given_back_alike(
    backend: Backend, verb: str, spent: int, suspected: int
) -> None:
    """The unit stays succeeded, its re-run is due again, and costs as much as a first run."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    claim = scene.claim(overwritten(0))
    match verb:
        case "stop":
            scene.stores.leases.stop(scene.worker)
        case "reported":
            scene.commit(failure(claim, "handed_back"))
        case _:
            scene.stores.leases.hand_back(scene.worker, store_lost=verb == "lost")
    row = scene.row(wal_id)
    assert (row["status"], row["lease_expiries"], used(scene, wal_id)) == (
        "succeeded", suspected, spent,
    )  # fmt: skip
    assert row["due_at"] is not None


@pytest.mark.conformance("C-09")
def test_an_attempt_that_is_reported_as_given_back_costs_nothing(backend: Backend) -> None:
    """Even the last one: the unit is due at once and not held."""
    scene = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    wal_id = scene.fail()
    for _ in range(ROUNDS):
        scene.commit(failure(scene.claim(), "handed_back"))
        assert (scene.row(wal_id)["status"], used(scene, wal_id)) == ("pending", 1)
    scene.fail()
    assert scene.row(wal_id)["status"] == "quarantined"


def work(scene: Scene, claims: list[Claim], killer: str) -> None:
    """Commit a batch, unless the killer is in it: then the server goes down, and not the worker."""
    if any(claim.wal_id == killer for claim in claims):
        scene.stores.leases.hand_back(scene.worker, store_lost=True)
    else:
        scene.commit(*[success(claim) for claim in claims])


@pytest.mark.conformance("C-09")
def test_one_that_brings_the_server_down_among_five_hundred(backend: Backend) -> None:
    """It is found as one that kills its worker is: alone it uses up its budget, and is held."""
    scene = Scene(backend)
    killer = unit(250).wal_id
    work(scene, [r.claim for r in scene.announce(*units(500)) if r.claim], killer)
    sizes = []
    while claims := scene.due(500):
        if any(claim.wal_id == killer for claim in claims):
            sizes.append(len(claims))
        work(scene, claims, killer)
    statuses = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status ORDER BY 1")
    assert statuses == [("quarantined", 1), ("succeeded", 499)]
    assert sizes == [16, *[1] * 8]
    row = scene.row(killer)
    assert (row["attempts"], used(scene, killer), row["last_error_code"]) == (10, 8, "handed_back")
    # Its neighbours of the first two batches were given back with it, at no cost.
    others = backend.sql(
        "SELECT attempts, count(*) FROM wal_records WHERE status = 'succeeded'"
        " GROUP BY 1 ORDER BY 1"
    )
    assert others == [(2, 484), (3, 15)]

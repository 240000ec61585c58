"""A unit that kills its worker is found, and harms no neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.receipt import Action
from tests.contract.scene import Scene
from tests.support.builders import failure, overwritten, success, unit, units

if TYPE_CHECKING:
    from tallgrass.ledger.claim import Claim
    from tests.support.backends import Backend


def work(scene: Scene, claims: list[Claim], killer: str) -> None:
    """Commit a batch, unless the killer is in it: then the worker is gone."""
    if any(claim.wal_id == killer for claim in claims):
        scene.crash()
    else:
        scene.commit(*[success(claim) for claim in claims])


@pytest.mark.conformance("C-09", "SM-2.2c")
def test_one_killer_among_five_hundred(backend: Backend) -> None:
    """It ends quarantined after its attempts; the 499 others succeed; company shrinks to one."""
    scene = Scene(backend)
    killer = unit(250).wal_id
    work(scene, [r.claim for r in scene.announce(*units(500)) if r.claim], killer)
    sizes = []
    while claims := scene.due(500):
        sizes.append((len(claims), any(claim.wal_id == killer for claim in claims)))
        work(scene, claims, killer)
    statuses = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status ORDER BY 1")
    assert statuses == [("quarantined", 1), ("succeeded", 499)]
    row = scene.row(killer)
    assert (row["status"], row["attempts"], row["last_error_code"]) == (
        "quarantined",
        8,
        "lease_expired",
    )
    assert max(size for size, _ in sizes) == 16
    assert [size for size, with_killer in sizes if with_killer] == [16, 1, 1, 1, 1, 1, 1]
    # The killer's neighbours of the first two batches were lost with it; nobody else was.
    lost = backend.sql("SELECT attempts, count(*) FROM wal_records GROUP BY attempts ORDER BY 1")
    assert lost == [(2, 484), (3, 15), (8, 1)]


def test_a_message_does_not_break_the_isolation(backend: Backend) -> None:
    """A suspect unit is left to the schedule, also when its object was overwritten."""
    scene = Scene(backend)
    wal_id = scene.claim(0).wal_id
    scene.crash()
    same, newer = scene.announce(unit(0))[0], scene.announce(overwritten(0))[0]
    assert (same.decision.action, same.claim) == (Action.DUE, None)
    assert newer.claim is None
    [claim] = scene.due()
    assert (claim.wal_id, claim.unit.object_ref) == (wal_id, overwritten(0).object_ref)


@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_a_report_ends_the_isolation(backend: Backend, outcome: str) -> None:
    """A unit that brought its worker home is under no suspicion any more."""
    scene = Scene(backend)
    wal_id = scene.claim(0).wal_id
    scene.crash()
    [claim] = scene.due()
    assert scene.row(wal_id)["lease_expiries"] == 1
    scene.commit(success(claim) if outcome == "success" else failure(claim))
    assert scene.row(wal_id)["lease_expiries"] == 0


def test_suspects_are_not_mixed_with_others(backend: Backend) -> None:
    """Units under suspicion are claimed apart from those that are not."""
    scene = Scene(backend)
    scene.announce(*units(3))
    scene.crash()
    parked = scene.park(10)
    first, second = scene.due(), scene.due()
    batches = [{claim.wal_id for claim in batch} for batch in (first, second)]
    assert {parked} in batches
    assert {item.wal_id for item in units(3)} in batches

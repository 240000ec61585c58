"""Workers that die: kill -9 between any two steps, and a unit that kills whoever works on it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.builders import success, units
from tests.support.processes import Child

if TYPE_CHECKING:
    from tests.support.backends import Backend

COUNT = 5
#: Where a worker may die, and what the dead one leaves of five units.
STEPS = {
    "registered": [],
    "inside_claim": [],
    "claimed": [("in_progress", 1, 2, COUNT)],
    "inside_commit": [("in_progress", 1, 2, COUNT)],
    "committed": [("succeeded", 1, 3, COUNT)],
}


def standing(backend: Backend) -> list[tuple[object, ...]]:
    """Return how many units stand where: status, attempts, version, count."""
    return backend.sql(
        "SELECT status, attempts, version, count(*) FROM wal_records"
        " GROUP BY status, attempts, version ORDER BY status, attempts, version"
    )


def expire(backend: Backend, incarnation: str) -> None:
    """Let a dead worker's lease end without waiting for it."""
    backend.sql(
        "UPDATE workers SET expires_at = ? WHERE incarnation = ?",
        "2000-01-01T00:00:00.000000Z",
        incarnation,
    )


def finish(backend: Backend, *, due: int) -> None:
    """Let another worker take what is due without a message, then the same announcement."""
    stores = backend.open()
    worker = stores.leases.register("second", ingest_run_id="run", lease_s=60)
    assert len(stores.leases.recover().units) == due
    claims = list(stores.ledger.claim_due(worker, COUNT))
    assert len(claims) == due
    receipts = stores.ledger.record_and_claim(worker, units(COUNT))
    claims += [receipt.claim for receipt in receipts if receipt.claim]
    result = stores.ledger.commit(worker, [success(claim) for claim in claims])
    assert not result.lost


def assert_invariants(backend: Backend) -> None:
    """What must hold after any history, asked in raw SQL."""
    broken = {
        "open attempts other than one for each unit in progress": (
            "SELECT r.wal_id FROM wal_records AS r WHERE r.status <> 'succeeded' AND"
            " (r.status = 'in_progress') <> EXISTS (SELECT 1 FROM wal_attempts AS a"
            " WHERE a.wal_id = r.wal_id AND a.status = 'pending')"
        ),
        "attempts that were not counted": (
            "SELECT wal_id FROM wal_records AS r WHERE attempts <>"
            " (SELECT count(*) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id)"
        ),
        "successes other than one applied attempt": (
            "SELECT wal_id FROM wal_records AS r WHERE"
            " (CASE WHEN status = 'succeeded' THEN 1 ELSE 0 END) <>"
            " (SELECT count(*) FROM wal_attempts AS a"
            " WHERE a.wal_id = r.wal_id AND a.status = 'applied')"
        ),
        "histories with a gap": (
            "SELECT r.wal_id FROM wal_records AS r WHERE r.version <>"
            " (SELECT count(DISTINCT h.version) FROM wal_history AS h WHERE h.wal_id = r.wal_id)"
        ),
    }
    found = {name: backend.sql(statement) for name, statement in broken.items()}
    assert found == {name: [] for name in broken}


@pytest.mark.conformance("SM-2.2c", "SM-6.3")
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_killed_at_any_step_is_replaced(backend: Backend, step: str) -> None:
    """After kill -9 at any step nothing is half-written, and another worker finishes each unit."""
    with Child(
        "step_by_step",
        name=backend.name,
        url=backend.url,
        count=COUNT,
        pause_at=[step],
        worker_id="first",
        lease_s=60,
    ) as child:
        incarnation = child.hear()["incarnation"]
        assert child.hear()["step"] == step
        child.kill()
    assert standing(backend) == STEPS[step]
    assert_invariants(backend)
    expire(backend, incarnation)
    attempts = 2 if step in {"claimed", "inside_commit"} else 1
    finish(backend, due=COUNT if attempts == 2 else 0)
    # Lost to recovery: recorded 1, claimed 2, failed 3, pending 4, claimed 5, succeeded 6.
    version = 6 if attempts == 2 else 3
    assert standing(backend) == [("succeeded", attempts, version, COUNT)]
    assert_invariants(backend)


@pytest.mark.slow
@pytest.mark.conformance("SM-2.2c")
def test_a_unit_that_kills_its_worker_stops_at_the_limit(backend: Backend) -> None:
    """One killer among its mates ends quarantined after exactly its limit; all mates succeed."""
    count = 500 if backend.name == "sqlite" else 100
    killer, limit, deaths, code = 77, 4, 0, -signal.SIGKILL
    while code == -signal.SIGKILL and deaths <= limit:
        with Child(
            "meets_killer",
            name=backend.name,
            url=backend.url,
            count=count,
            killer=killer,
            max_attempts=limit,
        ) as child:
            incarnation = child.hear()["incarnation"]
            code = child.end()
        deaths += code == -signal.SIGKILL
        expire(backend, incarnation)
        assert_invariants(backend)
    assert (code, deaths) == (0, limit)
    ends = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status ORDER BY status")
    assert ends == [("quarantined", 1), ("succeeded", count - 1)]
    held = backend.sql("SELECT object_uri, attempts FROM wal_records WHERE status = 'quarantined'")
    assert held == [("s3://noaa-goes19/goes-glm/000077.nc", limit)]
    # Its mates lose their worker twice at most: once in the batch, once in small company.
    assert backend.sql("SELECT max(attempts) FROM wal_records WHERE status = 'succeeded'") == [(3,)]

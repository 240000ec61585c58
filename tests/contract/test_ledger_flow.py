"""The ordinary way of a unit through the ledger, on each database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.builders import success, units

if TYPE_CHECKING:
    from tests.support.backends import Backend


def test_a_batch_is_recorded_claimed_and_committed(backend: Backend) -> None:
    """Five new units end `succeeded`, each with one applied attempt and version 3."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, units(5))]
    result = stores.ledger.commit(worker, [success(c) for c in claims if c])
    assert len(result.closed) == 5
    assert not result.lost
    rows = backend.sql("SELECT status, attempts, version FROM wal_records")
    assert rows == [("succeeded", 1, 3)] * 5

"""Workers that stand still past their lease and come back, and workers that share a name."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.clock import parse_instant, system_clock
from tests.support.backends import ManualClock, prepare
from tests.support.builders import success, unit, units
from tests.support.processes import Child

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from tallgrass.bootstrap.stores import Stores
    from tests.plugins.postgres import Databases
    from tests.support.backends import Backend


def start(backend: Backend, pause_at: str, url: str = "", **changes: Any) -> Child:
    """Start a worker of five units that pauses at one step."""
    values = {"count": 5, "worker_id": "w", "lease_s": 1, **changes}
    return Child(
        "step_by_step", name=backend.name, url=url or backend.url, pause_at=[pause_at], **values
    )


def finish_for(backend: Backend, incarnation: str) -> Stores:
    """Recover the stopped worker's units and finish them; its lease has really run out."""
    stores = backend.open()
    [(text,)] = backend.sql("SELECT expires_at FROM workers WHERE incarnation = ?", incarnation)
    # One sleep to the lease's end, which is at most a second away.
    time.sleep(max(0.0, (parse_instant(text) - system_clock()).total_seconds()) + 0.01)
    assert len(stores.leases.recover().units) == 5
    worker = stores.leases.register("second", ingest_run_id="run", lease_s=60)
    result = stores.ledger.commit(
        worker, [success(claim) for claim in stores.ledger.claim_due(worker, 5)]
    )
    assert len(result.closed) == 5
    return stores


def whole_state(backend: Backend) -> list[list[tuple[object, ...]]]:
    """Return all rows that a worker may write."""
    tables = ("wal_records", "wal_attempts", "wal_transitions", "workers")
    return [sorted(backend.sql(f"SELECT * FROM {table}"), key=str) for table in tables]


@pytest.mark.conformance("SM-2.2c", "SM-5.2b", "WAL-7.5")
def test_a_worker_stopped_past_its_lease_can_write_nothing(backend: Backend) -> None:
    """SIGSTOP past the lease, another finishes, SIGCONT: the late commit is refused whole."""
    with start(backend, "claimed") as child:
        incarnation = child.hear()["incarnation"]
        child.hear()
        child.stop()
        finish_for(backend, incarnation)
        before = whole_state(backend)
        child.resume()
        child.go_on()
        assert child.hear() == {"error": "worker_fenced"}
    assert whole_state(backend) == before
    applied = backend.sql(
        "SELECT attempt_no, worker_id, count(*) FROM wal_attempts WHERE status = 'applied'"
        " GROUP BY attempt_no, worker_id"
    )
    assert applied == [(2, "second", 5)]


def test_a_worker_stopped_inside_a_transaction_blocks_nobody_for_ever(
    postgres_backend: Backend,
) -> None:
    """The server ends a transaction whose client stands still; the client then finds itself out."""
    backend = postgres_backend
    url = f"{backend.url}&options=-c%20idle_in_transaction_session_timeout%3D1s"
    with start(backend, "inside_commit", url) as child:
        incarnation = child.hear()["incarnation"]
        child.hear()
        child.stop()
        # Waits for the row that the stopped transaction holds.
        backend.sql("SELECT 1 FROM workers WHERE incarnation = ? FOR UPDATE", incarnation)
        finish_for(backend, incarnation)
        before = whole_state(backend)
        child.resume()
        child.go_on()
        assert child.hear() == {"error": "worker_fenced"}
    assert whole_state(backend) == before


@pytest.fixture
def postgres_backend(postgres_databases: Databases) -> Iterator[Backend]:
    """A migrated database on PostgreSQL alone."""
    made = prepare("postgres", postgres_databases.create())
    yield made
    made.close()
    postgres_databases.drop(made.url)


@pytest.mark.conformance("SM-5.2b")
@pytest.mark.parametrize(("seconds", "recovered"), [(59, 0), (60, 1), (61, 1)])
def test_a_live_lease_is_left_alone_and_an_ended_one_is_recovered(
    sqlite_file: Backend, seconds: int, recovered: int
) -> None:
    """A lease of 60 s is safe a second before its end, and lost from its end on."""
    clock = ManualClock()
    stores = sqlite_file.open(clock=clock)
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    claim = stores.ledger.record_and_claim(worker, [unit()])[0].claim
    assert claim
    clock.advance(seconds)
    found = stores.leases.recover()
    assert (found.workers, len(found.units)) == (recovered, recovered)
    status = sqlite_file.sql("SELECT status FROM wal_records")
    assert status == [("pending",)] if recovered else [("in_progress",)]


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Iterator[Backend]:
    """A migrated SQLite file: its leases follow the clock that is passed in."""
    made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    yield made
    made.close()


@pytest.mark.conformance("SM-5.2b")
def test_the_servers_clock_judges_a_lease(postgres_backend: Backend) -> None:
    """On PostgreSQL a lease that the server's clock has not passed is never recovered."""
    stores = postgres_backend.open(clock=lambda: system_clock() + timedelta(days=1))
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)
    stores.ledger.record_and_claim(worker, units(3))
    assert stores.leases.recover().units == ()
    postgres_backend.sql("UPDATE workers SET expires_at = clock_timestamp()")
    assert len(stores.leases.recover().units) == 3


@pytest.mark.conformance("C-13")
def test_two_processes_with_one_name_are_told_apart(backend: Backend) -> None:
    """Of two processes named alike the one that lost its lease is refused, the other goes on."""
    with start(backend, "claimed", lease_s=60) as old:
        lost = old.hear()["incarnation"]
        old.hear()
        backend.sql("UPDATE workers SET expires_at = ?", "2000-01-01T00:00:00.000000Z")
        with start(backend, "claimed", lease_s=60) as new:
            kept = new.hear()["incarnation"]
            new.hear()
            assert kept != lost
            old.go_on()
            assert old.hear() == {"error": "worker_fenced"}
            new.go_on()
            # The five units were recovered, and units that lost a worker come by the schedule.
            assert new.hear() == {"applied": 0, "lost": 0}
    names = backend.sql("SELECT worker_id, count(*) FROM workers GROUP BY worker_id")
    assert names == [("w", 2)]
    fenced = backend.sql("SELECT incarnation FROM workers WHERE fenced_at IS NOT NULL")
    assert fenced == [(lost,)]


@pytest.mark.conformance("C-13", "WAL-7.5")
def test_a_namesake_cannot_close_anothers_attempt(backend: Backend) -> None:
    """A worker that shares the holder's name commits the holder's claim: nothing is written."""
    stores = backend.open()
    holder = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    namesake = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    claim = stores.ledger.record_and_claim(holder, [unit()])[0].claim
    assert claim
    before = whole_state(backend)
    result = stores.ledger.commit(namesake, [success(claim)])
    assert (result.closed, result.lost) == ({}, (claim.wal_id,))
    assert whole_state(backend) == before
    assert len(stores.ledger.commit(holder, [success(claim)]).closed) == 1

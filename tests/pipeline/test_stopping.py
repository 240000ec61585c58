"""The end of a worker: in good order, hung, fenced; and how long a unit can be held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import DatabaseUnreachable, WorkerFenced
from tallgrass.heartbeat import Heartbeat
from tallgrass.ingest_loop import Until
from tests.pipeline.scene import VISIBILITY_S, Pipeline, assert_effects_follow_the_ledger, things
from tests.pipeline.watched import WatchedDatabase
from tests.support.backends import Backend, ManualClock, prepare
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

#: What is added to the visibility timeout before a unit in progress is overdue.
SAFETY_S = 60.0


def hold(pipeline: Pipeline) -> None:
    """Receive and claim a batch, and go no further."""
    batch = pipeline.worker.receive()
    pipeline.worker.parse(batch)
    pipeline.worker.record_and_claim(batch)


@pytest.mark.conformance("SM-4.4d")
def test_a_stop_in_good_order_hands_back(backend: Backend, tmp_path: Path) -> None:
    """What a stopped worker still held is due at once, by a code that blames no operator."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    hold(pipeline)
    pipeline.loop().run(Until.STOPPED, stop=lambda: True)
    assert backend.sql("SELECT status, attempts FROM wal_records") == [("pending", 1)] * 3
    columns = "integrity_status, metadata_status, stac_status, provenance_status"
    attempts = backend.sql(f"SELECT status, error_code, {columns} FROM wal_attempts")
    assert attempts == [("failed", "handed_back", *["unknown"] * 4)] * 3
    with pytest.raises(WorkerFenced):
        pipeline.worker.run_due()
    pipeline.new_worker()
    assert len(pipeline.worker.run_due().claims) == 3
    assert pipeline.statuses() == {"succeeded": 3}


@pytest.mark.parametrize("until", [Until.ONCE, Until.DRAINED])
def test_maintenance_is_done_now_and_then_and_at_the_end(
    backend: Backend, tmp_path: Path, until: Until
) -> None:
    """Rounds of 6 s: at the first one after each 30 s, and once more before the worker goes."""
    pipeline = Pipeline(backend, tmp_path, batch=1)
    pipeline.feed(*things(10))
    now, done = [0.0], list[float]()

    def look() -> float:
        return now[0]

    loop = pipeline.loop(monotonic=look, maintain=lambda: done.append(now[0]))
    for _ in loop.steps(until):
        now[0] += 1
    if until is Until.ONCE:
        assert done == [now[0]]
        return
    *between, last = done
    # Ten batches, with six steps between their seven phases.
    assert between == [30.0, 60.0]
    assert last == now[0]


def test_maintenance_that_fails_at_the_end_keeps_no_worker(
    backend: Backend, tmp_path: Path
) -> None:
    """The next worker does it; this one still hands back what it holds."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    hold(pipeline)

    def fail() -> None:
        raise DatabaseUnreachable("gone")

    pipeline.loop(maintain=fail).run(Until.STOPPED, stop=lambda: True)
    assert backend.sql("SELECT status FROM wal_records") == [("pending",)] * 3


@pytest.mark.conformance("SM-4.4d")
def test_a_lost_worker_is_told_from_a_failed_operator(backend: Backend, tmp_path: Path) -> None:
    """A lease that ended fails the attempt as lease_expired, with no status of an operator."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(2))
    hold(pipeline)
    pipeline.replace_worker()
    columns = "integrity_status, metadata_status, stac_status, provenance_status"
    attempts = backend.sql(f"SELECT error_code, {columns} FROM wal_attempts")
    assert attempts == [("lease_expired", *["unknown"] * 4)] * 2
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 2}


@pytest.mark.conformance("WAL-4.2", "SM-2.2a")
def test_no_unit_is_in_progress_beyond_its_bound(tmp_path: Path) -> None:
    """While one worker hangs the loop of another frees its units within the bound."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    clock = ManualClock()
    stores = backend.open(clock=clock, catalogue=default_catalogue())
    pipeline = Pipeline(backend, tmp_path, stores=stores)
    pipeline.feed(*things(4))
    hold(pipeline)
    began = clock.instant
    pipeline.new_worker()
    freed: list[float] = []

    def rest(_: float) -> None:
        clock.advance(1)
        stores.leases.renew(pipeline.lease)
        if not freed and "in_progress" not in pipeline.statuses():
            freed.append(passed())

    def passed() -> float:
        return (clock.instant - began).total_seconds()

    loop = pipeline.loop(sleep=rest, monotonic=passed)
    loop.run(Until.STOPPED, stop=lambda: passed() > VISIBILITY_S + SAFETY_S)
    assert freed
    assert pipeline.lease.lease_s <= freed[0] <= 1.5 * pipeline.lease.lease_s + 2
    assert freed[0] <= VISIBILITY_S + SAFETY_S
    assert pipeline.statuses() == {"succeeded": 4}
    backend.close()


def test_the_heartbeat_stops_when_the_loop_hangs() -> None:
    """Renewal goes on while the loop reports progress, and ends when it does not."""
    now, renewed = [0.0], []
    heartbeat = Heartbeat(
        lambda: renewed.append(now[0]), interval_s=20, deadline_s=100, monotonic=lambda: now[0]
    )
    for now[0] in (20.0, 100.0):
        heartbeat.beat()
    now[0] = 101.0
    heartbeat.beat()
    assert renewed == [20.0, 100.0]
    heartbeat.progress()
    now[0] = 150.0
    heartbeat.beat()
    assert renewed == [20.0, 100.0, 150.0]


def test_a_hung_loop_loses_its_units(backend: Backend, tmp_path: Path) -> None:
    """Without beats the lease ends, others take over, and the heartbeat then tells of the loss."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(2))
    hold(pipeline)
    lease, now = pipeline.lease, [0.0]
    beat = Heartbeat(
        lambda: pipeline.stores.leases.renew(lease),
        interval_s=20,
        deadline_s=100,
        monotonic=lambda: now[0],
    )
    beat.beat()
    assert not beat.lost.is_set()
    pipeline.replace_worker()
    now[0] = 101.0
    beat.beat()
    assert not beat.lost.is_set()
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 2}
    beat.progress()
    beat.beat()
    assert beat.lost.is_set()


def test_a_fence_that_the_heartbeat_sees_first_is_told(backend: Backend, tmp_path: Path) -> None:
    """The loop ends by the heartbeat's word; that the worker was fenced is logged and raised."""
    pipeline = Pipeline(backend, tmp_path)
    lease = pipeline.lease
    beat = Heartbeat(lambda: pipeline.stores.leases.renew(lease), interval_s=20, deadline_s=100)
    backend.expire(lease)
    pipeline.stores.leases.recover()
    beat.beat()
    recorder = MemoryRecorder()
    loop = pipeline.loop(recorder=recorder)
    with pytest.raises(WorkerFenced):
        loop.run(Until.STOPPED, stop=beat.lost.is_set)
    assert loop.report.rounds == 0
    told = {"worker_id": lease.worker_id, "ingest_run_id": lease.ingest_run_id}
    assert recorder.events == [("worker_fenced", told)]


@pytest.mark.conformance("SM-7.3a")
def test_the_loop_waits_for_a_store_that_is_down(backend: Backend, tmp_path: Path) -> None:
    """A store that fails in the middle of rounds is waited for; then all is finished."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(4))
    failures = ["insert_attempts", "close_attempts", "insert_items", "insert_events"]

    def down(name: str) -> None:
        if failures and name == failures[0]:
            failures.pop(0)
            raise DatabaseUnreachable("told to be down")

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, down)
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        pipeline.clock.advance(VISIBILITY_S + 1)

    pipeline.loop(sleep=rest).run(Until.DRAINED)
    assert failures == []
    assert len(rests) == 4
    assert pipeline.statuses() == {"succeeded": 4}
    assert pipeline.left() == (0, 0, 0)
    assert_effects_follow_the_ledger(backend)

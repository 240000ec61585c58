"""A process that ends anywhere leaves nothing half-done, and a re-run ends as a single run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.workers import open_reader
from tallgrass.datasets.catalogue import default_catalogue
from tests.pipeline.scene import (
    Pipeline,
    Thing,
    assert_effects_follow_the_ledger,
    message_of,
    stored,
    thing,
    things,
)
from tests.pipeline.watched import CrashAt, Crashed, Watched, WatchedDatabase
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.worker import Worker
    from tests.support.backends import Backend

#: Units of one crash point; their numbers are its own.
UNITS = 8


def overwrite(pipeline: Pipeline, first: int) -> list[Thing]:
    """Ingest one unit, then write its object again; return what is still to be announced."""
    old = thing(first)
    pipeline.feed(old)
    pipeline.drain()
    return [thing(first, version=2), *things(UNITS - 1, first + 1)]


def announce(pipeline: Pipeline, given: list[Thing]) -> None:
    """Announce all: two in one message, and two of them twice."""
    pipeline.put(*given)
    pipeline.queue.send([message_of(given[0].event(), given[1].event())])
    pipeline.announce(*given[2:], *given[1:3])


def watched_worker(pipeline: Pipeline, crash: CrashAt) -> Worker:
    """Return a worker of the pipeline's lease that ends where `crash` says."""
    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, crash)
    reader = open_reader(pipeline.config, default_catalogue())
    queue = Watched(pipeline.queue, crash, "receive", "delete", "change_visibility")
    return pipeline.start(pipeline.lease, queue=queue, reader=Watched(reader, crash, "read"))


def run_until_crash(pipeline: Pipeline, crash: CrashAt) -> bool:
    """Work until the crash; tell whether it came."""
    worker = watched_worker(pipeline, crash)
    try:
        for _ in range(6):
            worker.run_messages(lambda: crash("between phases"))
            worker.run_due(lambda: crash("between phases"))
    except Crashed:
        return True
    finally:
        pipeline.stores.runner.database = pipeline.stores.database
    return False


def crash_everywhere(backend: Backend, folder: Path, points: int) -> tuple[set[str], Backend]:
    """Crash one run at each of so many random steps; return where, and a ledger that never did."""
    reference = prepare("sqlite", f"sqlite:///{folder / 'reference.db'}")
    (folder / "reference").mkdir()
    single = Pipeline(reference, folder / "reference", batch=4)
    pipeline = Pipeline(backend, folder, batch=4)
    announce(pipeline, given := overwrite(pipeline, 0))
    run_until_crash(pipeline, steps := CrashAt())
    pipeline.drain()
    announce(single, overwrite(single, 0))
    single.drain()
    # The last rounds of the count find nothing: crash where there is work.
    chance, ended = random.Random(7), set()
    for point in range(1, points + 1):
        given = overwrite(pipeline, point * UNITS)
        announce(pipeline, given)
        crash = CrashAt(chance.randrange(steps.steps * 2 // 3))
        assert run_until_crash(pipeline, crash), (crash.at, steps.steps)
        ended.add(crash.name)
        assert_effects_follow_the_ledger(backend)
        pipeline.replace_worker()
        pipeline.drain()
        announce(single, overwrite(single, point * UNITS))
        single.drain()
    return ended, reference


def assert_single_run(backend: Backend, reference: Backend, points: int) -> None:
    """Compare everything that is stored with what one run without a crash stores."""
    assert_effects_follow_the_ledger(backend)
    once = stored(reference)
    assert len(once["items"]) == (points + 1) * UNITS
    assert len(once["provenance"]) == (points + 1) * (UNITS + 1)
    assert stored(backend) == once
    assert backend.sql("SELECT count(*) FROM wal_attempts WHERE status = 'pending'") == [(0,)]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.conformance("WAL-1.2", "WAL-6.9", "WAL-6.10", "WAL-7.3", "RP-3.1")
def test_after_a_crash_at_any_step_a_rerun_ends_as_a_single_run(
    backend: Backend,
    tmp_path: Path,
    full_counts: bool,  # noqa: FBT001 - a fixture
) -> None:
    """Items, lineage, events and records are the sets of one run, wherever the process ended."""
    points = 1000 if full_counts else 100 if backend.name == "sqlite" else 30
    ended, reference = crash_everywhere(backend, tmp_path, points)
    # The premise: it ended inside both transactions, between phases and around the queue.
    assert ended >= {"begin", "commit", "committed", "between phases"}
    assert_single_run(backend, reference, points)
    reference.close()


@pytest.mark.conformance("WAL-6.9", "WAL-7.3", "C-16")
def test_a_few_crash_points(backend: Backend, tmp_path: Path) -> None:
    """The same with eight crash points."""
    _, reference = crash_everywhere(backend, tmp_path, 8)
    assert_single_run(backend, reference, 8)
    reference.close()

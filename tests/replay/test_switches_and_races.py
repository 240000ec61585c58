"""A replay beside people who turn switches and workers who ingest the same units."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.replay.run import RunState
from tests.pipeline.scene import thing, things
from tests.replay.scene import DOWN, Replays, Unreadable
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def attempts_by_dataset(replays: Replays) -> dict[str, int]:
    """Count attempts of replays by dataset."""
    return dict(
        replays.backend.sql(
            "SELECT r.dataset, count(*) FROM wal_attempts AS a JOIN wal_records AS r"
            " ON r.wal_id = a.wal_id WHERE a.replay_run_id IS NOT NULL GROUP BY r.dataset"
        )
    )


@pytest.mark.conformance("WAL-8.7", "C-49")
def test_a_switch_turned_under_way_stops_its_dataset_alone(
    backend: Backend, tmp_path: Path
) -> None:
    """No unit of it starts after the flip, others go on, and the run is taken up again."""
    replays = Replays(backend, tmp_path, replay__batch=3)
    failed = replays.failed(*things(9))
    flipped: list[dict[str, int]] = []

    def progress(_report: Any) -> None:
        if not flipped and replays.count("replay_run_records"):
            replays.switch(is_on=True, dataset="hrrr")
            flipped.append(attempts_by_dataset(replays))

    report = replays.run(replays.select(failed), options=RunOptions(progress=progress))
    assert report.state is RunState.PAUSED
    after = attempts_by_dataset(replays)
    assert after.get("hrrr", 0) == flipped[0].get("hrrr", 0) < 3
    assert (after["goes-glm"], after["nexrad-l2"]) == (3, 3)
    assert (report.done, report.held) == (6 + after.get("hrrr", 0), 3 - after.get("hrrr", 0))
    still = replays.run(replay_run_id=report.replay_run_id)
    assert (still.state, still.held) == (RunState.PAUSED, report.held)
    replays.switch(is_on=False, dataset="hrrr")
    done = replays.run(replay_run_id=report.replay_run_id)
    assert (done.state, done.done, done.planned) == (RunState.FINISHED, 9, 9)


@pytest.mark.conformance("WAL-8.7", "C-49")
def test_what_is_due_already_waits_for_the_switch(backend: Backend, tmp_path: Path) -> None:
    """Put back before the flip and not claimed yet: no worker takes it, ingest goes on."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*things(3))
    run = replays.run(replays.select(failed), options=RunOptions(work=False))
    replays.switch(is_on=True)
    assert replays.pipeline.worker.run_due().is_empty
    replays.succeeded(thing(30))
    assert attempts_by_dataset(replays) == {}
    replays.switch(is_on=False)
    assert len(replays.pipeline.worker.run_due().claims) == 3
    assert replays.run(replay_run_id=run.replay_run_id).state is RunState.FINISHED


@pytest.mark.conformance("WAL-8.7")
def test_flipped_at_random_no_unit_starts_late(tmp_path: Path, *, full_counts: bool) -> None:
    """A switch that is turned before every batch, on or off: not one start after it was seen on."""
    flips = 200 if full_counts else 40
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    replays = Replays(backend, tmp_path, replay__batch=1)
    failed = replays.failed(*[thing(number) for number in range(flips)])
    chance, on, late, seen = random.Random(7), False, 0, 0

    def progress(_report: Any) -> None:
        nonlocal on, late, seen
        started = replays.count("wal_attempts WHERE replay_run_id IS NOT NULL")
        late += on and started > seen
        on = chance.random() < 0.5
        replays.switch(is_on=on)
        seen = started

    first = replays.run(replays.select(failed), options=RunOptions(progress=progress))
    assert late == 0
    replays.switch(is_on=False)
    last = replays.run(replay_run_id=first.replay_run_id)
    assert (last.state, last.done) == (RunState.FINISHED, flips)
    backend.close()


def test_a_unit_that_live_ingest_took_first_is_skipped(backend: Backend, tmp_path: Path) -> None:
    """Its message came again between plan and run: the version tells."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*things(2))
    path = replays.plan_file(replays.select(failed))
    replays.pipeline.announce(things(2)[0])
    replays.pipeline.worker.run_messages()
    report = replays.run(plan_file=path)
    assert (report.done, report.by_reason) == (1, {"moved": 1})
    assert backend.sql("SELECT DISTINCT attempts FROM wal_records") == [(2,)]


def test_a_unit_that_a_message_takes_after_it_was_put_back_is_the_runs(
    backend: Backend, tmp_path: Path
) -> None:
    """The replay was first: the attempt carries the run's id, and its row is closed by it."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(thing())
    run = replays.run(replays.select(failed), options=RunOptions(work=False))
    replays.pipeline.announce(thing())
    assert len(replays.pipeline.worker.run_messages().claims) == 1
    (row,) = replays.rows(run.replay_run_id)
    assert (row["outcome"], row["attempt_no"]) == ("done", 2)


def test_what_only_a_message_brings_back_is_no_longer_the_runs(
    backend: Backend, tmp_path: Path
) -> None:
    """A message took the unit, and it failed: the run is told, and has no part in what follows."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.failed(thing())
    run = replays.run(replays.select([wal_id]), options=RunOptions(work=False))
    replays.pipeline.announce(thing())
    replays.pipeline.start(reader=Unreadable()).run_messages()
    (row,) = replays.rows(run.replay_run_id)
    assert (row["outcome"], row["reason"], row["attempt_no"]) == ("failed", DOWN, 2)
    replays.pipeline.drain()
    attempts = replays.pipeline.attempts(thing())
    runs = [(each["status"], each["replay_run_id"]) for each in attempts]
    assert runs == [("failed", None), ("failed", run.replay_run_id), ("applied", None)]


@pytest.mark.conformance("WAL-7.2")
def test_replay_and_ingest_race_and_each_unit_is_run_once(backend: Backend, tmp_path: Path) -> None:
    """Both want the same sixty units at the same time: none runs twice, none is lost."""
    replays = Replays(backend, tmp_path, replay__batch=5)
    given = things(60)
    failed = replays.failed(*given)
    replays.pipeline.announce(*given)
    ingest = replays.opened()
    worker = replays.pipeline.start(replays.pipeline.register("live"), stores=ingest)
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            worker.run_messages()

    live = threading.Thread(target=work)
    live.start()
    try:
        report = replays.run(replays.select(failed))
    finally:
        ended.set()
        live.join()
        ingest.close()
    replays.pipeline.drain()
    assert report.planned == report.done + report.skipped + report.failed == 60
    assert set(report.by_reason) <= {"moved", "in_progress", "succeeded"}
    statuses = backend.sql("SELECT status, attempts, count(*) FROM wal_records GROUP BY 1, 2")
    assert statuses == [("succeeded", 2, 60)]
    applied = backend.sql("SELECT count(*) FROM wal_attempts WHERE status = 'applied'")
    assert applied == [(60,)]

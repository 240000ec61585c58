"""Drains into a queue of the run's own: it is made, worked off and removed when it is empty."""

from __future__ import annotations

from contextlib import closing

import pytest

from tallgrass.bootstrap.dead_letters import make_replay_queue, remove_replay_queue
from tallgrass.bootstrap.draining import DrainOptions
from tallgrass.bootstrap.queues import open_queue
from tallgrass.errors import GuardRefused
from tallgrass.queues.replay_queues import replay_queue_url
from tests.pipeline.scene import message_of, thing
from tests.replay.letters import Letters, kept_promises


@pytest.mark.conformance("RP-5.5", "RP-4.2e")
def test_a_run_may_have_a_queue_of_its_own(letters: Letters) -> None:
    """Made by the drain, worked off under the run's id, removed when it is empty and not before."""
    failed, new = thing(0), thing(1)
    letters.fail(failed)
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    report = letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    url = replay_queue_url(letters.config.text("queue.url"), run_id)
    assert (report.sent, letters.waiting(), letters.waiting(url)) == (2, 0, 2)
    assert remove_replay_queue(letters.config, run_id) is False
    assert letters.waiting(url) == 2
    assert letters.work(url, replay_run_id=run_id) == 2
    attempts = letters.backend.sql(
        "SELECT replay_run_id FROM wal_attempts WHERE status = 'applied'"
    )
    assert attempts == [(run_id,), (run_id,)]
    done = letters.report(plan)
    assert (done.units.planned, done.units.done) == (2, 2)
    assert remove_replay_queue(letters.config, run_id) is True
    assert not (letters.folder / f"queue-replay-{run_id}.db").exists()
    assert remove_replay_queue(letters.config, run_id) is None
    assert kept_promises(letters.backend) == []


def test_what_dies_in_the_queue_of_a_run_comes_home(letters: Letters) -> None:
    """An embedded queue of a run has dead letters of its own; they go to the main one's first."""
    letters.fail(thing(0))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    url = make_replay_queue(letters.config, run_id)
    letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    letters.in_queue(
        "INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)"
        " SELECT message_id, sent_at, sent_at, 1, body FROM messages",
        url,
    )
    letters.in_queue("DELETE FROM messages", url)
    assert remove_replay_queue(letters.config, run_id) is True
    assert len(letters.dead()) == 1
    assert [row.action.value for row in letters.plan().rows] == ["send"]


def test_the_queue_of_a_run_stays_while_units_wait_for_its_messages(letters: Letters) -> None:
    """Whatever a queue counts: the ledger knows what was sent, also of units new to it."""
    failed, new = thing(0), thing(1)
    letters.fail(failed)
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    url = replay_queue_url(letters.config.text("queue.url"), run_id)
    bodies = {failed: message_of(failed.event()), new: message_of(new.event())}
    letters.in_queue("DELETE FROM messages", url)  # the queue says that it is empty
    for unit, body in bodies.items():
        with letters.desk() as (desk, _), pytest.raises(GuardRefused, match="units wait") as told:
            desk.close(desk.find(run_id), by="otto")
        assert told.value.guard == "queue_not_empty"
        with closing(open_queue(letters.config, url=url)) as queue:
            queue.send([body])
        assert letters.work(url, replay_run_id=run_id) == 1, unit
    with letters.desk() as (desk, _):
        report, removed = desk.close(desk.find(run_id), by="otto")
    assert (report.units.done, removed) == (2, True)
    assert not (letters.folder / f"queue-replay-{run_id}.db").exists()

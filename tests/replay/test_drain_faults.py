"""Drains that are killed, stopped or met by others: no letter is ever lost."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import draining
from tallgrass.bootstrap.dead_letters import open_dead_letters
from tallgrass.bootstrap.draining import DrainOptions
from tallgrass.bootstrap.queues import open_queue
from tallgrass.errors import QueueUnreachable
from tallgrass.storage.drain_store import DrainStore
from tests.pipeline.scene import message_of, thing, things
from tests.replay.letters import Letters, kept_promises
from tests.replay.scene import Unreadable
from tests.replay.tampering import tamper

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.replay.dead_letter_plan import DrainPlan


class Broken(RuntimeError):
    """The process was killed here."""


def killed_at(step: str) -> Callable[[Any], Any]:
    """Return what kills the process before or after one of a drain's steps."""
    when, _, verb = step.partition("-")

    def breaking(opened: Any) -> Any:
        real = getattr(opened, verb)

        def call(*args: Any) -> Any:
            result = real(*args) if when == "after" else None
            raise Broken(step, result)

        setattr(opened, verb, call)
        return opened

    return breaking


@pytest.mark.conformance("RP-5.5")
@pytest.mark.parametrize(
    "step", ["before-send", "after-send", "before-delete", "after-delete", "before-removed"]
)
def test_a_drain_that_is_killed_loses_no_letter(
    letters: Letters, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed between any two steps, a message may be there twice, never not at all."""
    units = things(4)
    letters.fail(*units)
    plan = letters.plan()
    breaking = killed_at(step)
    with monkeypatch.context() as patched:
        if step.endswith("send"):
            patched.setattr(draining, "open_queue", lambda *a, **k: breaking(open_queue(*a, **k)))
        elif step.endswith("delete"):
            patched.setattr(
                draining, "open_dead_letters", lambda *a, **k: breaking(open_dead_letters(*a, **k))
            )
        else:
            patched.setattr(DrainStore, "removed", _broken)
        with pytest.raises(Broken):
            letters.drain(plan)
    # Whatever was begun: every unit has a letter or a message that leads to it.
    assert len(letters.dead()) + letters.waiting() >= 4
    assert {row["state"] for row in letters.letters(plan)} <= {"recorded", "sent"}
    free_letters(letters)

    report = letters.drain(plan)

    assert (report.planned, report.sent, report.left) == (4, 4, 0)
    assert letters.dead() == []
    assert letters.waiting() == (8 if step == "after-send" else 4)
    assert letters.work() == 4
    assert letters.statuses(*units) == ["succeeded"] * 4
    assert letters.report(plan).duplicates == 0
    assert kept_promises(letters.backend) == []


def _broken(*_: object) -> None:
    raise Broken


def free_letters(letters: Letters) -> None:
    """Let the hidden time of letters end that a killed drain held."""
    letters.in_queue("UPDATE dead_letters SET hidden_until = NULL, delivery_id = NULL")


def test_letters_that_a_drain_holds_are_not_another_ones(letters: Letters) -> None:
    """Two drains never hold the same letter; a letter that is given back can be taken again."""
    letters.fail(*things(3))
    one, other = open_dead_letters(letters.config), open_dead_letters(letters.config)
    with closing(one), closing(other):
        held = one.receive(2)
        rest = other.receive(5)
        assert len({m.message_id for m in (*held, *rest)}) == 3
        assert one.receive(5) == []
        assert other.delete([held[0].receipt.replace(".", ".x")]) == [
            held[0].receipt.replace(".", ".x")
        ]
        one.release([message.receipt for message in held])
        again = other.receive(5)
        assert {m.message_id for m in again} == {m.message_id for m in held}
        assert one.delete([held[0].receipt]) == [held[0].receipt]
        assert (one.status().visible, one.status().in_flight) == (0, 3)
        assert other.delete([message.receipt for message in again]) == []
    assert len(letters.dead()) == 1


@pytest.mark.conformance("C-20", "SM-5.3a")
def test_what_a_lost_worker_holds_is_recovered_first(letters: Letters) -> None:
    """A message dead of a crash has a record in work; a drain frees it, and lists what is left."""
    lost, fresh = thing(0), thing(1)
    pipeline = letters.pipeline
    for each, name in ((lost, "lost"), (fresh, "fresh")):
        pipeline.feed(each)
        lease = pipeline.register(name)
        worker = pipeline.start(lease)
        batch = worker.receive()
        worker.parse(batch)
        worker.record_and_claim(batch)
        if each is lost:
            letters.backend.expire(lease)
    letters.die()
    assert letters.statuses(lost, fresh) == ["in_progress", "in_progress"]
    plan = letters.plan()
    assert {(row.action.value, row.reason) for row in plan.rows} == {
        ("recover", "lease_expired"), ("leave", "in_progress"),
    }  # fmt: skip
    report = letters.drain(plan)
    assert (report.settled, report.left, report.by_reason) == (1, 1, {"in_progress": 1})
    # Freed: the ledger runs it by its own schedule, and needs no letter for that.
    assert letters.statuses(lost, fresh) == ["pending", "in_progress"]
    assert pipeline.row(lost)["due_at"] is not None
    (left,) = [row for row in letters.letters(plan) if row["state"] == "left"]
    assert [left["message_id"]] == [each["message_id"] for each in letters.dead()]


def test_a_stop_leaves_the_rest_as_it_is(letters: Letters) -> None:
    """Told to stop between batches, a drain gives back what it holds; the same plan goes on."""
    letters.fail(*things(4))
    plan = letters.plan()
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 2

    report = letters.drain(plan, options=DrainOptions(batch=1, stop=stop))
    assert (report.sent, report.by_reason) == (2, {"not_taken_up": 2})
    assert {letter["hidden_until"] for letter in letters.dead()} == {None}
    assert letters.drain(plan).sent == 4


def test_a_queue_that_fails_in_the_middle_loses_nothing(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that is refused leaves the letter recorded; the next call sends it."""
    letters.fail(thing(0))
    plan = letters.plan()

    def unreachable(opened: Any) -> Any:
        def send(_: object) -> None:
            raise QueueUnreachable("no answer")

        opened.send = send
        return opened

    with monkeypatch.context() as patched:
        patched.setattr(draining, "open_queue", lambda *a, **k: unreachable(open_queue(*a, **k)))
        with pytest.raises(QueueUnreachable):
            letters.drain(plan)
    assert [row["state"] for row in letters.letters(plan)] == ["recorded"]
    assert letters.report(plan).by_reason == {"not_confirmed": 1}
    # Given back by the call that failed, so that the next one finds it.
    report = letters.drain(plan)
    assert (report.sent, report.sent_again, letters.waiting()) == (1, 1, 1)


def test_a_worker_that_is_faster_than_the_confirmation_lets_a_drain_end(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent, killed, worked off, resumed: the letter is settled and removed, and the run is done."""
    letters.fail(thing(0))
    plan = letters.plan()
    breaking = killed_at("after-send")
    with monkeypatch.context() as patched:
        patched.setattr(draining, "open_queue", lambda *a, **k: breaking(open_queue(*a, **k)))
        with pytest.raises(Broken):
            letters.drain(plan)
    assert letters.work() == 1
    free_letters(letters)
    report = letters.drain(plan)
    assert (report.settled, report.left, report.unfinished, letters.dead()) == (1, 0, 0, [])
    assert [row["state"] for row in letters.letters(plan)] == ["removed"]


def begun_and_killed(letters: Letters, patching: pytest.MonkeyPatch) -> DrainPlan:
    """Plan a drain and kill it after it sent its letters, before it noted that."""
    plan = letters.plan()
    breaking = killed_at("after-send")
    with patching.context() as patched:
        patched.setattr(draining, "open_queue", lambda *a, **k: breaking(open_queue(*a, **k)))
        with pytest.raises(Broken):
            letters.drain(plan)
    free_letters(letters)
    return plan


@pytest.mark.conformance("RP-5.5")
@pytest.mark.parametrize("of_the_same_unit", [1, 2])
def test_a_drain_goes_on_though_the_ledger_retries_its_unit(
    letters: Letters, monkeypatch: pytest.MonkeyPatch, of_the_same_unit: int
) -> None:
    """Sent, killed, its worker lost, failed without a message: the ledger has it, and is let be."""
    unit, other = thing(0), thing(1)
    letters.config = replace(letters.config, rules=replace(letters.config.rules, max_attempts=8))
    letters.fail(unit, other)
    if of_the_same_unit > 1:
        letters.send(message_of(unit.event()))
    plan = begun_and_killed(letters, monkeypatch)
    with letters.desk() as (_, stores), closing(open_queue(letters.config)) as queue:
        lease = stores.leases.register("lost", ingest_run_id="x", lease_s=60)
        lost = letters.pipeline.start(lease, stores=stores, queue=queue)
        batch = lost.receive()
        lost.parse(batch)
        lost.record_and_claim(batch)
        letters.backend.expire(lease)
        stores.leases.recover()
        unlucky = stores.leases.register("unlucky", ingest_run_id="x", lease_s=60)
        letters.pipeline.start(unlucky, stores=stores, reader=Unreadable()).run_due()
    letters.in_queue("DELETE FROM messages")
    row = letters.pipeline.row(unit)
    assert (row["status"], row["replay_run_id"]) == ("failed", plan.header.replay_run_id)
    assert row["due_at"] is not None

    report = letters.drain(plan)

    assert (report.settled, report.left, letters.dead()) == (1 + of_the_same_unit, 0, [])
    assert {row["reason"] for row in letters.letters(plan)} == {"due"}
    assert (report.units.retrying, report.units.planned) == (2, 2)
    with letters.desk() as (_, stores):
        lease = stores.leases.register("lucky", ingest_run_id="x", lease_s=60)
        letters.pipeline.start(lease, stores=stores).run_due()
    assert letters.statuses(unit, other) == ["succeeded"] * 2
    assert letters.report(plan).units.done == 2
    assert kept_promises(letters.backend) == []


def test_a_unit_that_a_drain_puts_back_again_keeps_its_row(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that has a failed unit of the run, and does not retry it, stops no drain."""
    unit = thing(0)
    letters.fail(unit)
    plan = begun_and_killed(letters, monkeypatch)
    letters.in_queue("DELETE FROM messages")
    run_id = plan.header.replay_run_id
    changed = "UPDATE wal_records SET status = 'failed' WHERE replay_run_id = ?"
    tamper(letters.backend, changed, run_id)
    report = letters.drain(plan)
    assert (report.sent, report.left, report.units.planned) == (1, 0, 1)
    assert letters.work() == 1
    assert letters.report(plan).units.done == 1


def test_a_letter_that_comes_again_does_not_end_a_drain(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose hidden time ended is hidden for longer; what lies behind it is taken up."""
    letters.fail(*things(2))
    plan = letters.plan()
    letters.in_queue("UPDATE dead_letters SET body = CAST(body || ' ' AS BLOB) WHERE position = 1")
    hidden: list[float] = []

    def opened(*args: Any, **options: Any) -> Any:
        place: Any = open_dead_letters(*args, **options)
        receive, hide = place.receive, place.hide

        def receive_late(limit: int) -> Any:
            if not hidden:
                free_letters(letters)
            return receive(limit)

        def hide_told(seconds: dict[str, float]) -> None:
            hidden.extend(seconds.values())
            hide(seconds)

        place.receive, place.hide = receive_late, hide_told
        return place

    monkeypatch.setattr(draining, "open_dead_letters", opened)
    report = letters.drain(plan, options=DrainOptions(batch=1))
    assert (report.sent, report.by_reason) == (1, {"changed": 1})
    assert hidden == [2 * letters.config.number("queue.visibility_s")]
    assert [letter["hidden_until"] for letter in letters.dead()] == [None]


def test_a_letter_in_other_hands_is_not_reached(letters: Letters) -> None:
    """It is there, and is not told as missing; given back, the same plan takes it."""
    letters.fail(*things(2))
    plan = letters.plan()
    with closing(open_dead_letters(letters.config)) as other:
        held = other.receive(1)
        report = letters.drain(plan)
        other.release([message.receipt for message in held])
    assert (report.sent, report.by_reason) == (1, {"not_reached": 1})
    assert letters.drain(plan).sent == 2

"""Deliveries: duplicates, shared units, several workers, freezes, and each state of a unit."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.ingest_loop import Until
from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FeedFaults
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    message_of,
    thing,
    things,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

WORK = ("parse", "record_and_claim", "read_evidence", "operate", "commit", "acknowledge")


def to(worker: Any, phase: str, batch: Any) -> Any:
    """Take a received batch through the phases up to and including the named one."""
    for name in WORK[: WORK.index(phase) + 1]:
        getattr(worker, name)(batch)
    return batch


@pytest.mark.conformance("SM-5.0", "WAL-6.2")
def test_two_workers_on_the_same_message_do_the_work_once(backend: Backend, tmp_path: Path) -> None:
    """A message that comes again while it is worked on waits; when it is done it is let go."""
    pipeline = Pipeline(backend, tmp_path)
    second = pipeline.start(pipeline.register("second"))
    pipeline.feed(*things(3))
    first_batch = to(pipeline.worker, "operate", pipeline.worker.receive())
    pipeline.clock.advance(VISIBILITY_S + 1)
    again = second.run_messages()
    assert (again.claims, again.deleted, again.kept) == ([], 0, 3)
    pipeline.worker.commit(first_batch)
    # Its receipts are those of an older delivery: they delete nothing.
    pipeline.worker.acknowledge(first_batch)
    assert first_batch.deleted == 0
    pipeline.clock.advance(VISIBILITY_S + 1)
    once_more = second.run_messages()
    assert (once_more.claims, once_more.deleted) == ([], 3)
    assert pipeline.left() == (0, 0, 0)
    assert backend.sql("SELECT status, attempts FROM wal_records") == [("succeeded", 1)] * 3
    assert_effects_follow_the_ledger(backend)


def test_a_message_of_two_records_stays_until_both_are_done(
    backend: Backend, tmp_path: Path
) -> None:
    """If one of two units fails the message comes again, and the finished one is not run again."""
    pipeline = Pipeline(backend, tmp_path)
    good, late = thing(0), thing(1)
    pipeline.put(good)
    pipeline.put(late, content=thing(1, version=2).content)  # not what is announced
    pipeline.queue.send([message_of(good.event(), late.event())])
    batch = pipeline.worker.run_messages()
    assert (batch.deleted, batch.kept) == (0, 1)
    assert (pipeline.row(good)["status"], pipeline.row(late)["status"]) == ("succeeded", "failed")
    pipeline.put(late)
    pipeline.clock.advance(1)
    batch = pipeline.worker.run_messages()
    assert batch.deleted == 1
    assert (pipeline.row(good)["attempts"], pipeline.row(late)["attempts"]) == (1, 2)
    assert pipeline.statuses() == {"succeeded": 2}


@pytest.mark.parametrize("both_fail", [False, True])
def test_two_messages_that_share_a_unit_agree_on_it(
    backend: Backend, tmp_path: Path, *, both_fail: bool
) -> None:
    """A unit of two messages in one batch is run once; both go, or both come again."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.put(thing(version=2 if both_fail else 1))
    pipeline.announce(thing(), thing())
    batch = pipeline.worker.run_messages()
    assert len(batch.claims) == 1
    assert (batch.deleted, batch.kept) == ((0, 2) if both_fail else (2, 0))
    assert pipeline.row(thing())["attempts"] == 1


@pytest.mark.conformance("WAL-6.1")
def test_each_unit_has_its_id_and_poison_has_no_record(backend: Backend, tmp_path: Path) -> None:
    """What can be parsed is recorded under its id; what cannot is stored whole, and may go then."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(3)
    pipeline.feed(*given)
    odd = [b"not JSON at all", b'{"Records": [', message_of(thing(8).event(bucket="nobody"))]
    pipeline.queue.send(odd)
    batch = pipeline.worker.receive()
    pipeline.worker.parse(batch)
    kept = backend.sql("SELECT body FROM poison_messages ORDER BY poison_id")
    assert [bytes(body) if not isinstance(body, str) else body.encode() for (body,) in kept] == odd
    assert pipeline.left() == (0, 6, 0)
    for name in WORK[1:]:
        getattr(pipeline.worker, name)(batch)
    assert backend.sql("SELECT count(*) FROM wal_records") == [(3,)]
    ids = {row[0] for row in backend.sql("SELECT wal_id FROM wal_records")}
    assert ids == {unit.wal_id for parsed in batch.parsed for unit in parsed.units}
    assert len(ids) == 3
    assert pipeline.left() == (0, 0, 0)


@pytest.mark.conformance("WAL-6.1")
def test_any_message_gives_units_with_ids_or_poison(backend: Backend, tmp_path: Path) -> None:
    """Of a damaged feed each unit has one record under its id, and each poison is kept whole."""
    pipeline = Pipeline(backend, tmp_path, batch=1000)
    chance = random.Random(3)
    sent = list(Feed(3, 60, FeedFaults(poison=0.2, sidecars=0.1, deletions=0.1)).bodies())
    for body in list(sent):
        damaged = bytearray(body)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.choice(b'{}[]",:\\ 0aZ')
        sent.append(bytes(damaged[: chance.choice([len(damaged), len(damaged) // 2])]))
    pipeline.queue.send(sent)
    batch = to(pipeline.worker, "record_and_claim", pipeline.worker.receive())
    assert len(batch.parsed) == len(sent)
    units = [unit for parsed in batch.parsed for unit in parsed.units]
    recorded = backend.sql("SELECT wal_id, object_uri FROM wal_records ORDER BY 1")
    assert recorded == sorted({(unit.wal_id, unit.object_uri) for unit in units})
    poison = {
        message.body
        for message, parsed in zip(batch.messages, batch.parsed, strict=True)
        if parsed.poison is not None
    }
    kept = backend.sql("SELECT body FROM poison_messages")
    # A body that comes twice is kept once, and counted.
    assert sorted(bytes(body) for (body,) in kept) == sorted(poison)
    # The premise: there is enough of each.
    assert len(recorded) >= 60
    assert len(poison) >= 60


@pytest.mark.conformance("WAL-6.2")
def test_many_deliveries_at_once_make_one_record(backend: Backend, tmp_path: Path) -> None:
    """Of 32 workers that receive the same event at the same time one records and claims it."""
    pipeline = Pipeline(backend, tmp_path, batch=1)
    count = 32
    pipeline.put(thing())
    pipeline.announce(*[thing()] * count)
    workers = []
    for _ in range(count):
        stores = backend.open(pipeline.rules, catalogue=default_catalogue())
        worker = pipeline.start(pipeline.register("crowd"), stores=stores)
        batch = worker.receive()
        worker.parse(batch)
        workers.append((worker, batch))
    together = threading.Barrier(count)
    failed: list[BaseException] = []

    def record(worker: Any, batch: Any) -> None:
        try:
            together.wait(60)
            worker.record_and_claim(batch)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=record, args=each) for each in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sum(len(batch.claims) for _, batch in workers) == 1
    assert backend.sql("SELECT status, attempts, version FROM wal_records") == [
        ("in_progress", 1, 2)
    ]
    for worker, batch in workers:
        for name in WORK[2:]:
            getattr(worker, name)(batch)
    pipeline.drain()
    assert backend.sql("SELECT status, attempts FROM wal_records") == [("succeeded", 1)]
    assert_effects_follow_the_ledger(backend)


@pytest.mark.conformance("SM-4.4d", "SM-4.4c")
@pytest.mark.parametrize("dataset", ["*", "goes-glm"])
def test_a_freeze_parks_and_fails_nothing(backend: Backend, tmp_path: Path, dataset: str) -> None:
    """Over 20 rounds no message dies and no unit fails; afterwards all run."""
    pipeline = Pipeline(backend, tmp_path, max_receive_count=3)
    given = things(6)
    pipeline.switch(is_on=True, dataset=dataset)
    pipeline.feed(*given)
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        pipeline.clock.advance(VISIBILITY_S + 1)

    loop = pipeline.loop(sleep=rest)
    loop.run(Until.STOPPED, stop=lambda: len(rests) >= 20)
    assert "failed" not in pipeline.statuses()
    if dataset == "*":
        # A queue that is switched off as a whole is not even polled.
        assert (pipeline.statuses(), pipeline.left()) == ({}, (6, 0, 0))
    else:
        assert (pipeline.statuses(), pipeline.left()) == (
            {"pending": 2, "succeeded": 4},
            (0, 0, 0),
        )
    pipeline.switch(is_on=False, dataset=dataset)
    pipeline.new_worker()
    pipeline.loop().run(Until.DRAINED)
    assert (pipeline.statuses(), pipeline.left()) == ({"succeeded": 6}, (0, 0, 0))
    assert backend.sql("SELECT max(attempts) FROM wal_records") == [(1,)]


@pytest.mark.conformance("SM-4.4d")
def test_a_freeze_parks_what_a_poll_already_brought(backend: Backend, tmp_path: Path) -> None:
    """20 receives of a frozen unit park it once, spend no attempt and let each message go."""
    pipeline = Pipeline(backend, tmp_path, max_receive_count=3)
    pipeline.put(thing())
    pipeline.switch(is_on=True)
    for _ in range(20):
        pipeline.announce(thing())
        assert pipeline.worker.run_messages().deleted == 1
        assert pipeline.worker.run_due().is_empty
    row = pipeline.row(thing())
    assert (row["status"], row["attempts"], pipeline.left()) == ("pending", 0, (0, 0, 0))
    pipeline.switch(is_on=False)
    pipeline.worker.run_due()
    assert pipeline.row(thing())["status"] == "succeeded"


@pytest.mark.conformance("SM-5.0")
def test_any_deliveries_lead_to_one_success_each(
    backend: Backend,
    tmp_path: Path,
    full_counts: bool,  # noqa: FBT001 - a fixture
) -> None:
    """Duplicates, reordering, delay and expired visibility in any mixture end the same."""
    pipeline = Pipeline(backend, tmp_path, batch=3)
    workers = [pipeline.start(pipeline.register(f"w{number}")) for number in range(3)]
    rounds = 100 if full_counts else 12
    for seed in range(rounds):
        chance = random.Random(seed)
        given = things(5, first=5 * seed)
        pipeline.put(*given)
        bodies = [message_of(each.event()) for each in given]
        bodies += [message_of(*(each.event() for each in chance.sample(given, 2)))]
        bodies += chance.choices(bodies, k=3)
        chance.shuffle(bodies)
        pipeline.queue.send(bodies)
        open_batches: list[tuple[Any, Any, list[str]]] = []
        for _ in range(40):
            step = chance.random()
            if step < 0.3 and len(open_batches) < 3:
                worker = chance.choice(workers)
                open_batches.append((worker, worker.receive(), list(WORK)))
            elif step < 0.4:
                pipeline.clock.advance(chance.choice([1, VISIBILITY_S + 1]))
            elif open_batches:
                _advance(chance.choice(open_batches), open_batches)
        for left in open_batches:
            while left in open_batches:
                _advance(left, open_batches)
        pipeline.drain()
    assert backend.sql("SELECT status, attempts, count(*) FROM wal_records GROUP BY 1, 2") == [
        ("succeeded", 1, 5 * rounds)
    ]
    assert pipeline.left() == (0, 0, 0)
    assert_effects_follow_the_ledger(backend)


def _advance(one: tuple[Any, Any, list[str]], every: list[tuple[Any, Any, list[str]]]) -> None:
    worker, batch, phases = one
    if phases and not batch.is_empty:
        getattr(worker, phases.pop(0))(batch)
    if not phases or batch.is_empty:
        every.remove(one)


@pytest.mark.conformance("SM-4.4c")
def test_a_message_goes_only_after_the_commit(backend: Backend, tmp_path: Path) -> None:
    """Until the outcome is committed the message is in flight; then it is deleted."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    batch = pipeline.worker.receive()
    seen = []
    for name in WORK:
        getattr(pipeline.worker, name)(batch)
        rows = backend.sql("SELECT status FROM wal_records")
        seen.append((name, pipeline.left()[1], rows[0][0] if rows else None))
    assert seen == [
        ("parse", 1, None),
        ("record_and_claim", 1, "in_progress"),
        ("read_evidence", 1, "in_progress"),
        ("operate", 1, "in_progress"),
        ("commit", 1, "succeeded"),
        ("acknowledge", 0, "succeeded"),
    ]

"""The whole worker on SQS: what becomes of messages, and what it does when the queue fails."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ingest_loop import Until
from tallgrass.ledger.rules import LedgerRules
from tallgrass.retry import Backoff
from tallgrass.telemetry import names
from tests.pipeline.scene import (
    Pipeline,
    assert_effects_follow_the_ledger,
    message_of,
    thing,
    things,
)
from tests.pipeline.test_failures import reader_of
from tests.queues.sqs_scene import CHANGE, DELETE, RECEIVE, open_at
from tests.queues.test_sqs_faults import ANSWERS
from tests.support.backends import prepare
from tests.support.faulty_endpoint import FaultyEndpoint, answers, fails_entries
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.aws import AwsServer
    from tests.support.backends import Backend

MAX_RECEIVE_COUNT = 3
BATCH = 5
VISIBILITY_S = 60.0


class SqsPipeline(Pipeline):
    """A pipeline whose queue is on an emulator, behind an endpoint that can fail."""

    def __init__(
        self, backend: Backend, folder: Path, server: AwsServer, rules: LedgerRules | None = None
    ) -> None:
        super().__init__(backend, folder, rules=rules, batch=BATCH)
        self.server = server
        self.made = server.make_queue(max_receive_count=MAX_RECEIVE_COUNT)
        self.endpoint = FaultyEndpoint(server.url)
        self.recorder = MemoryRecorder()
        self.use(open_at(self.made, self.endpoint.url, visibility_s=VISIBILITY_S))

    def use(self, queue: Any) -> None:
        """Go on with a worker on this queue."""
        self.queue = queue
        backend = self.backend
        backend._opened.append(queue)
        self.new_worker("sqs-worker", recorder=self.recorder)

    def told(self) -> list[object]:
        """Return the codes of what the loop said it waits for."""
        return [
            fields["error_code"]
            for name, fields in self.recorder.events
            if name == names.STORE_WAITED_FOR
        ]

    def run(self, sleep: Callable[[float], None] = lambda _: None) -> None:
        """Run the loop until nothing is left now."""
        self.loop(sleep=sleep, recorder=self.recorder).run(Until.DRAINED)

    def pass_time(self, seconds: float = VISIBILITY_S + 1) -> None:
        """Let time pass for the queue."""
        self.server.advance(seconds)


@pytest.fixture
def pipeline(tmp_path: Path, ministack: AwsServer, aws_environment: None) -> Iterator[SqsPipeline]:
    """A pipeline on SQS and SQLite; the queue's clock stands still."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    with ministack.stopped_clock():
        made = SqsPipeline(backend, tmp_path, ministack)
        with made.endpoint:
            yield made
            backend.close()


@pytest.mark.conformance("SM-4.4c", "WAL-3.3", "WAL-6.1")
def test_the_message_follows_the_ledger(pipeline: SqsPipeline) -> None:
    """Done and poison leave the queue; a fault for good goes to the dead letters, as `failed`."""
    good, bad = things(3), thing(9)
    pipeline.feed(*good)
    pipeline.put(bad, content=b"")
    pipeline.announce(bad, size=0)
    pipeline.queue.send([b"{not json"])
    batch = pipeline.worker.run_messages()
    assert (len(batch.messages), batch.deleted, batch.kept) == (5, 4, 1)
    assert pipeline.statuses() == {"succeeded": 3, "failed": 1}
    assert pipeline.left() == (1, 0, 0)
    for _ in range(MAX_RECEIVE_COUNT):
        pipeline.worker.run_messages()
    assert pipeline.left() == (0, 0, 1)
    assert pipeline.row(bad)["last_error_code"] == "size_zero"
    assert pipeline.backend.sql("SELECT count(*), min(queue) FROM poison_messages") == [
        (1, "nodd-primary")
    ]
    ids = pipeline.backend.sql("SELECT count(DISTINCT wal_id), min(queue) FROM wal_records")
    assert ids == [(4, "nodd-primary")]


@pytest.mark.conformance("SM-4.4c")
def test_a_passing_fault_hides_the_message_for_its_back_off(
    tmp_path: Path, ministack: AwsServer, aws_environment: None
) -> None:
    """The message of a unit that is retried is neither deleted nor visible before its time."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    rules = LedgerRules(backoff=Backoff(base_s=500, cap_s=500), max_attempts=8)
    with ministack.stopped_clock():
        pipeline = SqsPipeline(backend, tmp_path, ministack, rules)
        with pipeline.endpoint:
            pipeline.feed(thing())
            failing = reader_of(pipeline, "io_error", 1)
            batch = pipeline.start(pipeline.lease, reader=failing).run_messages()
            (closed,) = batch.closed.values()
            assert 0 < closed.retry_s <= 500
            assert pipeline.left() == (0, 1, 0)
            ((_, request, _),) = [r for r in pipeline.endpoint.requests if r[0] == CHANGE]
            hidden_s = request["Entries"][0]["VisibilityTimeout"]
            assert closed.retry_s <= hidden_s < closed.retry_s + 1
            pipeline.pass_time(hidden_s - 0.5)
            assert pipeline.left() == (0, 1, 0)
            pipeline.pass_time(1)
            assert pipeline.left() == (1, 0, 0)
            backend.close()


@pytest.mark.conformance("SM-5.0")
@pytest.mark.parametrize("seed", range(4))
def test_any_deliveries_from_sqs_lead_to_one_success_each(pipeline: SqsPipeline, seed: int) -> None:
    """Duplicates, delays and receipts that expire in the middle of a batch do no harm."""
    # Nothing may die of deliveries alone: whatever is dead then was not let go when it should.
    pipeline.made = pipeline.server.make_queue(max_receive_count=100)
    pipeline.use(open_at(pipeline.made, pipeline.endpoint.url, visibility_s=VISIBILITY_S))
    chance = random.Random(seed)
    given = things(6)
    pipeline.put(*given)
    sent = [message_of(each.event(), number=n) for n in range(2) for each in given]
    chance.shuffle(sent)
    pipeline.queue.send(sent)
    workers = [pipeline.worker, pipeline.start(pipeline.register("other"))]
    batches = [worker.messages_by_phase() for worker in workers]
    for _ in range(40):
        number = chance.randrange(2)
        if next(batches[number], "ended") == "ended":
            batches[number] = workers[number].messages_by_phase()
        if chance.random() < 0.3:
            pipeline.pass_time()
    for batch in batches:
        list(batch)
    for _ in range(3):
        pipeline.pass_time()
        pipeline.worker.run_messages()
    assert pipeline.statuses() == {"succeeded": 6}
    assert pipeline.backend.sql("SELECT count(*) FROM stac_items") == [(6,)]
    attempts = "SELECT wal_id FROM wal_attempts GROUP BY wal_id HAVING count(*) > 1"
    assert pipeline.backend.sql(attempts) == []
    assert pipeline.left() == (0, 0, 0)
    assert_effects_follow_the_ledger(pipeline.backend)


# --- when the queue fails -------------------------------------------------------------------------

PASSING = (
    "throttled", "too many in flight", "failing", "denied", "gone", "closing the connection",
)  # fmt: skip
CODES = {
    "throttled": "queue_throttled",
    "too many in flight": "queue_over_limit",
    "failing": "queue_unreachable",
    "denied": "queue_denied",
    "gone": "queue_missing",
    "closing the connection": "queue_unreachable",
}


@pytest.mark.parametrize("name", PASSING)
def test_the_loop_waits_for_a_queue_that_gives_nothing(pipeline: SqsPipeline, name: str) -> None:
    """While receives fail the worker waits, says so once, and goes on; nothing is lost."""
    pipeline.feed(*things(4))
    pipeline.endpoint.plan(RECEIVE, ANSWERS[name][0])
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 5:
            pipeline.endpoint.heal()

    pipeline.run(sleep=rest)
    assert len(rests) == 5
    assert pipeline.told() == [CODES[name]]
    assert pipeline.statuses() == {"succeeded": 4}
    assert pipeline.left() == (0, 0, 0)


@pytest.mark.parametrize("name", PASSING)
def test_a_failed_acknowledgement_loses_and_doubles_nothing(
    pipeline: SqsPipeline, name: str
) -> None:
    """What was committed stands and is reported; its messages come again as duplicates."""
    pipeline.feed(*things(4))
    pipeline.endpoint.plan(DELETE, ANSWERS[name][0])

    def rest(_: float) -> None:
        pipeline.endpoint.heal()
        pipeline.pass_time()

    loop = pipeline.loop(sleep=rest, recorder=pipeline.recorder)
    loop.run(Until.DRAINED)
    assert pipeline.told() == [CODES[name]]
    assert loop.report.by_verdict == {"succeeded": 4}
    assert loop.report.by_action == {"claim": 4, "duplicate": 4}
    assert pipeline.left() == (0, 0, 0)
    assert pipeline.backend.sql("SELECT count(*) FROM wal_attempts") == [(4,)]
    assert pipeline.backend.sql("SELECT count(*) FROM stac_items") == [(4,)]
    assert pipeline.recorder.total(names.MESSAGES_DELETED) == 4
    assert pipeline.recorder.total(names.MESSAGES_STALE) == 0


def test_a_message_of_which_the_delete_fails_comes_again(pipeline: SqsPipeline) -> None:
    """One entry of a batch that SQS keeps failing brings back its own message only."""
    pipeline.feed(*things(4))
    pipeline.endpoint.plan(DELETE, fails_entries("InternalError", sender=False, ids={"2"}))
    batch = pipeline.worker.run_messages()
    assert batch.unacknowledged is not None
    assert batch.unacknowledged.code == "queue_unreachable"
    assert pipeline.left() == (0, 1, 0)
    pipeline.endpoint.heal()
    pipeline.pass_time()
    again = pipeline.worker.run_messages()
    assert (len(again.messages), len(again.claims), again.deleted) == (1, 0, 1)
    assert pipeline.left() == (0, 0, 0)


def test_expired_receipts_are_counted_and_told(pipeline: SqsPipeline) -> None:
    """Receipts that SQS calls expired are reported; their messages come again."""
    pipeline.feed(*things(3))
    pipeline.endpoint.plan(DELETE, fails_entries("ReceiptHandleIsInvalid", sender=True, ids={"0"}))
    batch = pipeline.worker.run_messages()
    assert (batch.deleted, batch.unacknowledged) == (2, None)
    assert pipeline.recorder.total(names.MESSAGES_STALE) == 1
    assert [fields["count"] for name, fields in pipeline.recorder.events
            if name == names.RECEIPTS_STALE] == [1]  # fmt: skip


def test_a_queue_deleted_while_the_worker_runs_is_waited_for(pipeline: SqsPipeline) -> None:
    """Once somebody has made the queue again, what is sent to it is worked on."""
    first, second = things(2), things(2, first=2)
    pipeline.feed(*first)
    pipeline.worker.run_messages()
    sqs = pipeline.server.client("sqs")
    sqs.delete_queue(QueueUrl=pipeline.made.url)
    rests: list[float] = []

    def rest(_: float) -> None:
        rests.append(0)
        if len(rests) == 3:
            sqs.create_queue(QueueName=pipeline.made.url.rpartition("/")[2])
            pipeline.feed(*second)

    pipeline.run(sleep=rest)
    assert pipeline.told() == ["queue_missing"]
    assert pipeline.statuses() == {"succeeded": 4}


def test_faults_of_two_kinds_are_told_once_each(pipeline: SqsPipeline) -> None:
    """An outage that changes its face is told by each face once; after it all is well again."""
    pipeline.feed(*things(2))
    for name in ("throttled", "denied", "throttled", "denied"):
        pipeline.endpoint.plan(RECEIVE, ANSWERS[name][0], times=2)
    pipeline.run()
    assert pipeline.told() == ["queue_throttled", "queue_denied"]
    assert pipeline.statuses() == {"succeeded": 2}


def test_what_is_due_needs_no_queue(pipeline: SqsPipeline) -> None:
    """While the queue cannot be reached the ledger's own schedule goes on."""
    given = things(3)
    pipeline.feed(*given)
    pipeline.switch(is_on=True, dataset="hrrr")
    pipeline.worker.run_messages()
    pipeline.switch(is_on=False, dataset="hrrr")
    assert pipeline.statuses() == {"succeeded": 2, "pending": 1}
    pipeline.endpoint.plan(RECEIVE, answers("ServiceUnavailable", 503))
    rests: list[float] = []
    loop = pipeline.loop(sleep=rests.append, recorder=pipeline.recorder)
    loop.run(Until.STOPPED, stop=lambda: len(rests) == 3)
    assert pipeline.statuses() == {"succeeded": 3}
    assert pipeline.told() == ["queue_unreachable"]


def test_a_queue_that_waits_leaves_no_rest_to_take(pipeline: SqsPipeline) -> None:
    """A round that waited in the queue for longer than its rest takes none; others do."""
    now = [0.0]
    rests: list[float] = []

    class Waits:
        name = "nodd-primary"
        waits_s = 20.0

        def receive(self, _: int, *, wait: bool = True) -> list[Any]:
            now[0] += self.waits_s if wait else 0.0
            return []

    queue: Any = Waits()
    pipeline.worker = pipeline.start(pipeline.lease, queue=queue)
    loop = pipeline.loop(sleep=rests.append, monotonic=lambda: now[0])
    turns = iter(range(8))
    loop.run(Until.STOPPED, stop=lambda: next(turns) == 4)
    assert (rests, now) == ([], [80.0])
    queue.waits_s = 0.0
    pipeline.lease = pipeline.register("again")
    pipeline.worker = pipeline.start(pipeline.lease, queue=queue)
    loop = pipeline.loop(sleep=rests.append, monotonic=lambda: now[0])
    loop.run(Until.STOPPED, stop=lambda: len(rests) == 3)
    assert rests == [0.1, 0.2, 0.4]  # half of 0.2 s, doubled each time

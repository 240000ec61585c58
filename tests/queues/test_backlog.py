"""How old a backlog is: as the queue tells, else by what workers have in hand, else by watching."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.replaying import ingest_lag
from tallgrass.queues.backlog import front_of
from tallgrass.queues.protocol import QueueStatus
from tests.pipeline.scene import FIRST, Pipeline, message_of, thing, things
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.aws import AwsServer
    from tests.support.backends import Backend

SENT, HELD, BEFORE, NOW = (datetime(2026, 6, 1, hour, tzinfo=UTC) for hour in (1, 2, 3, 4))
BATCH = 5


@pytest.mark.parametrize(
    ("visible", "told", "in_hand", "before", "front"),
    [
        (5, SENT, HELD, BEFORE, SENT),
        (5, None, HELD, BEFORE, HELD),
        (5, None, None, BEFORE, BEFORE),
        (5, None, None, None, NOW),
        (4, SENT, HELD, BEFORE, None),
    ],
    ids=["told", "in hand", "nobody works", "first look", "no backlog"],
)
def test_the_front_is_what_is_known_best(
    visible: int,
    told: datetime | None,
    in_hand: datetime | None,
    before: datetime | None,
    front: datetime | None,
) -> None:
    """The queue's own word, then what is in hand, then the last look; less than a batch is none."""
    status = QueueStatus(visible=visible, in_flight=0, dead=None, oldest_sent_at=told)
    given = {"batch": BATCH, "newest_in_hand": in_hand, "before": before, "now": NOW}
    assert front_of(status, **given) == front  # type: ignore[arg-type]
    assert front_of(None, **given) is None  # type: ignore[arg-type]


@pytest.mark.usefixtures("aws_environment")
def test_a_replay_sees_the_backlog_of_an_sqs_queue(
    backend: Backend, tmp_path: Path, ministack: AwsServer
) -> None:
    """SQS tells no age: a backlog is as old as what workers hold, or as it was watched."""
    pipeline = Pipeline(backend, tmp_path, batch=BATCH)
    made = ministack.make_queue()
    there = {"queue.url": made.arn, "queue.endpoint_url": ministack.url}
    config = replace(pipeline.config, values={**pipeline.config.values, **there})
    given = things(12)
    pipeline.put(*given)
    sqs = ministack.client("sqs")
    for each in given:
        sqs.send_message(QueueUrl=made.url, MessageBody=message_of(each.event()).decode())
    # The messages were announced at FIRST.
    clock = ManualClock(FIRST + timedelta(seconds=400))
    lag_s = ingest_lag(config, pipeline.stores, clock=clock, monotonic=lambda: clock().timestamp())
    assert lag_s() == 0.0
    clock.advance(301)
    assert lag_s() == 301.0  # nobody works on it

    worker = pipeline.start(pipeline.register("sqs"), queue=pipeline.queue)
    pipeline.feed(thing(90))
    batch = worker.receive()
    worker.parse(batch)
    worker.record_and_claim(batch)
    clock.advance(5)
    assert lag_s() == 400 + 301 + 5  # the newest in hand was announced then

    for phase in (worker.read_evidence, worker.operate, worker.commit, worker.acknowledge):
        phase(batch)
    clock.advance(5)
    assert lag_s() == 400 + 301 + 10  # between two batches

    for message in sqs.receive_message(QueueUrl=made.url, MaxNumberOfMessages=10)["Messages"]:
        sqs.delete_message(QueueUrl=made.url, ReceiptHandle=message["ReceiptHandle"])
    clock.advance(5)
    assert lag_s() == 0.0

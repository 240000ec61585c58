"""SQS on an emulator: receive-and-delete through the queue protocol beside bare boto3.

Both empty the same queue on the same server with as many threads, in turn, round after round: what
is compared is what the protocol adds, not what a machine or an emulator can do.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from bench.report import Row, beside, in_turn
from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tests.support.aws import ENVIRONMENT, AwsServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.queues.protocol import OpenQueue
    from tests.support.aws import MadeQueue

THREADS = 4
TEN = 10
#: As a worker asks by default.
BATCH = 500
#: About the length of an announcement of one object.
BODY = "x" * 1500


def benchmarks(*, quick: bool) -> list[Row]:
    """Return the row of SQS."""
    os.environ.update(ENVIRONMENT)
    messages, rounds = (300, 1) if quick else (2_000, 9)
    with AwsServer("ministack") as server:
        made = server.make_queue()
        client = server.session.client(
            "sqs", endpoint_url=server.url, config=Config(max_pool_connections=THREADS)
        )
        queue = _open(server, made)
        with closing(client), closing(queue), ThreadPoolExecutor(THREADS) as threads:
            ways: dict[str, Callable[[], int]] = {
                "bare": lambda: _bare(client, threads, made),
                "queue": lambda: _through_the_protocol(queue),
            }
            _round(server, made, messages, ways)  # connections are made, caches filled
            turns = [dict(in_turn(number, tuple(ways.items()))) for number in range(rounds)]
            rates = [_round(server, made, messages, turn) for turn in turns]
    for rate in rates:
        print(f"sqs: {rate['queue']:,.0f}/s, bare {rate['bare']:,.0f}/s")
    pairs = [(rate["queue"], rate["bare"]) for rate in rates]
    name = "sqs: rate of receive and delete / bare boto3"
    return [beside(name, pairs, "messages/s", at_least=0.8)]


def _round(
    server: AwsServer, made: MadeQueue, messages: int, ways: dict[str, Callable[[], int]]
) -> dict[str, float]:
    """Fill the queue and let it be emptied, each way; return messages a second."""
    sqs = server.client("sqs")
    rates = {}
    for name, way in ways.items():
        for _ in range(messages // TEN):
            entries = [{"Id": str(number), "MessageBody": BODY} for number in range(TEN)]
            sqs.send_message_batch(QueueUrl=made.url, Entries=entries)
        began = time.perf_counter()
        emptied = way()
        rates[name] = messages / (time.perf_counter() - began)
        assert emptied == messages, f"{emptied} of {messages} messages came"
    return rates


def _bare(client: Any, threads: ThreadPoolExecutor, made: MadeQueue) -> int:
    """Empty the queue by boto3 alone, each thread by itself."""

    def empty(_: int) -> int:
        count = 0
        while found := client.receive_message(
            QueueUrl=made.url,
            MaxNumberOfMessages=TEN,
            MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
        ).get("Messages"):
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(found)
            ]
            client.delete_message_batch(QueueUrl=made.url, Entries=entries)
            count += len(found)
        return count

    return sum(threads.map(empty, range(THREADS)))


def _through_the_protocol(queue: OpenQueue) -> int:
    """Empty the queue as a worker does."""
    count = 0
    while messages := queue.receive(BATCH):
        stale = queue.delete([message.receipt for message in messages])
        count += len(messages) - len(stale)
    return count


def _open(server: AwsServer, made: MadeQueue) -> OpenQueue:
    flags: dict[str, str | int] = {
        "queue.url": made.arn,
        "queue.endpoint_url": server.url,
        "queue.receivers": THREADS,
        "queue.wait_s": 0,
    }
    return open_queue(load_config(environment={}, flags=flags))

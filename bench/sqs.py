"""SQS on an emulator: receive-and-delete through the queue protocol beside bare boto3.

Both empty the same queue on the same server with as many threads, in turn, round after round: what
is compared is what the protocol adds, not what a machine or an emulator can do.
"""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bench.report import Row, row
from tallgrass.bootstrap import open_queue
from tallgrass.config import load_config
from tests.support.aws import ENVIRONMENT, AwsServer

if TYPE_CHECKING:
    from collections.abc import Callable

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
    messages, rounds = (1_000, 3) if quick else (4_000, 7)
    with AwsServer("ministack") as server:
        made = server.make_queue()
        ratios = []
        for number in range(rounds):
            # Who goes first changes, so that neither always meets the warmer server.
            order = [_bare, _through_the_protocol]
            rates = {
                way: _rate(server, made, messages, way) for way in order[:: 1 if number % 2 else -1]
            }
            ratios.append(rates[_through_the_protocol] / rates[_bare])
            print(f"sqs: {rates[_through_the_protocol]:,.0f}/s, bare {rates[_bare]:,.0f}/s")
    return [row("sqs: rate of receive and delete / bare boto3", ratios, at_least=0.8)]


def _rate(
    server: AwsServer, made: MadeQueue, messages: int, way: Callable[[AwsServer, MadeQueue], int]
) -> float:
    """Fill the queue, then let it be emptied; return messages a second."""
    sqs = server.client("sqs")
    for _ in range(messages // TEN):
        entries = [{"Id": str(number), "MessageBody": BODY} for number in range(TEN)]
        sqs.send_message_batch(QueueUrl=made.url, Entries=entries)
    began = time.perf_counter()
    emptied = way(server, made)
    took = time.perf_counter() - began
    assert emptied == messages, f"{emptied} of {messages} messages came"
    return messages / took


def _bare(server: AwsServer, made: MadeQueue) -> int:
    """Empty the queue by boto3 alone, each thread by itself."""
    from botocore.config import Config  # noqa: PLC0415

    config = Config(max_pool_connections=THREADS)
    client: Any = server.session.client("sqs", endpoint_url=server.url, config=config)

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

    with ThreadPoolExecutor(THREADS) as threads:
        done = sum(threads.map(empty, range(THREADS)))
    client.close()
    return done


def _through_the_protocol(server: AwsServer, made: MadeQueue) -> int:
    """Empty the queue as a worker does."""
    flags = {
        "queue.url": made.arn,
        "queue.endpoint_url": server.url,
        "queue.receivers": THREADS,
        "queue.wait_s": 0,
    }
    queue = open_queue(load_config(environment={}, flags=flags))
    count = 0
    for messages in itertools.takewhile(bool, iter(lambda: queue.receive(BATCH), None)):
        stale = queue.delete([message.receipt for message in messages])
        count += len(messages) - len(stale)
    queue.close()
    return count

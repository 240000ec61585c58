"""A queue on an emulator behind an endpoint that can fail."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallgrass.clock import system_clock
from tallgrass.queues.sqs import SqsQueue
from tallgrass.queues.sqs_address import read_address
from tallgrass.queues.sqs_client import open_client

if TYPE_CHECKING:
    from tests.support.aws import AwsServer, MadeQueue
    from tests.support.faulty_endpoint import FaultyEndpoint

RECEIVE, DELETE, CHANGE, SEND, COUNT = (
    "ReceiveMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibilityBatch",
    "SendMessageBatch",
    "GetQueueAttributes",
)


def open_at(made: MadeQueue, endpoint_url: str, *, tries: int = 1, **settings: Any) -> SqsQueue:
    """Return the queue as seen through an endpoint; its rests take no time."""
    address = read_address(made.arn)
    client = open_client(address, endpoint_url=endpoint_url, connections=3, tries=tries)
    chosen = {"visibility_s": 60.0, "wait_s": 0, "receivers": 2, **settings}
    return SqsQueue(
        "nodd-primary",
        client,
        address,
        clock=system_clock,
        sleep=lambda _: None,
        random=random.Random(1).random,
        **chosen,
    )


@dataclass
class Scene:
    """A queue, the endpoint before it, and a way to it that has no faults."""

    queue: SqsQueue
    endpoint: FaultyEndpoint
    made: MadeQueue
    server: AwsServer

    def fill(self, count: int) -> list[str]:
        """Send messages and take them in hand; return their receipts."""
        self.queue.send([f"body {number}".encode() for number in range(count)])
        return [message.receipt for message in self.queue.receive(count)]

    def counts(self) -> tuple[int, int]:
        """Ask the emulator itself: visible, in flight."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.server.client("sqs").get_queue_attributes(
            QueueUrl=self.made.url, AttributeNames=names
        )
        visible, in_flight = (int(answer["Attributes"][name]) for name in names)
        return visible, in_flight

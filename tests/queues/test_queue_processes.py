"""Several processes at one queue, and processes that are killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.queues.consumer import BATCH
from tests.support.processes import ROOT, Child

if TYPE_CHECKING:
    from tests.queues.harness import Harness

#: Longer than a consumer hides what it received.
A_WHILE_S = 301


class Consumer(Child):
    """A consumer in a process of its own."""

    def __init__(self, role: str, address: str) -> None:
        """Start it; it says when it is ready."""
        command = [sys.executable, "-m", "tests.queues.consumer", role, address]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def bodies(count: int) -> list[bytes]:
    """Return bodies that can be told apart."""
    return [f"body {number:04}".encode() for number in range(count)]


def test_two_consumers_never_hold_the_same_message(harness: Harness) -> None:
    """Three processes that receive at the same moment share all messages, each given out once."""
    harness.queue.send(bodies(harness.many))
    with ExitStack() as stack:
        consumers = [stack.enter_context(Consumer("takes_all", harness.address)) for _ in range(3)]
        for consumer in consumers:
            assert consumer.hear() == {"step": "ready"}
        for consumer in consumers:
            consumer.go_on()
        heard = [consumer.hear()["taken"] for consumer in consumers]
    taken = [message_id for part in heard for message_id, _ in part]
    receipts = [receipt for part in heard for _, receipt in part]
    assert len(taken) == len(set(taken)) == harness.many
    assert len(set(receipts)) == harness.many


def test_a_killed_consumer_loses_nothing(harness: Harness) -> None:
    """What SIGKILL meets in somebody's hands is delivered again, unchanged."""
    check_that_nothing_is_lost(harness, "stops_after")


def test_a_consumer_killed_inside_a_receive_loses_nothing(embedded: Harness) -> None:
    """Nor does one that is killed before its receive is committed."""
    check_that_nothing_is_lost(embedded, "stops_inside")


def check_that_nothing_is_lost(harness: Harness, role: str) -> None:
    """Kill a consumer in its role; every message comes again."""
    sent = bodies(3 * BATCH)
    harness.queue.send(sent)
    with Consumer(role, harness.address) as consumer:
        assert consumer.hear() == {"step": "ready"}
        consumer.kill()
    harness.wait(A_WHILE_S)
    received = [message.body for message in harness.queue.receive(10 * BATCH)]
    assert sorted(received) == sent


def test_a_killed_receive_hides_nothing(embedded: Harness) -> None:
    """A receive that did not end has no effect: its messages are visible at once."""
    embedded.queue.send(bodies(BATCH))
    with Consumer("stops_inside", embedded.address) as consumer:
        assert consumer.hear() == {"step": "ready"}
        consumer.kill()
    messages = embedded.queue.receive(10 * BATCH)
    assert [message.receive_count for message in messages] == [1] * BATCH

"""The queue protocol: SQS's semantics in five verbs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

#: SQS's limits; every queue keeps them, so that what works on one works on all.
VISIBILITY_S_MAX = 43_200.0
BODY_BYTES_MAX = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """One delivery of a message. A later delivery has another receipt."""

    message_id: str
    receipt: str
    body: bytes
    #: How often it was delivered, this time included.
    receive_count: int
    sent_at: datetime
    #: W3C trace context of whoever sent it, where the queue keeps that beside the body.
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """How much waits, and where."""

    visible: int
    in_flight: int
    #: None where the queue has no place for dead letters, or does not let us look there.
    dead: int | None
    #: None where nothing waits, or where the queue does not tell (SQS).
    oldest_sent_at: datetime | None
    #: When the oldest dead letter died; None where there is none, or the queue does not tell (SQS).
    oldest_dead_at: datetime | None = None


class Queue(Protocol):
    """At-least-once delivery: what is not deleted before its visibility ends comes again.

    A message that was received `max_receive_count` times without being deleted goes to the
    dead-letter queue instead of being delivered once more.
    """

    name: str
    #: As OpenTelemetry's messaging conventions name it: `aws_sqs`, or `tallgrass`.
    system: str

    @property
    def max_receive_count(self) -> int | None:
        """After so many deliveries it takes a message to its dead letters; None: nobody says."""

    def receive(self, limit: int, *, wait: bool = True) -> Sequence[QueueMessage]:
        """Take up to `limit` visible messages; they are hidden for the visibility timeout.

        A queue may wait for the first of them, unless `wait` is false. An answer without waiting
        can be empty though messages are there: SQS then asks only some of its servers.
        """

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove deliveries for good; return the receipts that were no longer valid."""

    def change_visibility(self, changes: Sequence[tuple[str, float]]) -> Sequence[str]:
        """Let deliveries become visible again after so many seconds from now (0 = at once).

        Return the receipts that were no longer valid.
        """

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Put messages into the queue; return their ids, in order."""

    def status(self) -> QueueStatus:
        """Count what is there."""


class OpenQueue(Queue, Protocol):
    """A queue with connections that its user closes."""

    def close(self) -> None:
        """Let go of them."""

"""The place of a queue's dead letters, as a drain needs it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallgrass.queues.protocol import QueueMessage

#: Letters looked at together. SQS hands out 120,000 of a queue at a time, and no more.
LETTERS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStatus:
    """How many letters there are."""

    visible: int
    #: In somebody's hand.
    in_flight: int


class DeadLetterPlace(Protocol):
    """Letters are hidden while somebody holds them: two drains never hold the same one."""

    name: str

    def browse(self, limit: int) -> Iterator[QueueMessage]:
        """Yield up to `limit` letters, each once; nothing is taken away."""

    def receive(self, limit: int) -> Sequence[QueueMessage]:
        """Take up to `limit` letters in hand; they are hidden for the visibility timeout."""

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove letters for good; return the receipts that were no longer valid."""

    def release(self, receipts: Sequence[str]) -> None:
        """Let letters be seen again; one that is no longer in hand is left alone."""

    def status(self) -> DeadLetterStatus:
        """Count what is there."""

    def close(self) -> None:
        """Let go of connections."""


def letters_by_receiving(place: DeadLetterPlace, limit: int, batch: int) -> Iterator[QueueMessage]:
    """Browse a place that shows its letters only to those who hold them; give them back."""
    held: dict[str, str] = {}
    try:
        while len(held) < limit:
            messages = place.receive(min(batch, limit - len(held)))
            fresh = [message for message in messages if message.message_id not in held]
            held |= {message.message_id: message.receipt for message in messages}
            if not fresh:
                return
            yield from fresh
    finally:
        place.release(list(held.values()))

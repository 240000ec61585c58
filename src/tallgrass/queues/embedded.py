"""The embedded queue: SQS's semantics on one machine, without a server.

A receive hides what it hands out for the visibility timeout. Whoever is done deletes it by the
receipt of that delivery; whoever is not sees it again later, under another receipt. A message that
was received `max_receive_count` times goes to the dead letters instead of a further delivery.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.queues.limits import require_bodies, require_visibility
from tallgrass.queues.protocol import VISIBILITY_S_MAX, QueueMessage, QueueStatus

VISIBILITY_S = 300.0
MAX_RECEIVE_COUNT = 5
#: Digits of the largest position that a receipt can name: SQLite's integers have 64 bits.
_POSITION_DIGITS_MAX = 18

#: Where a message stands in the queue, and which of its deliveries is meant.
Delivery = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenMessage:
    """A message as the store hands it out."""

    position: int
    message_id: str
    body: bytes
    receive_count: int
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that was received too often; it keeps its id and the time it was sent."""

    #: Grows with each dead letter; the key of the next page.
    position: int
    message_id: str
    body: bytes
    receive_count: int
    sent_at: datetime
    died_at: datetime


class MessageStore(Protocol):
    """Keeps the messages of one queue; each verb is one transaction."""

    def add(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Append messages, each an id and a body, visible at once."""

    def take(
        self, limit: int, *, delivery_id: str, visibility_s: float, max_receive_count: int
    ) -> Sequence[TakenMessage]:
        """Hide and return visible messages; bury on the way those that were received too often."""

    def remove(self, deliveries: Sequence[Delivery]) -> AbstractSet[Delivery]:
        """Remove messages by deliveries that are in flight; return those."""

    def hide(self, changes: Mapping[Delivery, float]) -> AbstractSet[Delivery]:
        """Hide deliveries that are in flight for so many seconds from now; return those."""

    def status(self) -> QueueStatus:
        """Count what is there."""

    def dead_letters(self, after: int, size: int) -> Sequence[DeadLetter]:
        """Return a page of dead letters in the order of their death."""

    def close(self) -> None:
        """Close the connection."""


class EmbeddedQueue:
    """A queue over a store of its own. Use it from one thread at a time."""

    system = "tallgrass"

    def __init__(
        self,
        name: str,
        store: MessageStore,
        *,
        ids: Callable[[], UUID],
        visibility_s: float = VISIBILITY_S,
        max_receive_count: int = MAX_RECEIVE_COUNT,
    ) -> None:
        if not 0 < visibility_s <= VISIBILITY_S_MAX:
            raise ConfigError(
                f"queue {name}: a visibility timeout of {visibility_s:g} s; "
                f"it must be above 0 and at most {VISIBILITY_S_MAX:g} s"
            )
        if max_receive_count < 1:
            raise ConfigError(
                f"queue {name}: max_receive_count {max_receive_count}; it must be at least 1"
            )
        self.name = name
        self._store = store
        self._ids = ids
        self._visibility_s = visibility_s
        self.max_receive_count = max_receive_count

    def close(self) -> None:
        """Close the connection to the queue's file."""
        self._store.close()

    def receive(self, limit: int, *, wait: bool = True) -> Sequence[QueueMessage]:
        """Take up to `limit` visible messages, those first that became visible first.

        It never waits.
        An empty answer means that nothing is visible: dead letters are put away on the way.
        """
        del wait
        if limit < 1:
            raise InvalidInput(f"queue {self.name}: cannot receive {limit} messages")
        # One id a receive: with the position it is unique to a delivery.
        delivery_id = self._ids().hex
        taken = self._store.take(
            limit,
            delivery_id=delivery_id,
            visibility_s=self._visibility_s,
            max_receive_count=self.max_receive_count,
        )
        return [
            QueueMessage(
                message_id=message.message_id,
                receipt=f"{message.position}.{delivery_id}",
                body=message.body,
                receive_count=message.receive_count,
                sent_at=message.sent_at,
            )
            for message in taken
        ]

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove deliveries for good; return the receipts that were no longer valid."""
        if not receipts:
            return []
        deliveries = {receipt: delivery_of(receipt) for receipt in receipts}
        wanted = [delivery for delivery in deliveries.values() if delivery is not None]
        removed = self._store.remove(wanted)
        return [receipt for receipt, delivery in deliveries.items() if delivery not in removed]

    def change_visibility(self, changes: Sequence[tuple[str, float]]) -> Sequence[str]:
        """Let deliveries become visible again after so many seconds from now (0 = at once).

        Of several changes of one receipt the last counts. Return the receipts that were no longer
        valid.
        """
        if not changes:
            return []
        require_visibility(self.name, changes)
        seconds_of = dict(changes)
        deliveries = {receipt: delivery_of(receipt) for receipt in seconds_of}
        changed = self._store.hide(
            {
                delivery: seconds_of[receipt]
                for receipt, delivery in deliveries.items()
                if delivery is not None
            }
        )
        return [receipt for receipt, delivery in deliveries.items() if delivery not in changed]

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Put messages into the queue: all of them, or, if one is refused, none."""
        require_bodies(self.name, bodies)
        messages = [(str(self._ids()), body) for body in bodies]
        if messages:
            self._store.add(messages)
        return [message_id for message_id, _ in messages]

    def status(self) -> QueueStatus:
        """Count what is there."""
        return self._store.status()

    def dead_letters(self, after: int = 0, size: int = 100) -> Sequence[DeadLetter]:
        """Return a page of dead letters; `after` is the position of the last one known."""
        return self._store.dead_letters(after, size)


def delivery_of(receipt: str) -> Delivery | None:
    """Read a receipt; None for a text that no queue gave out."""
    position, _, delivery_id = receipt.partition(".")
    if not (position.isascii() and position.isdigit() and len(position) <= _POSITION_DIGITS_MAX):
        return None
    return int(position), delivery_id

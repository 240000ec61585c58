"""The dead letters of an embedded queue: in its own file, hidden while a drain holds them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol
from uuid import UUID

from tallgrass.queues.dead_letters import DeadLetterStatus
from tallgrass.queues.embedded import VISIBILITY_S, DeadLetter, Delivery, delivery_of
from tallgrass.queues.protocol import QueueMessage

_PAGE = 500


class DeadLetterStore(Protocol):
    """Keeps the dead letters of one queue; each verb is one transaction."""

    def dead_letters(self, after: int, size: int) -> Sequence[DeadLetter]:
        """Return a page of dead letters in the order of their death."""

    def take_dead(
        self, limit: int, *, delivery_id: str, visibility_s: float
    ) -> Sequence[DeadLetter]:
        """Hide and return letters that nobody holds."""

    def remove_dead(self, deliveries: Sequence[Delivery]) -> AbstractSet[Delivery]:
        """Remove letters by deliveries that are in hand; return those."""

    def hide_dead(self, changes: Mapping[Delivery, float]) -> None:
        """Hide letters in hand for so many seconds from now."""

    def release_dead(self, deliveries: Sequence[Delivery]) -> None:
        """Let letters in hand be seen again."""

    def dead_status(self) -> DeadLetterStatus:
        """Count the letters."""

    def close(self) -> None:
        """Close the connection."""


class EmbeddedDeadLetters:
    """The place of dead letters over the queue's store. Use it from one thread at a time."""

    def __init__(
        self,
        name: str,
        store: DeadLetterStore,
        *,
        ids: Callable[[], UUID],
        visibility_s: float = VISIBILITY_S,
    ) -> None:
        self.name = name
        self._store = store
        self._ids = ids
        self.visibility_s = visibility_s

    def close(self) -> None:
        """Close the connection to the queue's file."""
        self._store.close()

    def browse(self, limit: int) -> Iterator[QueueMessage]:
        """Yield up to `limit` letters, oldest death first; the file is only read."""
        after, told = 0, 0
        while page := self._store.dead_letters(after, min(_PAGE, limit - told)):
            for letter in page:
                yield _message(letter, "")
            after, told = page[-1].position, told + len(page)
            if told >= limit:
                return

    def receive(self, limit: int) -> Sequence[QueueMessage]:
        """Take letters in hand, oldest death first."""
        delivery_id = self._ids().hex
        taken = self._store.take_dead(
            limit, delivery_id=delivery_id, visibility_s=self.visibility_s
        )
        return [_message(letter, f"{letter.position}.{delivery_id}") for letter in taken]

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove letters for good; return the receipts that were no longer valid."""
        if not receipts:
            return []
        deliveries = {receipt: delivery_of(receipt) for receipt in receipts}
        removed = self._store.remove_dead([d for d in deliveries.values() if d is not None])
        return [receipt for receipt, delivery in deliveries.items() if delivery not in removed]

    def hide(self, seconds: Mapping[str, float]) -> None:
        """Keep letters in hand hidden for so long from now on."""
        found = {delivery_of(receipt): length for receipt, length in seconds.items()}
        self._store.hide_dead({each: s for each, s in found.items() if each is not None})

    def release(self, receipts: Sequence[str]) -> None:
        """Let letters be seen again."""
        deliveries = [delivery_of(receipt) for receipt in receipts]
        if deliveries:
            self._store.release_dead([each for each in deliveries if each is not None])

    def status(self) -> DeadLetterStatus:
        """Count what is there."""
        return self._store.dead_status()


def _message(letter: DeadLetter, receipt: str) -> QueueMessage:
    return QueueMessage(
        message_id=letter.message_id,
        receipt=receipt,
        body=letter.body,
        receive_count=letter.receive_count,
        sent_at=letter.sent_at,
    )

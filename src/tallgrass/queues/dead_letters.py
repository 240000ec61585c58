"""The place of a queue's dead letters, as a drain needs it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallgrass.queues.protocol import VISIBILITY_S_MAX, QueueMessage

#: Letters looked at together. SQS hands out 120,000 of a queue at a time, and no more.
LETTERS_MAX = 100_000
#: SQS counts its limit from the receive on, which is a while ago.
_HIDDEN_S_MAX = VISIBILITY_S_MAX / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStatus:
    """How many letters there are."""

    visible: int
    #: In somebody's hand.
    in_flight: int


class DeadLetterPlace(Protocol):
    """Letters are hidden while somebody holds them: two drains never hold the same one."""

    name: str
    #: For how long a receive hides letters.
    visibility_s: float

    def browse(self, limit: int) -> Iterator[QueueMessage]:
        """Yield up to `limit` letters, each once; nothing is taken away."""

    def receive(self, limit: int) -> Sequence[QueueMessage]:
        """Take up to `limit` letters in hand; they are hidden for the visibility timeout."""

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove letters for good; return the receipts that were no longer valid."""

    def hide(self, seconds: Mapping[str, float]) -> None:
        """Keep letters in hand, by receipt, hidden for so long from now on."""

    def release(self, receipts: Sequence[str]) -> None:
        """Let letters be seen again; one that is no longer in hand is left alone."""

    def status(self) -> DeadLetterStatus:
        """Count what is there."""

    def close(self) -> None:
        """Let go of connections."""


class Met:
    """The letters that somebody met while looking through a place."""

    def __init__(self, place: DeadLetterPlace) -> None:
        self._place = place
        self._times: Counter[str] = Counter()

    def fresh(self, messages: Sequence[QueueMessage]) -> list[QueueMessage]:
        """Return those that are met for the first time.

        One whose hidden time ended is hidden for twice as long as the last time: what lies behind
        it is reached, however slowly letters are taken.
        """
        fresh = [message for message in messages if message.message_id not in self._times]
        self._times.update({message.message_id for message in messages})
        again = {
            message.receipt: min(
                self._place.visibility_s * 2 ** (self._times[message.message_id] - 1),
                _HIDDEN_S_MAX,
            )
            for message in messages
            if self._times[message.message_id] > 1
        }
        if again:
            self._place.hide(again)
        return fresh


def letters_by_receiving(place: DeadLetterPlace, limit: int, batch: int) -> Iterator[QueueMessage]:
    """Browse a place that shows its letters only to those who hold them; give them back."""
    held: dict[str, str] = {}
    met = Met(place)
    try:
        while len(held) < limit:
            messages = place.receive(min(batch, limit - len(held)))
            held |= {message.message_id: message.receipt for message in messages}
            if not messages:
                return
            yield from met.fresh(messages)
    finally:
        place.release(list(held.values()))

"""The dead letters of an SQS queue: the queue that its redrive policy names."""

from collections.abc import Iterator, Mapping, Sequence

from tallgrass.queues.dead_letters import DeadLetterStatus, letters_by_receiving
from tallgrass.queues.protocol import OpenQueue, QueueMessage

#: Letters asked for together while all are looked at.
_PAGE = 500


class SqsDeadLetters:
    """The place of dead letters over the dead-letter queue itself."""

    def __init__(self, queue: OpenQueue, *, visibility_s: float) -> None:
        self.name = queue.name
        self.visibility_s = visibility_s
        self._queue = queue

    def close(self) -> None:
        """End threads and connections."""
        self._queue.close()

    def browse(self, limit: int) -> Iterator[QueueMessage]:
        """Yield up to `limit` letters; SQS shows them only to those who hold them."""
        return letters_by_receiving(self, limit, _PAGE)

    def receive(self, limit: int) -> Sequence[QueueMessage]:
        """Take letters in hand."""
        return self._queue.receive(limit)

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove letters for good; return the receipts that SQS called invalid."""
        return self._queue.delete(receipts)

    def hide(self, seconds: Mapping[str, float]) -> None:
        """Keep letters in hand hidden for so long from now on."""
        self._queue.change_visibility(list(seconds.items()))

    def release(self, receipts: Sequence[str]) -> None:
        """Let letters be seen again."""
        self._queue.change_visibility([(receipt, 0.0) for receipt in receipts])

    def status(self) -> DeadLetterStatus:
        """Count what is there, as nearly as SQS knows."""
        found = self._queue.status()
        return DeadLetterStatus(visible=found.visible, in_flight=found.in_flight)

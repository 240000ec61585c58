"""The deliveries that a worker has in hand, kept hidden for as long as it works on them.

The heartbeat renews the lease and, with it, hides the batch's messages again when their time runs
short: else a long batch would be delivered to others while its units are still held here. SQS hides
a message for at most twelve hours from its receipt; so does this, for every queue.

What a batch that was cut off had received stays in hand and is the next batch. Were it received
again, a store that takes nothing for half an hour would spend all deliveries of its messages.
"""

import threading
from collections.abc import Callable, Sequence

from tallgrass.intake.message import ParsedMessage
from tallgrass.queues.protocol import VISIBILITY_S_MAX, Queue, QueueMessage

#: Clocks and requests are not exact: stay this far below the ceiling.
CEILING_MARGIN_S = 5.0


class HeldMessages:
    """One batch of deliveries at a time; the worker holds and releases, the heartbeat extends."""

    def __init__(
        self, *, visibility_s: float, lease_s: float, monotonic: Callable[[], float]
    ) -> None:
        #: As long as the lease at least, whatever the queue's own time is.
        self._visibility_s = max(visibility_s, lease_s)
        self._first_s = visibility_s
        self._lease_s = lease_s
        self._monotonic = monotonic
        # Held while the queue is asked to extend: after a release nothing is extended any more, so
        # that a message that was handed back is not hidden again by a beat that came late.
        self._lock = threading.Lock()
        self._receipts: tuple[str, ...] = ()
        self._received_at = 0.0
        self._hidden_until = 0.0
        #: The messages of a batch that was cut off, and what they are, if that was known by then.
        self.cut_off: tuple[Sequence[QueueMessage], list[ParsedMessage]] | None = None

    def receiving(self) -> float:
        """Return the time from which the next deliveries count as received."""
        return self._monotonic()

    def hold(self, receipts: Sequence[str], received_at: float) -> None:
        """Take a batch in hand; it replaces the one before."""
        self.cut_off = None
        with self._lock:
            self._receipts = tuple(receipts)
            self._received_at = received_at
            self._hidden_until = received_at + self._first_s

    def keep(self, messages: Sequence[QueueMessage], parsed: list[ParsedMessage]) -> None:
        """Leave a batch that was cut off in hand: it is the next one."""
        self.cut_off = (messages, parsed)

    def release(self) -> None:
        """Let the batch go: what becomes of its messages is decided elsewhere."""
        self.cut_off = None
        with self._lock:
            self._receipts = ()

    def hideable_s(self) -> float:
        """Return for how long from now the batch's messages can still be hidden."""
        ceiling = self._received_at + VISIBILITY_S_MAX - CEILING_MARGIN_S
        return max(0.0, ceiling - self._monotonic())

    def extend(self, queue: Queue) -> None:
        """Hide the batch again if its time runs short, up to the ceiling.

        A receipt that is no longer valid is let go: its message is in other hands.
        """
        with self._lock:
            now = self._monotonic()
            if not self._receipts or self._hidden_until - now > self._lease_s:
                return
            hidden_s = min(self._visibility_s, self.hideable_s())
            if not hidden_s or now + hidden_s <= self._hidden_until:
                return  # at the ceiling
            stale = set(
                queue.change_visibility([(receipt, hidden_s) for receipt in self._receipts])
            )
            self._receipts = tuple(receipt for receipt in self._receipts if receipt not in stale)
            self._hidden_until = now + hidden_s

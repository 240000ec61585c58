"""A batch that the store's failure cut off: its claims are handed back before the next one.

The worker lives on and renews its lease, so nobody else may take what it holds.
"""

from typing import Protocol

from tallgrass.errors import CommitUnknown, DatabaseUnreachable, TransientError
from tallgrass.ledger.claim import WorkerLease

#: What a unit whose own data bring the server down looks like from here. A store that is locked or
#: full is never a unit's doing.
_STORE_LOST = (DatabaseUnreachable, CommitUnknown)


class HandsBack(Protocol):
    """Leases as far as they hand back."""

    def hand_back(self, worker: WorkerLease, *, store_lost: bool = False) -> tuple[str, ...]:
        """Give back what a lease still holds, and keep the lease."""


class Unsettled:
    """What a worker may hold without knowing it, after a batch that did not come to its end."""

    def __init__(self, leases: HandsBack, lease: WorkerLease) -> None:
        self._leases = leases
        self._lease = lease
        self._cut_off_by: TransientError | None = None

    def note(self, error: TransientError) -> None:
        """Remember what cut a batch off; errors that follow only keep it from being settled."""
        if self._cut_off_by is None:
            self._cut_off_by = error

    def settle(self) -> tuple[str, ...]:
        """Hand back what is still held, if a batch was cut off; return the units."""
        if self._cut_off_by is None:
            return ()
        store_lost = isinstance(self._cut_off_by, _STORE_LOST)
        handed_back = self._leases.hand_back(self._lease, store_lost=store_lost)
        self._cut_off_by = None
        return handed_back

"""A batch that was cut off: what is handed back when, and what its units are told to have cost."""

from __future__ import annotations

import pytest

from tallgrass.errors import (
    CommitUnknown,
    DatabaseFull,
    DatabaseLocked,
    DatabaseUnreachable,
    QueueUnreachable,
    TransactionConflict,
    TransientError,
)
from tallgrass.ledger.claim import WorkerLease
from tallgrass.unsettled import Unsettled

LEASE = WorkerLease(incarnation="i", worker_id="w", ingest_run_id="r", lease_s=60)


class Leases:
    """Notes what is handed back; may fail first."""

    def __init__(self, *failures: TransientError) -> None:
        self._failures = list(failures)
        self.handed_back: list[bool] = []

    def hand_back(self, worker: WorkerLease, *, store_lost: bool = False) -> tuple[str, ...]:
        """Hand back one unit."""
        assert worker is LEASE
        if self._failures:
            raise self._failures.pop(0)
        self.handed_back.append(store_lost)
        return ("unit",)


def test_nothing_is_handed_back_for_nothing() -> None:
    """A worker whose batches came to their end costs no statement."""
    leases = Leases()
    assert Unsettled(leases, LEASE).settle() == ()
    assert leases.handed_back == []


@pytest.mark.parametrize(
    ("error", "store_lost"),
    [
        (DatabaseUnreachable("gone"), True),
        (CommitUnknown("gone in COMMIT"), True),
        (DatabaseLocked("locked"), False),
        (DatabaseFull("full"), False),
        (TransactionConflict("again and again"), False),
        (QueueUnreachable("no queue"), False),
    ],
)
def test_only_a_lost_connection_can_be_a_units_doing(
    error: TransientError, *, store_lost: bool
) -> None:
    """It is handed back once, with what cut it off."""
    leases = Leases()
    unsettled = Unsettled(leases, LEASE)
    unsettled.note(error)
    assert unsettled.settle() == ("unit",)
    assert unsettled.settle() == ()
    assert leases.handed_back == [store_lost]


@pytest.mark.parametrize(
    ("first", "then", "store_lost"),
    [
        (DatabaseLocked("locked"), DatabaseUnreachable("gone"), False),
        (DatabaseUnreachable("gone"), DatabaseLocked("locked"), True),
    ],
)
def test_what_keeps_it_from_being_settled_is_not_what_cut_it_off(
    first: TransientError, then: TransientError, *, store_lost: bool
) -> None:
    """A hand-back that fails is tried again, and the first error counts."""
    leases = Leases(then)
    unsettled = Unsettled(leases, LEASE)
    unsettled.note(first)
    with pytest.raises(type(then)) as caught:
        unsettled.settle()
    unsettled.note(caught.value)
    assert unsettled.settle() == ("unit",)
    assert leases.handed_back == [store_lost]

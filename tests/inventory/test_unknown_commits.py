"""A listing's batch whose COMMIT was not answered: none of its objects is left unrecorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, ObjectReference
from tallgrass.ledger.vocabulary import Intent
from tallgrass.storage.inventory_store import InventoryStore
from tests.contract.scene import Scene
from tests.contract.twisted import LANDED, UNDONE, Twisted
from tests.support.builders import EVENT_TIME, unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

COUNT = 5


class Listed:
    """An inventory whose first COMMIT ends as told, and what happens before it is asked about."""

    def __init__(self, backend: Backend, fate: str, meanwhile: Callable[[Scene], object]) -> None:
        other = Scene(backend)
        scene = Scene(backend, sleep=lambda _s: meanwhile(other))
        self.twisted = Twisted(scene, commits=[fate])
        self._store = InventoryStore(
            scene.stores.runner,
            LedgerRules(),
            worker_id="backfill",
            run_id="run-of-the-backfill",
            intent=Intent.BACKFILL,
        )

    def record(self, units: list[IngestUnit]) -> list[str]:
        """Record units; return what is told of each."""
        return [decision.action.value for decision in self._store.record_due(units)]


def listed(number: int, **changes: Any) -> IngestUnit:
    """Return a unit as a listing tells of it."""
    return unit(number, queue="listing", event=EventMetadata(event_time=EVENT_TIME), **changes)


def test_another_worker_that_records_an_object_does_not_speak_for_the_batch(
    backend: Backend,
) -> None:
    """Nothing of it is there, but a worker heard of its first object: it is written again."""
    listing = Listed(backend, UNDONE, lambda other: other.announce(unit(0)))
    told = listing.record([listed(number) for number in range(COUNT)])
    assert told == ["wait", *["claim"] * (COUNT - 1)]
    found = backend.sql(
        "SELECT status, recorded_by, count(*) FROM wal_records GROUP BY 1, 2 ORDER BY 1"
    )
    assert found == [("in_progress", "w", 1), ("pending", "backfill", COUNT - 1)]


@pytest.mark.parametrize("claimed", [0, 1])
def test_a_batch_that_landed_is_not_written_again(backend: Backend, claimed: int) -> None:
    """Though a worker may have begun with it: the work, and the question."""
    listing = Listed(backend, LANDED, lambda other: other.due(claimed) if claimed else None)
    assert listing.record([listed(number) for number in range(COUNT)]) == ["claim"] * COUNT
    assert listing.twisted.begun == 2


def test_a_batch_that_workers_took_whole_is_looked_at_again(backend: Backend) -> None:
    """Nobody can tell whose it was; written again it changes nothing."""
    listing = Listed(backend, LANDED, lambda other: other.due(COUNT))
    assert listing.record([listed(number) for number in range(COUNT)]) == ["wait"] * COUNT
    assert backend.sql("SELECT DISTINCT status, attempts, version FROM wal_records") == [
        ("in_progress", 1, 2)
    ]


@pytest.mark.parametrize("fate", [LANDED, UNDONE])
def test_overwritten_objects_are_due_whoever_moved_one_of_them(backend: Backend, fate: str) -> None:
    """A unit that somebody else moved meanwhile does not speak for the others."""
    scene = Scene(backend)
    ids = [scene.succeed(number) for number in range(2)]
    newer = [
        replace(listed(number), object_ref=ObjectReference(etag="newer", size=7 + number))
        for number in range(2)
    ]

    def moved(other: Scene) -> None:
        if fate == UNDONE:
            backend.sql("UPDATE wal_records SET version = version + 1 WHERE wal_id = ?", ids[0])
        del other

    Listed(backend, fate, moved).record(newer)
    rows = [scene.row(wal_id) for wal_id in ids]
    assert [row["rerun_intent"] for row in rows] == ["reingest", "reingest"]
    assert all(row["due_at"] is not None for row in rows)


def test_a_batch_that_wrote_nothing_is_done(backend: Backend) -> None:
    """All is known already: there is nothing that could be missing."""
    scene = Scene(backend)
    for number in range(2):
        scene.park(number)
    listing = Listed(backend, UNDONE, lambda _other: None)
    assert listing.record([listed(number) for number in range(2)]) == ["due", "due"]
    assert listing.twisted.begun == 2

"""The receipt table as the store answers it, for every state of a unit and every object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.retry import Backoff
from tests.contract.scene import Scene
from tests.support.builders import overwritten, unit

if TYPE_CHECKING:
    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

OBJECTS: dict[str, IngestUnit] = {
    "same": unit(0),
    "newer": overwritten(0, "0055AED6DCD90281E6"),
    "older": overwritten(0, "0055AED6DCD90281E4"),
    "incomparable": unit(0, object_ref=ObjectReference()),
}

#: State → answers to a same, newer, older and incomparable object.
TABLE = {
    "no record": ("claim", "claim", "claim", "claim"),
    "pending": ("claim", "claim", "ignore_older", "claim"),
    "in_progress": ("wait", "wait", "ignore_older", "wait"),
    "in_progress lost": ("due", "park", "ignore_older", "due"),
    "failed": ("claim", "claim", "ignore_older", "claim"),
    "succeeded": ("duplicate", "claim", "ignore_older", "claim"),
    "quarantined": ("held", "record_newer", "held", "held"),
}
CASES = [
    pytest.param(state, order, action, id=f"{state}-{order}")
    for state, actions in TABLE.items()
    for order, action in zip(OBJECTS, actions, strict=True)
]


@pytest.mark.parametrize(("state", "order", "action"), CASES)
@pytest.mark.conformance("C-10", "C-03")
def test_each_pair_has_its_answer(backend: Backend, state: str, order: str, action: str) -> None:
    """The store answers by the table, and opens an attempt exactly when it says claim."""
    scene = Scene(backend)
    if state != "no record":
        scene.at(state.removesuffix(" lost"))
    if state.endswith("lost"):
        backend.expire(scene.worker)
        scene.worker = scene.register("w")
    attempts = backend.sql("SELECT count(*) FROM wal_attempts")[0][0]
    [receipt] = scene.announce(OBJECTS[order])
    assert receipt.decision.action.value == action
    claimed = action == "claim"
    assert (receipt.claim is not None) == claimed
    assert backend.sql("SELECT count(*) FROM wal_attempts") == [(attempts + claimed,)]
    assert backend.sql("SELECT count(*) FROM wal_records") == [(1,)]
    if receipt.claim:
        newest = backend.rows("SELECT * FROM wal_attempts ORDER BY attempt_no DESC")[0]
        assert newest["object_sequencer"] == OBJECTS[order].object_ref.sequencer
        expected = "reingest" if state == "succeeded" else "ingest"
        assert newest["intent"] == expected


def test_a_failed_unit_waits_for_its_back_off(backend: Backend) -> None:
    """Before its back-off ends a redelivery waits for the rest of it; a newer object does not."""
    slow = LedgerRules(backoff=Backoff(base_s=3600, cap_s=3600))
    scene = Scene(backend, slow, draw=lambda: 0.5)
    wal_id = scene.fail()
    before = scene.row(wal_id)
    [receipt] = scene.announce(unit(0))
    assert receipt.decision.action is Action.WAIT
    assert 1700 < receipt.decision.wait_s <= 1800
    assert scene.row(wal_id) == before
    assert scene.announce(overwritten(0))[0].decision.action is Action.CLAIM


def test_a_failed_unit_whose_code_is_not_retried_is_left(backend: Backend) -> None:
    """No attempt is spent on it: the queue's redrive takes its message."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "stac_validation_failed")
    before = scene.row(wal_id)
    assert scene.announce(unit(0))[0].decision.action is Action.LEAVE_FAILED
    assert scene.due() == []
    assert scene.row(wal_id) == before


@pytest.mark.conformance("WAL-3.1", "C-03")
def test_an_object_keeps_its_record_after_a_corrected_grammar(backend: Backend) -> None:
    """Found by its address first: another dataset or start for it makes no second record."""
    scene = Scene(backend)
    wal_id = scene.fail()
    renamed = unit(0, dataset="goes-glm-l2", object_uri=unit(0).object_uri)
    assert renamed.wal_id != wal_id
    [receipt] = scene.announce(renamed)
    assert receipt.claim is not None
    assert (receipt.claim.wal_id, receipt.claim.unit.dataset) == (wal_id, "goes-glm")
    assert backend.sql("SELECT wal_id, dataset FROM wal_records") == [(wal_id, "goes-glm")]


@pytest.mark.conformance("WAL-3.1")
def test_reordered_and_repeated_events_leave_one_record(backend: Backend) -> None:
    """Whatever comes how often in what order, a unit has one row."""
    scene = Scene(backend)
    for order in ("newer", "older", "same", "incomparable", "newer", "older"):
        scene.announce(OBJECTS[order], OBJECTS["same"])
    assert backend.sql("SELECT count(*) FROM wal_records") == [(1,)]

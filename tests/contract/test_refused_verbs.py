"""What the ledger refuses a person: the error, the untouched row, the audit entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import IllegalTransition, InvalidInput, UnknownRecord, VersionConflict
from tests.contract.scene import STATUSES, Scene
from tests.support.builders import failure, success
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from tallgrass.storage.interventions import Moved
    from tests.support.backends import Backend

LEGAL = {"pending", "failed"}
UNKNOWN = "0e0e0e0e-0000-8000-8000-000000000001"


def hold(scene: Scene, *selection: tuple[str, int]) -> Moved:
    """Quarantine units at the versions given."""
    return scene.stores.interventions.quarantine(selection, reason="looks wrong", actor="ann")


@pytest.mark.conformance(
    "WAL-4.6", "WAL-4.7", "WAL-10.3", "SM-3.2", "SM-3.3", "SM-3.4", "SM-4.6a", "SM-9.1"
)
def test_a_hold_moves_only_along_a_legal_edge(backend: Backend) -> None:
    """From any other status it is an IllegalTransition, audited, with row and version as before."""
    scene = Scene(backend)
    ids = {status: scene.at(status, number) for number, status in enumerate(STATUSES)}
    before = {status: scene.row(wal_id) for status, wal_id in ids.items()}
    selection = [(wal_id, before[status]["version"]) for status, wal_id in ids.items()]
    moved = hold(scene, *selection)
    assert set(moved.done) == {ids[status] for status in LEGAL}
    for status in set(STATUSES) - LEGAL:
        wal_id = ids[status]
        assert type(moved.refused[wal_id]) is IllegalTransition
        assert scene.row(wal_id) == before[status]
        assert ("ann", "quarantine_refused", "illegal_transition") in scene.audit(wal_id)


@pytest.mark.conformance("WAL-3.15", "SM-3.4")
def test_a_hold_decided_on_an_older_version_is_refused(backend: Backend) -> None:
    """Who read the record before its last write gets a VersionConflict; nothing moves."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.row(wal_id)
    for version in (before["version"] - 1, before["version"] + 1):
        moved = hold(scene, (wal_id, version))
        assert type(moved.refused[wal_id]) is VersionConflict
    assert scene.row(wal_id) == before
    assert scene.audit(wal_id) == [("ann", "quarantine_refused", "version_conflict")] * 2


def test_a_refused_unit_does_not_hold_up_its_neighbours(backend: Backend) -> None:
    """Of a selection each unit is judged alone; an unknown one is named and audited."""
    scene = Scene(backend)
    wal_id = scene.fail()
    moved = hold(scene, (wal_id, scene.row(wal_id)["version"]), (UNKNOWN, 1))
    assert moved.done == (wal_id,)
    assert type(moved.refused[UNKNOWN]) is UnknownRecord
    assert scene.audit(UNKNOWN) == [("ann", "quarantine_refused", "record_unknown")]


def test_a_unit_named_twice_moves_once(backend: Backend) -> None:
    """A selection that names a unit twice is one move."""
    scene = Scene(backend)
    wal_id = scene.fail()
    pair = (wal_id, scene.row(wal_id)["version"])
    assert hold(scene, pair, pair).done == (wal_id,)
    assert scene.row(wal_id)["version"] == pair[1] + 1


@pytest.mark.parametrize("actor", ["", "  "])
def test_a_verb_needs_somebody_who_does_it(backend: Backend, actor: str) -> None:
    """Nobody is no actor: all verbs refuse before they look at the ledger."""
    stores = Scene(backend).stores
    verbs = stores.interventions
    with pytest.raises(InvalidInput):
        put_back(stores, [(UNKNOWN, 1)], actor=actor)
    with pytest.raises(InvalidInput):
        verbs.quarantine([(UNKNOWN, 1)], reason="why", actor=actor)
    with pytest.raises(InvalidInput):
        verbs.annotate(UNKNOWN, 1, actor=actor, note="text")


@pytest.mark.conformance("SM-3.4", "SM-4.4a", "WAL-4.7")
def test_a_claim_that_was_closed_cannot_be_committed_again(backend: Backend) -> None:
    """A second report on an attempt is lost, whatever it says; the tables stay as they are."""
    scene = Scene(backend)
    claim = scene.claim()
    scene.commit(success(claim))
    before = scene.tables()
    for outcome in (success(claim), failure(claim), failure(claim, "governance_hard_fail")):
        result = scene.commit(outcome)
        assert result.lost == (claim.wal_id,)
        assert not result.closed
    assert scene.tables() == before

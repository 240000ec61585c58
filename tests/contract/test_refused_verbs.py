"""Verbs that the ledger refuses: the error, the untouched row, the audit entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import IllegalTransition, InvalidInput, UnknownRecord, VersionConflict
from tests.contract.scene import STATUSES, Scene
from tests.support.builders import failure, success

if TYPE_CHECKING:
    from tallgrass.storage.interventions import Moved
    from tests.support.backends import Backend

LEGAL_TARGETS = {"replay": {"failed"}, "quarantine": {"pending", "failed"}}
UNKNOWN = "0e0e0e0e-0000-8000-8000-000000000001"


def move(scene: Scene, verb: str, *selection: tuple[str, int]) -> Moved:
    """Use one of the two verbs."""
    if verb == "replay":
        return scene.stores.interventions.put_back(
            selection, reason="incident", actor="ann", replay_run_id="r-1"
        )
    return scene.stores.interventions.quarantine(selection, reason="looks wrong", actor="ann")


@pytest.mark.parametrize("verb", ["replay", "quarantine"])
@pytest.mark.conformance(
    "WAL-4.6", "WAL-4.7", "WAL-10.3", "SM-3.2", "SM-3.3", "SM-3.4", "SM-4.6a", "SM-9.1"
)
def test_a_verb_moves_only_along_a_legal_edge(backend: Backend, verb: str) -> None:
    """From any other status it is an IllegalTransition, audited, with row and version as before."""
    scene = Scene(backend)
    ids = {status: scene.at(status, number) for number, status in enumerate(STATUSES)}
    before = {status: scene.row(wal_id) for status, wal_id in ids.items()}
    selection = [(wal_id, before[status]["version"]) for status, wal_id in ids.items()]
    moved = move(scene, verb, *selection)
    legal = LEGAL_TARGETS[verb]
    assert set(moved.done) == {ids[status] for status in legal}
    for status in set(STATUSES) - legal:
        wal_id = ids[status]
        assert type(moved.refused[wal_id]) is IllegalTransition
        assert scene.row(wal_id) == before[status]
        assert ("ann", f"{verb}_refused", "illegal_transition") in scene.audit(wal_id)


@pytest.mark.parametrize("verb", ["replay", "quarantine"])
@pytest.mark.conformance("WAL-3.15", "SM-3.4")
def test_a_verb_decided_on_an_older_version_is_refused(backend: Backend, verb: str) -> None:
    """Who read the record before its last write gets a VersionConflict; nothing moves."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.row(wal_id)
    for version in (before["version"] - 1, before["version"] + 1):
        moved = move(scene, verb, (wal_id, version))
        assert type(moved.refused[wal_id]) is VersionConflict
    assert scene.row(wal_id) == before
    assert scene.audit(wal_id) == [("ann", f"{verb}_refused", "version_conflict")] * 2


@pytest.mark.parametrize("verb", ["replay", "quarantine"])
def test_a_refused_unit_does_not_hold_up_its_neighbours(backend: Backend, verb: str) -> None:
    """Of a selection each unit is judged alone; an unknown one is named and audited."""
    scene = Scene(backend)
    wal_id = scene.fail()
    moved = move(scene, verb, (wal_id, scene.row(wal_id)["version"]), (UNKNOWN, 1))
    assert moved.done == (wal_id,)
    assert type(moved.refused[UNKNOWN]) is UnknownRecord
    assert scene.audit(UNKNOWN) == [("ann", f"{verb}_refused", "record_unknown")]


@pytest.mark.parametrize("actor", ["", "  "])
def test_a_verb_needs_somebody_who_does_it(backend: Backend, actor: str) -> None:
    """Nobody is no actor: all three verbs refuse before they look at the ledger."""
    verbs = Scene(backend).stores.interventions
    with pytest.raises(InvalidInput):
        verbs.put_back([(UNKNOWN, 1)], reason="test", actor=actor, replay_run_id="r")
    with pytest.raises(InvalidInput):
        verbs.quarantine([(UNKNOWN, 1)], reason="why", actor=actor)
    with pytest.raises(InvalidInput):
        verbs.annotate(UNKNOWN, 1, actor=actor, kind="note", note="text")


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
        assert not result.verdicts
    assert scene.tables() == before

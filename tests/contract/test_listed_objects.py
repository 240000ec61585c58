"""Objects that were listed before they are announced: a listing tells no place in their order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import Intent
from tallgrass.retry import Backoff
from tallgrass.storage.inventory_store import InventoryStore
from tests.contract.scene import Scene
from tests.support.builders import failure, overwritten, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend

SLOW = LedgerRules(backoff=Backoff(base_s=3600, cap_s=3600))
OLDER, NEWER = unit(0), overwritten(0)
#: What a listing without etags, and one with them, tells of the newer version.
SIZED = ObjectReference(size=NEWER.object_ref.size)
NAMED = ObjectReference(etag=NEWER.object_ref.etag, size=NEWER.object_ref.size)


def listed(scene: Scene, reference: ObjectReference) -> None:
    """List the object, as a backfill does."""
    store = InventoryStore(
        scene.stores.runner,
        LedgerRules(),
        worker_id="lister",
        run_id="11111111-1111-4111-8111-111111111111",
        intent=Intent.BACKFILL,
    )
    store.record_due([unit(0, object_ref=reference)])


def moves(scene: Scene, wal_id: str) -> list[tuple[str, str, str]]:
    """Return the edges that the journal tells of a unit: kind, where to, why."""
    return scene.backend.sql(
        "SELECT kind, to_status, reason FROM wal_transitions WHERE wal_id = ? ORDER BY to_version",
        wal_id,
    )


def half() -> float:
    """Draw one half."""
    return 0.5


def answer(scene: Scene, announced: object) -> Action:
    """Announce a version; return what becomes of it."""
    return scene.announce(announced)[0].decision.action  # type: ignore[arg-type]


def test_a_message_that_may_go_leaves_its_place_in_the_order(backend: Backend) -> None:
    """While the switch is on a message is let go; an older one that comes again stays older."""
    scene = Scene(backend)
    listed(scene, SIZED)
    scene.switch(is_on=True)
    assert answer(scene, NEWER) is Action.PARK
    assert answer(scene, OLDER) is Action.IGNORE_OLDER
    scene.switch(is_on=False)
    [claim] = scene.due()
    assert claim.unit.object_ref == ObjectReference(sequencer=NEWER.object_ref.sequencer)


def test_so_does_one_whose_unit_is_due_by_itself(backend: Backend) -> None:
    """A unit that lost its worker runs by the ledger's schedule; when and why does not change."""
    scene = Scene(backend)
    listed(scene, ObjectReference(size=1))
    [lost] = scene.due()
    scene.crash()
    listed(scene, SIZED)
    before = scene.row(lost.wal_id)
    assert answer(scene, NEWER) is Action.DUE
    after = scene.row(lost.wal_id)
    assert (after["due_at"], after["status"], after["rerun_intent"]) == (
        before["due_at"], "pending", None,
    )  # fmt: skip
    assert answer(scene, OLDER) is Action.IGNORE_OLDER
    [claim] = scene.due()
    assert claim.unit.object_ref.sequencer == NEWER.object_ref.sequencer


def test_a_rerun_that_is_due_stays_what_it_was(backend: Backend) -> None:
    """What a message tells of a finished unit's object is kept; the re-run keeps its intent."""
    scene = Scene(backend)
    listed(scene, ObjectReference(size=1))
    [claim] = scene.due()
    scene.commit(success(claim))
    listed(scene, SIZED)
    scene.due()
    scene.crash()
    listed(scene, ObjectReference(size=3))
    backend.sql("UPDATE wal_records SET rerun_intent = 'repair', version = version + 1")
    assert answer(scene, NEWER) is Action.DUE
    assert scene.row(claim.wal_id)["rerun_intent"] == "repair"
    assert answer(scene, OLDER) is Action.IGNORE_OLDER


def test_so_does_one_for_an_object_that_was_tried_before(backend: Backend) -> None:
    """The object known without a place in the order may be that of an earlier attempt."""
    scene = Scene(backend)
    listed(scene, NAMED)
    [lost] = scene.due()
    scene.crash()
    assert answer(scene, NEWER) is Action.DUE
    assert moves(scene, lost.wal_id)[-1] == ("park", "pending", "announced_object")
    assert answer(scene, OLDER) is Action.IGNORE_OLDER
    [claim] = scene.due()
    assert claim.unit.object_ref == NEWER.object_ref


def test_so_does_one_whose_unit_failed_and_is_switched_off(backend: Backend) -> None:
    """It becomes due when its back-off ends, as without the message: no newer object is there."""
    scene = Scene(backend, SLOW, draw=half)
    listed(scene, NAMED)
    [claim] = scene.due()
    scene.commit(failure(claim))
    before = scene.row(claim.wal_id)
    scene.switch(is_on=True)
    assert answer(scene, NEWER) is Action.PARK
    after = scene.row(claim.wal_id)
    assert (after["status"], after["due_at"], after["budget_from"]) == (
        "pending", before["retry_after"], before["budget_from"],
    )  # fmt: skip
    assert after["due_at"] > after["updated_at"]
    assert answer(scene, OLDER) is Action.IGNORE_OLDER


def test_so_does_one_whose_unit_is_held(backend: Backend) -> None:
    """A release uses the newest object known, so a held unit must know which one that is."""
    scene = Scene(backend)
    listed(scene, NAMED)
    [claim] = scene.due()
    scene.commit(failure(claim, "governance_hard_fail"))
    assert answer(scene, NEWER) is Action.HELD
    assert moves(scene, claim.wal_id)[-1] == ("park", "quarantined", "announced_object")
    assert answer(scene, OLDER) is Action.HELD
    row = scene.row(claim.wal_id)
    assert json.loads(row["next_object"])["sequencer"] == NEWER.object_ref.sequencer
    assert (row["status"], row["due_at"]) == ("quarantined", None)


def test_so_does_one_that_finds_its_unit_at_the_limit(backend: Backend) -> None:
    """The unit is held by this message, and keeps what it tells."""
    scene = Scene(backend, LedgerRules(max_attempts=2))
    listed(scene, NAMED)
    [claim] = scene.due()
    scene.crash()
    scene.due()
    scene.crash()
    assert answer(scene, NEWER) is Action.QUARANTINE
    assert moves(scene, claim.wal_id)[-2:] == [
        ("quarantine", "quarantined", "attempts_exhausted"),
        ("park", "quarantined", "announced_object"),
    ]
    assert answer(scene, OLDER) is Action.HELD
    row = scene.row(claim.wal_id)
    assert json.loads(row["next_object"])["sequencer"] == NEWER.object_ref.sequencer


def test_the_same_version_is_expected_as_announced(backend: Backend) -> None:
    """The listed etag is the announced one: the attempt expects all that the message tells."""
    scene = Scene(backend)
    listed(scene, NAMED)
    assert scene.claim(NEWER).unit.object_ref == NEWER.object_ref


def test_an_old_message_does_not_undo_what_a_listing_found(backend: Backend) -> None:
    """Nobody can order the two, so any version is right: no etag is expected that is gone."""
    scene = Scene(backend)
    scene.commit(failure(scene.claim(OLDER)))
    listed(scene, NAMED)
    claim = scene.claim(OLDER)
    assert claim.unit.object_ref == ObjectReference(sequencer=OLDER.object_ref.sequencer)
    scene.commit(success(claim, read_etag=NEWER.object_ref.etag))
    assert answer(scene, OLDER) is Action.DUPLICATE
    assert answer(scene, NEWER) is Action.CLAIM


def notes(scene: Scene, wal_id: str) -> list[tuple[int, str, str]]:
    """Return the notes beside a unit's attempts."""
    return scene.backend.sql(
        "SELECT attempt_no, kind, note FROM wal_annotations WHERE wal_id = ?"
        " ORDER BY annotation_id",
        wal_id,
    )


def test_a_message_that_confirms_what_is_done_leaves_its_place_in_the_order(
    backend: Backend,
) -> None:
    """An older message with another etag is older then, and opens no re-run that must fail."""
    scene = Scene(backend)
    listed(scene, NAMED)
    [claim] = scene.due()
    scene.commit(success(claim))
    before = scene.row(claim.wal_id)
    assert answer(scene, NEWER) is Action.DUPLICATE
    assert answer(scene, NEWER) is Action.DUPLICATE
    sequencer = NEWER.object_ref.sequencer
    assert notes(scene, claim.wal_id) == [(1, "announced_sequencer", sequencer)]
    assert scene.row(claim.wal_id) == before
    assert answer(scene, OLDER) is Action.IGNORE_OLDER
    assert answer(scene, overwritten(0, "0055AED6DCD90281E7")) is Action.CLAIM


def test_so_does_one_whose_object_was_listed_without_an_etag(backend: Backend) -> None:
    """The etag that was read is the one that the message tells."""
    scene = Scene(backend)
    listed(scene, SIZED)
    [claim] = scene.due()
    scene.commit(success(claim, read_etag=NEWER.object_ref.etag))
    assert answer(scene, NEWER) is Action.DUPLICATE
    assert answer(scene, OLDER) is Action.IGNORE_OLDER


def test_what_attempts_tell_counts_before_a_note(backend: Backend) -> None:
    """A later attempt that has a sequencer is the newer word; a later listing has none."""
    scene = Scene(backend)
    listed(scene, NAMED)
    [claim] = scene.due()
    scene.commit(success(claim))
    answer(scene, NEWER)
    listed(scene, ObjectReference(etag="listed later", size=5))
    [claim] = scene.due()
    scene.commit(success(claim))
    assert answer(scene, NEWER) is Action.DUPLICATE
    newest = overwritten(0, "0055AED6DCD90281E7")
    scene.commit(success(scene.claim(newest)))
    assert answer(scene, NEWER) is Action.IGNORE_OLDER
    assert answer(scene, newest) is Action.DUPLICATE
    assert len(notes(scene, claim.wal_id)) == 1


def test_a_unit_that_was_announced_first_has_no_note(backend: Backend) -> None:
    """Its attempt has the sequencer; a message that tells none has nothing to leave."""
    scene = Scene(backend)
    claim = scene.claim(NEWER)
    scene.commit(success(claim))
    assert answer(scene, NEWER) is Action.DUPLICATE
    listed(scene, NAMED)
    assert answer(scene, unit(0, object_ref=NAMED)) is Action.DUPLICATE
    assert notes(scene, claim.wal_id) == []

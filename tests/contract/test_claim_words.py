"""What a receipt writes beside its answer: schedule, budget, journal, log and counts, by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.retry import Backoff
from tallgrass.telemetry import names
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, unit
from tests.support.put_back import put_back
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from tests.support.backends import Backend

TWO = LedgerRules(max_attempts=2, backoff=NO_BACKOFF)
#: With a draw of one half, half an hour.
SLOW = LedgerRules(backoff=Backoff(base_s=3600, cap_s=3600))
APPROVE = LedgerRules(backoff=NO_BACKOFF, overwrites={"goes-glm": Overwrite.APPROVE})
E6, E7 = "0055AED6DCD90281E6", "0055AED6DCD90281E7"


def half() -> float:
    """Draw one half."""
    return 0.5


def journal(scene: Scene, wal_id: str) -> list[tuple[Any, ...]]:
    """Return the edges of a unit that no attempt tells, in order."""
    return scene.backend.sql(
        "SELECT kind, from_status, to_status, from_version, actor, reason FROM wal_transitions"
        " WHERE wal_id = ? ORDER BY to_version",
        wal_id,
    )


def noted(backend: Backend, action: str) -> list[tuple[Any, ...]]:
    """Return subject, reason and detail of the entries of one action, in order."""
    rows = backend.sql(
        "SELECT subject, reason, detail FROM audit_log WHERE action = ? ORDER BY entry_id", action
    )
    return [(subject, reason, json.loads(detail)) for subject, reason, detail in rows]


def sequencer(row: dict[str, Any]) -> Any:
    """Return the sequencer of the object that the next attempt shall take."""
    return json.loads(row["next_object"])["sequencer"]


def change(backend: Backend, wal_id: str, columns: str) -> None:
    """Set columns of a record by raw SQL, as an import could have brought them."""
    backend.sql(f"UPDATE wal_records SET {columns}, version = version + 1 WHERE wal_id = ?", wal_id)


def test_extensions_are_kept_as_they_came(backend: Backend) -> None:
    """As canonical JSON; a unit without any has none."""
    declared = {"goes-glm": frozenset({"ext_mode"})}
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, extensions=declared))
    with_one, without = scene.claim(unit(0, extensions={"ext_mode": 3})), scene.claim(1)
    assert scene.row(with_one.wal_id)["extensions"] == '{"ext_mode":3}'
    assert scene.row(without.wal_id)["extensions"] is None


class TestRetrying:
    """A failed unit is pending for the length of one edge before it is claimed."""

    def test_the_journal_has_the_error_that_it_follows(self, backend: Backend) -> None:
        """Recorded, claimed and failed are versions 1 to 3."""
        scene = Scene(backend)
        wal_id = scene.fail(0, "missing_object")
        claim = scene.claim(0)
        assert journal(scene, wal_id) == [("retry", "failed", "pending", 3, "w", "missing_object")]
        assert (claim.version, claim.attempt_no, claim.budget_from) == (5, 2, 0)

    def test_without_a_back_off_it_may_be_claimed(self, backend: Backend) -> None:
        """An imported record may have none."""
        scene = Scene(backend)
        wal_id = scene.fail()
        change(backend, wal_id, "retry_after = NULL")
        assert scene.claim(0).wal_id == wal_id


class TestParking:
    """What a switch stops is made due, and nothing else changes."""

    def test_a_failed_unit_waits_for_its_back_off(self, backend: Backend) -> None:
        """Budget and object stay those of the attempt that failed."""
        scene = Scene(backend, SLOW, draw=half)
        wal_id = scene.fail()
        before = scene.row(wal_id)
        scene.switch(is_on=True)
        scene.announce(unit(0))
        after = scene.row(wal_id)
        assert after["due_at"] == before["retry_after"] > after["updated_at"]
        assert (after["next_object"], after["budget_from"]) == (None, 0)

    def test_a_newer_object_of_a_failed_unit_does_not_wait(self, backend: Backend) -> None:
        """It is due at once, with a budget of its own; the switch is the reason."""
        scene = Scene(backend, SLOW, draw=half)
        wal_id = scene.fail()
        scene.switch(is_on=True)
        scene.announce(overwritten(0, E6))
        row = scene.row(wal_id)
        assert row["due_at"] == row["updated_at"]
        assert (sequencer(row), row["budget_from"]) == (E6, 1)
        assert journal(scene, wal_id) == [("park", "failed", "pending", 3, "w", "kill_switch")]

    def test_a_unit_that_waits_already_is_left_alone(self, backend: Backend) -> None:
        """The same object again writes nothing."""
        scene = Scene(backend)
        wal_id = scene.park()
        scene.switch(is_on=True)
        before = scene.tables()
        assert scene.announce(unit(0))[0].decision.action is Action.PARK
        assert scene.tables() == before
        assert journal(scene, wal_id) == []

    def test_a_unit_that_waits_for_a_message_is_made_due(self, backend: Backend) -> None:
        """Its message goes, so the ledger has to run it; the object that it has is kept."""
        scene = Scene(backend)
        wal_id = scene.park()
        change(backend, wal_id, "due_at = NULL")
        before = scene.row(wal_id)
        scene.switch(is_on=True)
        [receipt] = scene.announce(unit(0, object_ref=ObjectReference()))
        assert (receipt.decision.action, receipt.decision.adopts_object) == (Action.PARK, False)
        after = scene.row(wal_id)
        assert changed(before, after) == {"due_at", "updated_at", "version"}
        assert after["due_at"] == after["updated_at"]
        assert journal(scene, wal_id) == [("park", "pending", "pending", 2, "w", "kill_switch")]

    def test_a_newer_object_keeps_the_time_that_was_set(self, backend: Backend) -> None:
        """A unit that is due later takes the object and a new budget, and stays due then."""
        scene = Scene(backend, SLOW, draw=half)
        claim = scene.claim()
        scene.commit(failure(claim, "not_ready"))
        before = scene.row(claim.wal_id)
        scene.switch(is_on=True)
        scene.announce(overwritten(0, E6))
        after = scene.row(claim.wal_id)
        assert changed(before, after) == {"next_object", "budget_from", "updated_at", "version"}
        assert (sequencer(after), after["budget_from"]) == (E6, 1)
        assert journal(scene, claim.wal_id)[1:] == [
            ("park", "pending", "pending", 4, "w", "newer_object")
        ]

    def test_a_wish_to_run_again_is_due_at_once(self, backend: Backend) -> None:
        """A succeeded unit whose newer object was stopped."""
        scene = Scene(backend)
        wal_id = scene.succeed()
        scene.switch(is_on=True)
        scene.announce(overwritten(0, E6))
        row = scene.row(wal_id)
        assert row["due_at"] == row["updated_at"]
        assert (sequencer(row), row["budget_from"], row["rerun_intent"]) == (E6, 1, "reingest")
        assert journal(scene, wal_id) == [
            ("park", "succeeded", "succeeded", 3, "w", "newer_object")
        ]


class TestHeldUnits:
    """What is told of messages for units that wait for a person."""

    def test_the_log_names_object_and_message(self, backend: Backend) -> None:
        """With the error for which the unit is held."""
        scene = Scene(backend)
        wal_id = scene.at("quarantined")
        scene.announce(unit(0))
        detail = {
            "object_uri": "s3://noaa-goes19/goes-glm/000000.nc",
            "sequencer": "0055AED6DCD90281E5",
            "sqs_message_id": "sqs-0",
        }
        assert noted(backend, "message_for_quarantined") == [
            (wal_id, "quarantined_by_operator", detail)
        ]

    def test_a_newer_object_of_a_held_unit_is_journaled(self, backend: Backend) -> None:
        """It was parked at version 1 and held at 2; it does not become due."""
        scene = Scene(backend)
        wal_id = scene.at("quarantined")
        scene.announce(overwritten(0, E6))
        row = scene.row(wal_id)
        assert (row["due_at"], sequencer(row)) == (None, E6)
        assert journal(scene, wal_id)[1:] == [
            ("park", "quarantined", "quarantined", 2, "w", "newer_object")
        ]

    def test_a_newer_object_that_waits_for_an_approval_changes_no_schedule(
        self, backend: Backend
    ) -> None:
        """A re-run that was due stays due as it was; the log does not call the unit held."""
        scene = Scene(backend)
        wal_id = scene.succeed()
        scene.switch(is_on=True)
        scene.announce(overwritten(0, E6))
        before = scene.row(wal_id)
        strict = Scene(backend, APPROVE)
        assert strict.announce(overwritten(0, E7))[0].decision.action is Action.RECORD_NEWER
        after = strict.row(wal_id)
        assert changed(before, after) == {"next_object", "updated_at", "version"}
        assert (sequencer(after), after["due_at"]) == (E7, before["due_at"])
        assert journal(strict, wal_id)[1:] == [
            ("park", "succeeded", "succeeded", 4, "w", "newer_object")
        ]
        [(subject, reason, detail)] = noted(backend, "newer_object_of_succeeded")
        assert (subject, reason, detail["sequencer"]) == (wal_id, "succeeded", E7)


class TestAtTheLimit:
    """A unit that has used its attempts is held when somebody next looks at it."""

    def spent(self, scene: Scene) -> str:
        """Let a new unit lose two workers."""
        wal_id = scene.claim().wal_id
        scene.crash()
        assert [claim.wal_id for claim in scene.due()] == [wal_id]
        scene.crash()
        return wal_id

    @pytest.mark.parametrize("seen", ["due", "announced"])
    def test_it_is_held_journaled_logged_and_told(self, backend: Backend, seen: str) -> None:
        """By the schedule or by a message: two lost leases end at version 7."""
        recorder = MemoryRecorder()
        scene = Scene(backend, TWO, recorder=recorder)
        wal_id = self.spent(scene)
        quiet = recorder.by_labels(names.WAL_RECORDS)
        if seen == "due":
            assert scene.due() == []
        else:
            assert scene.announce(unit(0))[0].decision.action is Action.QUARANTINE
        row = scene.row(wal_id)
        assert (row["status"], row["last_error_code"]) == ("quarantined", "lease_expired")
        assert journal(scene, wal_id)[-1] == (
            "quarantine", "pending", "quarantined", 7, "w", "attempts_exhausted",
        )  # fmt: skip
        assert noted(backend, "quarantine") == [
            (wal_id, "attempts_exhausted", {"attempts": 2, "last_error_code": "lease_expired"})
        ]
        told = [fields for name, fields in recorder.events if name == names.UNIT_QUARANTINED]
        assert [(f["wal_id"], f["attempt"], f["error_code"]) for f in told] == [
            (wal_id, 2, "lease_expired")
        ]
        assert recorder.by_labels(names.WAL_RECORDS) == {**quiet, ("goes-glm", "quarantined"): 1.0}

    def test_a_record_without_an_error_gets_the_limit_as_its_code(self, backend: Backend) -> None:
        """An import may bring one that is pending at its limit and says nothing of why."""
        scene = Scene(backend, TWO)
        wal_id = self.spent(scene)
        change(backend, wal_id, "last_error_code = NULL, last_error_message = NULL")
        assert scene.due() == []
        row = scene.row(wal_id)
        assert (row["status"], row["last_error_code"]) == ("quarantined", "attempts_exhausted")

    def test_a_succeeded_unit_is_only_no_longer_due(self, backend: Backend) -> None:
        """Its re-run lost two workers: the journal says so, and no log calls it held."""
        recorder = MemoryRecorder()
        scene = Scene(backend, TWO, recorder=recorder)
        wal_id = scene.succeed()
        scene.claim(overwritten(0, E6))
        scene.crash()
        assert len(scene.due()) == 1
        scene.crash()
        assert scene.row(wal_id)["due_at"] is not None
        assert scene.due() == []
        row = scene.row(wal_id)
        assert (row["status"], row["due_at"], row["version"]) == ("succeeded", None, 8)
        assert journal(scene, wal_id) == [
            ("park", "succeeded", "succeeded", 7, "w", "attempts_exhausted")
        ]
        assert noted(backend, "quarantine") == []
        assert names.UNIT_QUARANTINED not in [name for name, _ in recorder.events]
        before = scene.tables()
        [receipt] = scene.announce(unit(0, object_ref=ObjectReference()))
        assert receipt.decision.action is Action.QUARANTINE
        assert scene.tables() == before


def test_a_claim_counts_the_statuses_that_units_enter(backend: Backend) -> None:
    """New ones and retried ones, by dataset; a re-run enters none, nor does a wish for one."""
    setting = Scene(backend)
    setting.fail(0)
    setting.fail(1, dataset="mrms")
    setting.succeed(2)
    again = setting.fail(3)
    version = setting.row(again)["version"]
    put_back(setting.stores, [(again, version)])
    [claim] = setting.due()
    setting.commit(failure(claim))
    recorder = MemoryRecorder()
    scene = Scene(backend, recorder=recorder)
    scene.announce(unit(0), unit(1, dataset="mrms"), overwritten(2), unit(3), unit(9))
    assert recorder.by_labels(names.WAL_RECORDS) == {
        ("goes-glm", "pending"): 3.0, ("goes-glm", "in_progress"): 3.0,
        ("mrms", "pending"): 1.0, ("mrms", "in_progress"): 1.0,
    }  # fmt: skip
    assert recorder.by_labels(names.WAL_REPLAYS) == {
        ("goes-glm", "none"): 1.0, ("mrms", "none"): 1.0, ("goes-glm", "backfill"): 1.0,
    }  # fmt: skip
    setting.succeed(5)
    counted = recorder.by_labels(names.WAL_RECORDS)
    scene.switch(is_on=True)
    scene.announce(overwritten(5))
    assert recorder.by_labels(names.WAL_RECORDS) == counted

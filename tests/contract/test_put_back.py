"""failed → pending by a replay: what it needs, what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, UnknownRecord
from tallgrass.governance.references import ReferenceKind
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.rules import LedgerRules
from tests.contract.scene import STATUSES, Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from tests.support.backends import Backend

CUSTOM = CustomReason(code="sensor-recall", description="recalled", approval_ref="CAB-7")
UNKNOWN = "0e0e0e0e-0000-8000-8000-000000000001"


def replay(scene: Scene, wal_id: str, **changes: Any) -> str | None:
    """Replay one unit at its present version; return why it was left alone, if it was."""
    left = put_back(scene.stores, [(wal_id, scene.row(wal_id)["version"])], **changes)
    return left[wal_id]


@pytest.mark.conformance("SM-4.5b", "WAL-5.5", "SM-4.5c", "C-04")
def test_it_writes_reason_stamp_and_version_and_no_more(backend: Backend) -> None:
    """Status, replay_reason, due time, stamps and version; creation, item, error, counts stay."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before, history = scene.row(wal_id), scene.history(wal_id)
    attempts = scene.attempts(wal_id)
    assert replay(scene, wal_id, run_id="run-7") is None
    after = scene.row(wal_id)
    written = {"status", "replay_reason", "replay_run_id", "updated_at", "version"}
    written |= {"due_at", "retry_after"}
    assert changed(before, after) == written
    assert (after["status"], after["replay_reason"]) == ("pending", "backfill")
    assert after["version"] == before["version"] + 1
    assert after["attempts"] == before["attempts"] == 1
    assert after["last_error_code"] == "io_error"
    assert scene.attempts(wal_id) == attempts
    assert scene.history(wal_id)[:-1] == history
    [edge] = backend.rows("SELECT * FROM wal_transitions")
    told = {name: edge[name] for name in ("kind", "actor", "reason", "replay_run_id")}
    assert told == {
        "kind": "replay",
        "actor": "ann",
        "reason": "backfill",
        "replay_run_id": "run-7",
    }
    assert scene.audit(wal_id) == [("ann", "replay", "backfill")]


@pytest.mark.conformance("WAL-5.5", "WAL-3.14", "C-14")
@pytest.mark.parametrize("reason", ["none", "", "because", "Incident", "sensor-recall"])
def test_without_a_known_reason_it_is_refused(backend: Backend, reason: str) -> None:
    """No reason, `none` and an unregistered code are refused before anything is written."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.tables()
    with pytest.raises(InvalidInput) as caught:
        replay(scene, wal_id, reason=reason)
    assert caught.value.code == "unknown_replay_reason"
    assert scene.tables() == before
    assert backend.sql("SELECT * FROM replay_runs") == []


@pytest.mark.conformance("WAL-3.14")
@pytest.mark.parametrize("reason", ["dlq-drain", "incident", "backfill", "test", "sensor-recall"])
def test_a_listed_or_governed_reason_is_accepted(backend: Backend, reason: str) -> None:
    """All listed reasons work, and a custom one that the rules name with its approval."""
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, custom_reasons={CUSTOM.code: CUSTOM}))
    scene.stores.changes.open(ReferenceKind.INCIDENT, "INC-1", title="down", by="ann")
    wal_id = scene.fail()
    assert replay(scene, wal_id, reason=reason, incident_ref="INC-1") is None
    assert scene.row(wal_id)["replay_reason"] == reason
    registered = backend.sql("SELECT code, approval_ref FROM replay_reasons")
    assert registered == ([("sensor-recall", "CAB-7")] if reason == "sensor-recall" else [])


@pytest.mark.conformance("SM-3.2", "SM-3.4", "SM-4.5a", "WAL-4.6", "WAL-4.7", "WAL-10.3")
def test_only_a_failed_unit_is_put_back(backend: Backend) -> None:
    """Of five units in five statuses one moves; the others keep row, version and attempts."""
    scene = Scene(backend)
    ids = {status: scene.at(status, number) for number, status in enumerate(STATUSES)}
    before = {status: scene.row(wal_id) for status, wal_id in ids.items()}
    left = put_back(scene.stores, [(row["wal_id"], row["version"]) for row in before.values()])
    assert left == {ids[each]: None if each == "failed" else each for each in STATUSES}
    for status in set(STATUSES) - {"failed"}:
        assert scene.row(ids[status]) == before[status]
        assert ("ann", "replay", "backfill") not in scene.audit(ids[status])
    kept = backend.sql("SELECT wal_id, outcome, reason FROM replay_run_records")
    assert set(kept) == {
        (wal_id, "due", None) if status == "failed" else (wal_id, "skipped", status)
        for status, wal_id in ids.items()
    }


@pytest.mark.conformance("WAL-3.15", "SM-3.4")
def test_a_replay_decided_on_another_version_moves_nothing(backend: Backend) -> None:
    """Who read the record before its last write, or made a version up, is told that it moved."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.row(wal_id)
    for version in (before["version"] - 1, before["version"] + 1):
        assert put_back(scene.stores, [(wal_id, version)]) == {wal_id: "moved"}
    assert scene.row(wal_id) == before
    assert scene.audit(wal_id) == []


def test_a_plan_with_an_unknown_unit_moves_nothing(backend: Backend) -> None:
    """It is the plan of another ledger, so the units that this one knows stay too."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.row(wal_id)
    with pytest.raises(UnknownRecord, match=UNKNOWN):
        put_back(scene.stores, [(wal_id, before["version"]), (UNKNOWN, 1)])
    assert scene.row(wal_id) == before


@pytest.mark.conformance("SM-4.5a")
def test_a_unit_at_its_limit_is_left_alone(backend: Backend) -> None:
    """With no attempt left, status and code alone do not put it back."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.commit(failure(scene.claim(0)))
    assert scene.row(wal_id)["attempts"] == 2
    strict = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    before = strict.row(wal_id)
    assert replay(strict, wal_id, run_id="run-7") == "attempts_exceeded"
    assert strict.row(wal_id) == before
    kept = backend.sql("SELECT replay_run_id, outcome, reason FROM replay_run_records")
    assert kept == [("run-7", "skipped", "attempts_exceeded")]
    looser = Scene(backend, LedgerRules(max_attempts=3, backoff=NO_BACKOFF))
    assert replay(looser, wal_id) is None


@pytest.mark.conformance("SM-4.5a", "C-06")
def test_a_code_that_policy_does_not_replay_is_left_alone(backend: Backend) -> None:
    """The registry decides, unless somebody names the code; what is retried needs no naming."""
    scene = Scene(backend)
    schema, network = scene.fail(0, "stac_validation_failed"), scene.fail(1, "io_error")
    before = scene.row(schema)
    assert replay(scene, schema) == "code_not_replayed"
    assert replay(scene, schema, codes=["size_zero"]) == "code_not_replayed"
    assert scene.row(schema) == before
    assert replay(scene, schema, codes=["stac_validation_failed"]) is None
    assert replay(scene, network) is None


@pytest.mark.conformance("SM-4.5c")
def test_the_error_stays_until_a_success(backend: Backend) -> None:
    """Put back, claimed again, retried: each time the last error is kept; success clears it."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "missing_object")
    for _ in range(2):
        assert replay(scene, wal_id) is None
        assert scene.row(wal_id)["last_error_code"] == "missing_object"
        [claim] = scene.due()
        assert scene.row(wal_id)["last_error_code"] == "missing_object"
        scene.commit(failure(claim, "missing_object"))
    [claim] = scene.due()
    scene.commit(success(claim))
    assert scene.row(wal_id)["last_error_code"] is None


def test_the_attempts_of_a_replay_carry_its_run_until_one_is_applied(backend: Backend) -> None:
    """Each further attempt names the run that asked for it; what comes after success does not."""
    scene = Scene(backend)
    wal_id = scene.fail()
    assert replay(scene, wal_id, run_id="run-7") is None
    [claim] = scene.due()
    scene.commit(failure(claim))
    [claim] = scene.due()
    scene.commit(success(claim))
    scene.claim(overwritten(0))
    runs = [attempt["replay_run_id"] for attempt in scene.attempts(wal_id)]
    assert runs == [None, "run-7", "run-7", None]

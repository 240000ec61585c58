"""failed → pending by tooling: what it needs, what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput, Refused
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.rules import LedgerRules
from tests.contract.scene import Scene, changed
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success

if TYPE_CHECKING:
    from collections.abc import Collection

    from tallgrass.storage.interventions import Moved
    from tests.support.backends import Backend

CUSTOM = CustomReason(code="sensor-recall", description="recalled", approval_ref="CAB-7")


def put_back(
    scene: Scene,
    wal_id: str,
    *,
    reason: str = "incident",
    codes: Collection[str] | None = None,
) -> Moved:
    """Put one unit back at its present version."""
    return scene.stores.interventions.put_back(
        [(wal_id, scene.row(wal_id)["version"])],
        reason=reason,
        actor="ann",
        replay_run_id="run-7",
        codes=codes,
    )


@pytest.mark.conformance("SM-4.5b", "WAL-5.5", "SM-4.5c", "C-04")
def test_it_writes_reason_stamp_and_version_and_no_more(backend: Backend) -> None:
    """Status, replay_reason, due time, stamps and version; creation, item, error, counts stay."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before, history = scene.row(wal_id), scene.history(wal_id)
    attempts = scene.attempts(wal_id)
    assert put_back(scene, wal_id).done == (wal_id,)
    after = scene.row(wal_id)
    written = {"status", "replay_reason", "replay_run_id", "updated_at", "version"}
    written |= {"due_at", "retry_after"}
    assert changed(before, after) == written
    assert (after["status"], after["replay_reason"]) == ("pending", "incident")
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
        "reason": "incident",
        "replay_run_id": "run-7",
    }
    assert scene.audit(wal_id) == [("ann", "replay", "incident")]


@pytest.mark.conformance("WAL-5.5", "WAL-3.14", "C-14")
@pytest.mark.parametrize("reason", ["none", "", "because", "Incident", "sensor-recall"])
def test_without_a_known_reason_it_is_refused(backend: Backend, reason: str) -> None:
    """No reason, `none` and an unregistered code are refused before anything is written."""
    scene = Scene(backend)
    wal_id = scene.fail()
    before = scene.tables()
    with pytest.raises(InvalidInput) as caught:
        put_back(scene, wal_id, reason=reason)
    assert caught.value.code == "unknown_replay_reason"
    assert scene.tables() == before


@pytest.mark.conformance("WAL-3.14")
@pytest.mark.parametrize("reason", ["dlq-drain", "incident", "backfill", "test", "sensor-recall"])
def test_a_listed_or_governed_reason_is_accepted(backend: Backend, reason: str) -> None:
    """All listed reasons work, and a custom one that the rules name with its approval."""
    scene = Scene(backend, LedgerRules(backoff=NO_BACKOFF, custom_reasons={CUSTOM.code: CUSTOM}))
    wal_id = scene.fail()
    put_back(scene, wal_id, reason=reason)
    assert scene.row(wal_id)["replay_reason"] == reason
    registered = backend.sql("SELECT code, approval_ref FROM replay_reasons")
    assert registered == ([("sensor-recall", "CAB-7")] if reason == "sensor-recall" else [])


@pytest.mark.conformance("SM-4.5a")
def test_a_unit_at_its_limit_is_refused(backend: Backend) -> None:
    """With no attempt left, status and code alone do not put it back."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.commit(failure(scene.claim(0)))
    assert scene.row(wal_id)["attempts"] == 2
    strict = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    before = strict.row(wal_id)
    refused = put_back(strict, wal_id).refused[wal_id]
    assert (type(refused), refused.code) == (Refused, "limit_reached")
    assert strict.row(wal_id) == before
    assert strict.audit(wal_id) == [("ann", "replay_refused", "limit_reached")]
    looser = Scene(backend, LedgerRules(max_attempts=3, backoff=NO_BACKOFF))
    assert put_back(looser, wal_id).done == (wal_id,)


@pytest.mark.conformance("SM-4.5a", "C-06")
def test_a_code_that_policy_does_not_replay_is_refused(backend: Backend) -> None:
    """Without a list the registry decides; a given list decides alone, both ways."""
    scene = Scene(backend)
    schema, network = scene.fail(0, "stac_validation_failed"), scene.fail(1, "io_error")
    before = scene.row(schema)
    refused = put_back(scene, schema).refused[schema]
    assert (type(refused), refused.code) == (Refused, "retry_not_allowed")
    assert scene.row(schema) == before
    listed = ["stac_validation_failed"]
    assert put_back(scene, network, codes=listed).refused[network].code == "retry_not_allowed"
    assert put_back(scene, schema, codes=listed).done == (schema,)
    assert put_back(scene, network).done == (network,)


@pytest.mark.conformance("SM-4.5c")
def test_the_error_stays_until_a_success(backend: Backend) -> None:
    """Put back, claimed again, retried: each time the last error is kept; success clears it."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "missing_object")
    for _ in range(2):
        put_back(scene, wal_id)
        assert scene.row(wal_id)["last_error_code"] == "missing_object"
        [claim] = scene.due()
        assert scene.row(wal_id)["last_error_code"] == "missing_object"
        scene.commit(failure(claim, "missing_object"))
    [claim] = scene.due()
    scene.commit(success(claim))
    assert scene.row(wal_id)["last_error_code"] is None


def test_a_unit_named_twice_moves_once(backend: Backend) -> None:
    """A selection that names a unit twice is one move."""
    scene = Scene(backend)
    wal_id = scene.fail()
    pair = (wal_id, scene.row(wal_id)["version"])
    moved = scene.stores.interventions.put_back(
        [pair, pair], reason="test", actor="ann", replay_run_id="r"
    )
    assert moved.done == (wal_id,)
    assert scene.row(wal_id)["version"] == pair[1] + 1


def test_the_attempts_of_a_replay_carry_its_run_until_one_is_applied(backend: Backend) -> None:
    """Each further attempt names the run that asked for it; what comes after success does not."""
    scene = Scene(backend)
    wal_id = scene.fail()
    put_back(scene, wal_id)
    [claim] = scene.due()
    scene.commit(failure(claim))
    [claim] = scene.due()
    scene.commit(success(claim))
    scene.claim(overwritten(0))
    runs = [attempt["replay_run_id"] for attempt in scene.attempts(wal_id)]
    assert runs == [None, "run-7", "run-7", None]

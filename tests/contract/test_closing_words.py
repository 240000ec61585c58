"""What closing and releasing tell, lock and schedule, worked out by hand."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ledger.claim import SUCCEEDED
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.rules import LedgerRules
from tallgrass.operators.effects import Effects, ProvenanceEffect
from tallgrass.retry import Backoff
from tallgrass.storage import leases
from tallgrass.telemetry import names
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit, units, verdicts
from tests.support.put_back import put_back
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from tests.support.backends import Backend

TWO = LedgerRules(max_attempts=2, backoff=NO_BACKOFF)
SLOW = LedgerRules(backoff=Backoff(base_s=100, cap_s=900))


def given_up(backend: Backend, wal_id: str) -> list[tuple[str, Any]]:
    """Return reason and detail of the entries on a re-run that was given up."""
    rows = backend.sql(
        "SELECT reason, detail FROM audit_log WHERE action = 'give_up_rerun' AND subject = ?",
        wal_id,
    )
    return [(reason, json.loads(detail)) for reason, detail in rows]


def seconds_until(row: dict[str, Any], column: str) -> float:
    """Return how long after the record's last change a time of it is."""
    then, now = (datetime.fromisoformat(row[name]) for name in (column, "updated_at"))
    return (then - now).total_seconds()


class TestReRuns:
    """The unit stays succeeded, whatever its re-run comes to."""

    def test_one_that_may_be_tried_again_is_due(self, backend: Backend) -> None:
        """After its back-off, and nobody has given it up."""
        scene = Scene(backend, SLOW, draw=lambda: 1.0)
        wal_id = scene.succeed()
        result = scene.commit(failure(scene.claim(overwritten(0))))
        assert verdicts(result) == {wal_id: Verdict.FAILED}
        row = scene.row(wal_id)
        assert (row["status"], seconds_until(row, "due_at")) == ("succeeded", 100.0)
        assert row["retry_after"] == row["due_at"]
        assert given_up(backend, wal_id) == []

    def test_one_whose_object_is_not_there_yet_is_due(self, backend: Backend) -> None:
        """It waits as a first run does, but by no edge."""
        scene = Scene(backend, SLOW, draw=lambda: 1.0)
        wal_id = scene.succeed()
        result = scene.commit(failure(scene.claim(overwritten(0)), "not_ready"))
        assert verdicts(result) == {wal_id: Verdict.RETRY}
        row = scene.row(wal_id)
        assert (row["status"], seconds_until(row, "due_at")) == ("succeeded", 100.0)
        assert backend.sql("SELECT count(*) FROM wal_transitions") == [(0,)]

    def test_the_last_attempt_gives_it_up(self, backend: Backend) -> None:
        """Not due from that commit on; the log tells how often it was tried, and the error."""
        scene = Scene(backend, TWO)
        wal_id = scene.succeed()
        scene.commit(failure(scene.claim(overwritten(0))))
        [claim] = scene.due()
        result = scene.commit(failure(claim, "missing_object"))
        assert verdicts(result) == {wal_id: Verdict.FAILED}
        row = scene.row(wal_id)
        assert (row["status"], row["due_at"], row["retry_after"]) == ("succeeded", None, None)
        assert row["version"] == 7
        assert given_up(backend, wal_id) == [
            ("attempts_exhausted", {"attempts": 3, "last_error_code": "missing_object"})
        ]

    def test_a_rejection_gives_it_up_at_once(self, backend: Backend) -> None:
        """Governance is asked once."""
        scene = Scene(backend)
        wal_id = scene.succeed()
        result = scene.commit(failure(scene.claim(overwritten(0)), "governance_hard_fail"))
        assert verdicts(result) == {wal_id: Verdict.FAILED}
        assert scene.row(wal_id)["due_at"] is None
        assert given_up(backend, wal_id) == [
            ("governance_hard_fail", {"attempts": 2, "last_error_code": "governance_hard_fail"})
        ]


def test_only_what_failed_by_itself_draws_a_back_off(backend: Backend) -> None:
    """A success draws none; what is handed back is due at once; a failure waits as drawn."""
    draws: list[float] = []

    def draw() -> float:
        draws.append(1.0)
        return 1.0

    scene = Scene(backend, SLOW, draw=draw)
    done, back, failed = (receipt.claim for receipt in scene.announce(*units(3)))
    assert done is not None
    assert back is not None
    assert failed is not None
    assert scene.commit(success(done)).closed == {done.wal_id: SUCCEEDED}
    closed = scene.commit(failure(back, "handed_back")).closed[back.wal_id]
    row = scene.row(back.wal_id)
    assert (closed.retry_s, seconds_until(row, "due_at"), draws) == (0.0, 0.0, [])
    closed = scene.commit(failure(failed)).closed[failed.wal_id]
    row = scene.row(failed.wal_id)
    assert (closed.retry_s, closed.error_code, draws) == (100.0, "io_error", [1.0])
    # Its message comes back by itself, and waits for the back-off then.
    assert (row["due_at"], seconds_until(row, "retry_after")) == (None, 100.0)


def test_a_failure_writes_no_effect(backend: Backend) -> None:
    """Whatever was staged for it beside the ledger."""
    scene = Scene(backend)
    claim = scene.claim()
    document = ProvenanceEffect(
        activity_id="urn:prov:activity:x", body=b"{}", sha256="0" * 64, run=b"{}"
    )
    outcome = failure(claim)
    scene.ledger.commit(scene.worker, [outcome], {claim.wal_id: Effects(provenance=document)})
    assert scene.row(claim.wal_id)["status"] == "failed"
    assert backend.sql("SELECT count(*) FROM provenance") == [(0,)]


def test_a_commit_counts_the_statuses_that_units_enter(backend: Backend) -> None:
    """Each edge once, by dataset; nothing of a re-run, and nothing of a claim that was lost."""
    setting = Scene(backend)
    other = setting.register("other")
    done, failed, waits, rejected = (setting.claim(number) for number in range(4))
    setting.succeed(4)
    late = setting.claim(overwritten(4))
    lost = setting.claim(5, other)
    back = setting.claim(unit(6, dataset="mrms"))
    setting.succeed(7)
    again = setting.claim(overwritten(7))
    recorder = MemoryRecorder()
    result = Scene(backend, recorder=recorder).commit(
        success(done),
        failure(failed),
        failure(waits, "not_ready"),
        failure(rejected, "governance_hard_fail"),
        failure(late, "not_ready"),
        failure(lost, "not_ready"),
        failure(back, "handed_back"),
        success(again),
        worker=setting.worker,
    )
    assert result.lost == (lost.wal_id,)
    assert recorder.by_labels(names.WAL_RECORDS) == {
        ("goes-glm", "succeeded"): 1.0, ("goes-glm", "failed"): 3.0, ("goes-glm", "pending"): 1.0,
        ("goes-glm", "quarantined"): 1.0, ("mrms", "failed"): 1.0, ("mrms", "pending"): 1.0,
    }  # fmt: skip
    assert recorder.by_labels(names.WAL_REPLAYS) == {
        ("goes-glm", "none"): 1.0, ("mrms", "none"): 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("verb", ["recover", "stop", "hand_back"])
def test_a_release_counts_the_statuses_that_units_enter(backend: Backend, verb: str) -> None:
    """Each first run fails and is pending again, for its last reason; a re-run enters none."""
    setting = Scene(backend)
    again = setting.fail(0)
    put_back(setting.stores, [(again, setting.row(again)["version"])])
    assert [claim.wal_id for claim in setting.due()] == [again]
    other = setting.claim(unit(1, dataset="mrms")).wal_id
    rerun = setting.succeed(2)
    setting.claim(overwritten(2))
    recorder = MemoryRecorder()
    stores = Scene(backend, recorder=recorder).stores
    if verb == "recover":
        backend.expire(setting.worker)
        freed = stores.leases.recover().units
    else:
        freed = getattr(stores.leases, verb)(setting.worker)
    assert sorted(freed) == sorted([again, other, rerun])
    assert recorder.by_labels(names.WAL_RECORDS) == {
        (dataset, status): 1.0
        for dataset in ("goes-glm", "mrms")
        for status in ("failed", "pending")
    }
    assert recorder.by_labels(names.WAL_REPLAYS) == {
        ("goes-glm", "backfill"): 1.0, ("mrms", "none"): 1.0,
    }  # fmt: skip
    row = setting.row(rerun)
    assert (row["status"], row["due_at"], row["lease_expiries"]) == (
        "succeeded", row["updated_at"], 0 if verb == "stop" else 1,
    )  # fmt: skip


def test_each_page_of_a_recovery_is_told(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was fenced holding nothing, and units that are freed after all were fenced."""
    monkeypatch.setattr(leases, "RECOVERY_BATCH", 2)
    recorder = MemoryRecorder()
    scene = Scene(backend, recorder=recorder)
    idle = scene.register("idle")
    scene.crash(idle)
    scene.announce(*units(3))
    scene.crash()
    told = [fields for name, fields in recorder.events if name == names.UNITS_RECOVERED]
    assert [(fields["workers"], fields["count"]) for fields in told] == [(1, 0), (1, 2), (0, 1)]

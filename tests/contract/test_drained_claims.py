"""Units that a replay run's own queue brings: whose work they are, and what the run learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallgrass.ledger.claim import NOT_REPLAYED, Replayed
from tallgrass.telemetry import names
from tests.contract.scene import Scene
from tests.support.builders import failure, success, units
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from tests.support.backends import Backend

RUN = "run-1"
STAMP = "2026-01-01T00:00:00.000000Z"


def register(backend: Backend, planned: int) -> None:
    """Write a run by raw SQL, already finished."""
    backend.sql(
        "INSERT INTO replay_runs (replay_run_id, mode, intent, reason, actor, selection,"
        " plan_sha256, expected, code_version, config_version, planned, started_at,"
        " finished_at)"
        " VALUES (?, 'dlq', 'ingest', 'dlq-drain', 'ann', '{}', ?, '[]', '1', '1', ?, ?, ?)",
        RUN, "0" * 64, planned, STAMP, STAMP,
    )  # fmt: skip


def run(backend: Backend) -> tuple[Any, ...]:
    """Return how many units the run has, and when it ended."""
    return backend.sql("SELECT planned, finished_at FROM replay_runs")[0]


def test_a_new_unit_is_the_runs_work(backend: Backend) -> None:
    """Record, attempt, claim and the run's own list say so; the run grows and goes on."""
    register(backend, 5)
    scene = Scene(backend, replay_run_id=RUN)
    claims = [receipt.claim for receipt in scene.announce(*units(2)) if receipt.claim]
    for claim in claims:
        assert (claim.replay_run_id, claim.replay_reason) == (RUN, "dlq-drain")
        assert claim.replayed == Replayed(mode="dlq")
        row = scene.row(claim.wal_id)
        assert (row["replay_run_id"], row["replay_reason"]) == (RUN, "dlq-drain")
        assert [each["replay_run_id"] for each in scene.attempts(claim.wal_id)] == [RUN]
    listed = backend.sql(
        "SELECT replay_run_id, wal_id, version, action, outcome, reason"
        " FROM replay_run_records ORDER BY wal_id"
    )
    ids = sorted(claim.wal_id for claim in claims)
    assert listed == [(RUN, wal_id, 1, "replay", "due", None) for wal_id in ids]
    assert run(backend) == (7, None)


def test_a_known_unit_is_not(backend: Backend) -> None:
    """Nor does the run that it came by go on for it; nobody's unit is nobody's."""
    register(backend, 5)
    plain = Scene(backend)
    claim = plain.claim(0)
    assert (claim.replay_run_id, claim.replay_reason) == (None, "none")
    assert claim.replayed == NOT_REPLAYED
    assert plain.row(claim.wal_id)["replay_reason"] == "none"
    plain.commit(failure(claim))
    again = Scene(backend, replay_run_id=RUN).claim(0)
    assert (again.replay_run_id, again.replayed) == (None, NOT_REPLAYED)
    assert backend.sql("SELECT count(*) FROM replay_run_records") == [(0,)]
    assert run(backend) == (5, STAMP)


def test_the_run_learns_what_became_of_each(backend: Backend) -> None:
    """Done, tried again by the ledger, or given up: with the error and the attempt."""
    register(backend, 0)
    recorder = MemoryRecorder()
    scene = Scene(backend, replay_run_id=RUN, recorder=recorder)
    done, waits, fails = (r.claim for r in scene.announce(*units(3)))
    assert done is not None
    assert waits is not None
    assert fails is not None
    scene.commit(success(done), failure(waits, "not_ready"), failure(fails))
    rows = backend.sql("SELECT wal_id, outcome, reason, attempt_no FROM replay_run_records")
    assert sorted(rows) == sorted([
        (done.wal_id, "done", None, 1),
        (waits.wal_id, "due", "not_ready", 1),
        (fails.wal_id, "failed", "io_error", 1),
    ])  # fmt: skip
    runs = [scene.row(claim.wal_id)["replay_run_id"] for claim in (done, waits, fails)]
    assert runs == [None, RUN, None]
    assert recorder.by_labels(names.REPLAYS) == {("goes-glm", "dlq-drain", "test"): 3.0}

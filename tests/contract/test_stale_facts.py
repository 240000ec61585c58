"""Every guarded statement with exactly one stale fact: it changes nothing.

Race tests pass even with several of these checks dropped, so each is put to the proof alone.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.scene import STATUSES, Scene
from tests.support.builders import overwritten

if TYPE_CHECKING:
    from tests.support.backends import Backend

STAMP = "2026-01-01T00:00:00.000000Z"
OTHER_ID = "0e0e0e0e-0000-8000-8000-000000000001"
WHO = {"ingest_run_id": "run", "worker_id": "w"}

OUTCOME = ("ok", "ok", "created", "ok")
STAC_IDS = ("item", "collection", None)


def close_records(wal_id: str, version: int, source: str) -> tuple[object, ...]:
    """Return a row that closes a record as failed, or a re-run as succeeded."""
    target = "succeeded" if source == "succeeded" else "failed"
    applied = 1 if target == "succeeded" else None
    code = None if target == "succeeded" else "io_error"
    return (
        wal_id, version, source, target, code, None, *OUTCOME, *STAC_IDS, applied, 0, None, None,
    )  # fmt: skip


def claim_records(wal_id: str, version: int, source: str) -> tuple[object, ...]:
    """Return a row that claims a record."""
    target = "succeeded" if source == "succeeded" else "in_progress"
    return (wal_id, version, source, target, 0, None)


#: Statement → (status that it starts from, row of (wal_id, version, status), given-once values).
#: Statements without a status of their own in the row name it in SQL.
RECORD_STATEMENTS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "claim_records": ("pending", claim_records, WHO),
    "close_records": ("in_progress", close_records, {}),
    "fail_reruns": ("succeeded", lambda i, v, _s: (i, v, "io_error", None, None, None, 0), {}),
    "reset_records": ("failed", lambda i, v, _s: (i, v, None, STAMP, 0, None, 0), {}),
    "abandon_records": ("in_progress", lambda i, v, _s: (i, v, "lease_expired", "m"), {}),
    "quarantine_records": ("pending", lambda i, v, s: (i, v, s, "attempts_exhausted"), {}),
    "park_records": ("pending", lambda i, v, s: (i, v, s, STAMP, None, 0, None), {}),
    "give_up_reruns": ("succeeded", lambda i, v, _s: (i, v), {}),
}


def write(scene: Scene, name: str, row: tuple[object, ...], **once: object) -> int:
    """Run a named statement of the ledger in a transaction of its own."""
    with scene.stores.database.transaction() as tx:
        return tx.write(name, [row], now=tx.now(), **once)


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
@pytest.mark.conformance("WAL-3.15", "WAL-5.8", "SM-4.2a", "SM-6.1")
def test_a_stale_version_changes_no_record(backend: Backend, name: str) -> None:
    """With all else right, one version too low or too high writes nothing; the right one does."""
    source, row, once = RECORD_STATEMENTS[name]
    scene = Scene(backend)
    wal_id = scene.at(source)
    before = scene.row(wal_id)
    for version in (before["version"] - 1, before["version"] + 1):
        assert write(scene, name, row(wal_id, version, source), **once) == 0
    assert scene.row(wal_id) == before
    assert write(scene, name, row(wal_id, before["version"], source), **once) == 1
    assert scene.row(wal_id)["version"] == before["version"] + 1


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
@pytest.mark.conformance("SM-4.2a", "SM-4.4a", "SM-6.1", "WAL-5.8")
def test_a_stale_status_changes_no_record(backend: Backend, name: str) -> None:
    """A record that stands in any other status than the one read is left alone, without error."""
    source, row, once = RECORD_STATEMENTS[name]
    scene = Scene(backend)
    for number, status in enumerate(STATUSES):
        if status == source:
            continue
        wal_id = scene.at(status, number)
        before = scene.row(wal_id)
        assert write(scene, name, row(wal_id, before["version"], source), **once) == 0
        assert scene.row(wal_id) == before


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
def test_a_statement_touches_its_own_record_only(backend: Backend, name: str) -> None:
    """A neighbour in the same status and version stays as it is."""
    source, row, once = RECORD_STATEMENTS[name]
    scene = Scene(backend)
    wal_id, neighbour = scene.at(source, 0), scene.at(source, 1)
    before = scene.row(neighbour)
    assert write(scene, name, row(wal_id, before["version"], source), **once) == 1
    assert scene.row(neighbour) == before


def close_attempt(scene: Scene, wal_id: str, attempt_no: int, incarnation: str) -> int:
    """Close an attempt as the commit does."""
    row = (
        wal_id, attempt_no, "applied", 3, None, None, *OUTCOME, None, None, None, None, None, None,
    )  # fmt: skip
    once = {"commit_id": str(uuid.uuid4()), "incarnation": incarnation}
    return write(scene, "close_attempts", row, **once)


@pytest.mark.conformance("WAL-7.5", "SM-4.4a", "SM-2.2b", "C-13")
def test_an_attempt_is_closed_by_its_holder_once(backend: Backend) -> None:
    """A wrong unit, a wrong number, another process, or a second close writes nothing."""
    scene = Scene(backend)
    claim = scene.claim()
    other = scene.register("w")
    before = scene.attempts(claim.wal_id)
    mine = scene.worker.incarnation
    assert close_attempt(scene, OTHER_ID, 1, mine) == 0
    assert close_attempt(scene, claim.wal_id, 2, mine) == 0
    assert close_attempt(scene, claim.wal_id, 1, other.incarnation) == 0
    assert scene.attempts(claim.wal_id) == before
    assert close_attempt(scene, claim.wal_id, 1, mine) == 1
    assert close_attempt(scene, claim.wal_id, 1, mine) == 0


@pytest.mark.conformance("WAL-7.5", "SM-4.4a")
def test_an_older_attempt_of_the_same_unit_stays_closed(backend: Backend) -> None:
    """The number of an earlier attempt opens nothing while a later one is held."""
    scene = Scene(backend)
    scene.succeed()
    claim = scene.claim(overwritten(0))
    before = scene.attempts(claim.wal_id)
    assert close_attempt(scene, claim.wal_id, 1, scene.worker.incarnation) == 0
    assert scene.attempts(claim.wal_id) == before


@pytest.mark.conformance("SM-5.2b", "C-11")
def test_recovery_closes_only_what_is_open(backend: Backend) -> None:
    """An attempt that was closed meanwhile, or has another number, is not abandoned."""
    scene = Scene(backend)
    held, done = scene.claim(0), scene.succeed(1)
    commit_id = str(uuid.uuid4())
    for wal_id, number in ((done, 1), (held.wal_id, 2), (OTHER_ID, 1)):
        row = (wal_id, number, 3, "lease_expired", "m")
        assert write(scene, "abandon_attempts", row, commit_id=commit_id) == 0
    row = (held.wal_id, 1, 3, "lease_expired", "m")
    assert write(scene, "abandon_attempts", row, commit_id=commit_id) == 1


@pytest.mark.conformance("RP-3.10", "C-01")
def test_only_a_failed_attempt_is_rolled_back(backend: Backend) -> None:
    """Open and applied attempts are not what recovery rolls back."""
    scene = Scene(backend)
    held, done, failed = scene.claim(0).wal_id, scene.succeed(1), scene.fail(2)
    with scene.stores.database.transaction() as tx:
        assert tx.write("roll_back_attempts", [(held, 1)]) == 0
        assert tx.write("roll_back_attempts", [(done, 1)]) == 0
        assert tx.write("roll_back_attempts", [(failed, 2)]) == 0
        assert tx.write("roll_back_attempts", [(failed, 1)]) == 1


@pytest.mark.conformance("SM-5.2b", "WAL-7.5")
def test_a_lease_is_fenced_only_past_its_end(backend: Backend) -> None:
    """The fence compares the expiry itself: equal or past is fenced, a microsecond left is not."""
    scene = Scene(backend)
    ends = "2030-01-01T00:00:00.000000Z"
    backend.sql("UPDATE workers SET expires_at = ?", ends)
    for now, fenced in (("2029-12-31T23:59:59.999999Z", 0), (ends, 1), (ends, 0)):
        with scene.stores.database.transaction() as tx:
            assert tx.execute("fence_expired", now=now) == fenced


@pytest.mark.conformance("WAL-7.5")
@pytest.mark.parametrize("name", ["renew_lease", "stop_worker"])
@pytest.mark.parametrize("ended", ["fenced_at", "stopped_at"])
def test_an_ended_worker_neither_renews_nor_stops(backend: Backend, name: str, ended: str) -> None:
    """Both statements look at fence and stop themselves, not at what was read before."""
    scene = Scene(backend)
    backend.sql(f"UPDATE workers SET {ended} = ?", STAMP)
    params = {"incarnation": scene.worker.incarnation}
    params |= {"expires_at": STAMP} if name == "renew_lease" else {"now": STAMP}
    with scene.stores.database.transaction() as tx:
        assert tx.execute(name, **params) == 0

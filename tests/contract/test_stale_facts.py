"""Every guarded statement with exactly one stale fact: it changes nothing.

Race tests pass even with several of these checks dropped, so each is put to the proof alone.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tallgrass.storage.named_queries import load_queries
from tests.contract.scene import STATUSES, Scene
from tests.support.builders import overwritten

if TYPE_CHECKING:
    from tests.support.backends import Backend

STAMP = "2026-01-01T00:00:00.000000Z"
OTHER_ID = "0e0e0e0e-0000-8000-8000-000000000001"
WHO = {"ingest_run_id": "run", "worker_id": "w"}


#: Statement → the status that it starts from, and what it writes.
RECORD_STATEMENTS: dict[str, tuple[str, dict[str, object]]] = {
    "claim_records": ("pending", {"to_status": "in_progress"}),
    "close_records": ("in_progress", {"to_status": "failed", "last_error_code": "io_error"}),
    "fail_reruns": ("succeeded", {"last_error_code": "io_error"}),
    "reset_records": ("failed", {"due_at": STAMP}),
    "abandon_records": ("in_progress", {"last_error_code": "lease_expired"}),
    "quarantine_records": ("pending", {"error_code": "attempts_exhausted"}),
    "park_records": ("pending", {"due_at": STAMP}),
    "give_up_reruns": ("succeeded", {}),
}

#: What a statement writes where a test does not care.
FILLER: dict[str, object] = {
    "budget_from": 0,
    "lease_expiries": 0,
    "integrity_status": "ok",
    "metadata_status": "ok",
    "stac_status": "created",
    "provenance_status": "ok",
    "stac_item_id": "item",
    "stac_collection_id": "collection",
}


def write(scene: Scene, name: str, values: dict[str, object], **once: object) -> int:
    """Run a named statement of the ledger for one row, in a transaction of its own."""
    values = FILLER | values
    row = tuple(values.get(column) for column in load_queries(scene.backend.name)[name].each)
    with scene.stores.database.transaction() as tx:
        return tx.write(name, [row], now=tx.now(), **once)


def write_record(scene: Scene, name: str, wal_id: str, version: int) -> int:
    """Run a statement on a record that was read at a version, in the statement's status."""
    source, values = RECORD_STATEMENTS[name]
    read = {"wal_id": wal_id, "version": version, "from_status": source, "status": source}
    once = WHO if name == "claim_records" else {}
    return write(scene, name, read | values, **once)


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
@pytest.mark.conformance("WAL-3.15", "WAL-5.2", "WAL-5.8", "SM-4.2a", "SM-6.1")
def test_a_stale_version_changes_no_record(backend: Backend, name: str) -> None:
    """With all else right, one version too low or too high writes nothing; the right one does."""
    scene = Scene(backend)
    wal_id = scene.at(RECORD_STATEMENTS[name][0])
    before = scene.row(wal_id)
    for version in (before["version"] - 1, before["version"] + 1):
        assert write_record(scene, name, wal_id, version) == 0
    assert scene.row(wal_id) == before
    assert write_record(scene, name, wal_id, before["version"]) == 1
    assert scene.row(wal_id)["version"] == before["version"] + 1


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
@pytest.mark.conformance("SM-4.2a", "SM-4.4a", "SM-6.1", "WAL-5.2", "WAL-5.8")
def test_a_stale_status_changes_no_record(backend: Backend, name: str) -> None:
    """A record that stands in any other status than the one read is left alone, without error."""
    source = RECORD_STATEMENTS[name][0]
    scene = Scene(backend)
    for number, status in enumerate(STATUSES):
        if status == source:
            continue
        wal_id = scene.at(status, number)
        before = scene.row(wal_id)
        assert write_record(scene, name, wal_id, before["version"]) == 0
        assert scene.row(wal_id) == before


@pytest.mark.parametrize("name", RECORD_STATEMENTS)
def test_a_statement_touches_its_own_record_only(backend: Backend, name: str) -> None:
    """A neighbour in the same status and version stays as it is."""
    source = RECORD_STATEMENTS[name][0]
    scene = Scene(backend)
    wal_id, neighbour = scene.at(source, 0), scene.at(source, 1)
    before = scene.row(neighbour)
    assert write_record(scene, name, wal_id, before["version"]) == 1
    assert scene.row(neighbour) == before


def close_attempt(scene: Scene, wal_id: str, attempt_no: int, incarnation: str) -> int:
    """Close an attempt as the commit does."""
    values = {"wal_id": wal_id, "attempt_no": attempt_no, "status": "applied", "closed_version": 3}
    once = {"commit_id": str(uuid.uuid4()), "incarnation": incarnation}
    return write(scene, "close_attempts", values, **once)


def abandon_attempt(scene: Scene, wal_id: str, attempt_no: int) -> int:
    """Close an attempt as recovery does."""
    values = {"wal_id": wal_id, "attempt_no": attempt_no, "closed_version": 3}
    values |= {"error_code": "lease_expired", "error_message": "gone"}
    return write(scene, "abandon_attempts", values, commit_id=str(uuid.uuid4()))


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
    for wal_id, number in ((done, 1), (held.wal_id, 2), (OTHER_ID, 1)):
        assert abandon_attempt(scene, wal_id, number) == 0
    assert abandon_attempt(scene, held.wal_id, 1) == 1


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

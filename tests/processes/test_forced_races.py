"""Races that a barrier forces: whoever is at the same unit at the same moment, one wins."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import TallgrassError
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.unit_of_work import write_all
from tests.support.builders import failure, units
from tests.support.processes import MEETING_S_MAX, play, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.storage.unit_of_work import Transaction
    from tests.support.backends import Backend

ROUNDS = 1000
RESCUE_ROUNDS = 200
WRITERS = 64


def at_once(stores: Sequence[Stores], act: Callable[[Stores], Any]) -> list[Any]:
    """Let each connection act from a thread of its own, all released by one barrier."""
    barrier = threading.Barrier(len(stores))

    def player(mine: Stores) -> Any:
        barrier.wait(MEETING_S_MAX)
        try:
            return act(mine)
        except TallgrassError as error:
            return error.code

    with ThreadPoolExecutor(len(stores)) as pool:
        return list(pool.map(player, stores))


def recorded(backend: Backend, count: int) -> list[str]:
    """Record units and hand them back; return their ids: all are pending at version 4."""
    stores = backend.open()
    worker = stores.leases.register("before", ingest_run_id="run", lease_s=600)
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, units(count)) if r.claim]
    stores.ledger.commit(worker, [failure(claim, "handed_back") for claim in claims])
    assert backend.sql("SELECT DISTINCT status, version FROM wal_records") == [("pending", 4)]
    return [claim.wal_id for claim in claims]


def row_for(stores: Stores, name: str, **values: object) -> tuple[object, ...]:
    """Return the values in the order in which a named statement wants them for each row."""
    return tuple(values.get(column) for column in load_queries(stores.database.dialect)[name].each)


@pytest.mark.slow
@pytest.mark.conformance("SM-6.1", "SM-6.2", "SM-9.4", "WAL-10.6")
def test_two_processes_at_one_unit_have_one_winner(backend: Backend, tmp_path: Path) -> None:
    """In each of 1,000 rounds exactly one of two processes gets the unit, new, due or failed."""
    log = tmp_path / "log"
    log.mkdir()
    play(
        "double_claim",
        name=backend.name,
        url=backend.url,
        log=str(log),
        processes=2,
        rounds=ROUNDS,
    )
    winners: Counter[int] = Counter()
    for entry in read_log(log):
        winners[entry["round"]] += entry["won"]
    assert len(winners) == ROUNDS
    assert set(winners.values()) == {1}
    assert backend.sql("SELECT count(*) FROM wal_attempts WHERE status = 'pending'") == [(ROUNDS,)]


@pytest.mark.slow
@pytest.mark.conformance("WAL-5.2", "SM-6.2", "SM-9.4")
def test_two_that_both_saw_a_unit_pending_cannot_both_claim_it(backend: Backend) -> None:
    """Both read version 4 before either writes: in each of 1,000 rounds the second is refused."""
    wal_ids = recorded(backend, ROUNDS)
    meeting = threading.Barrier(2)

    def player(stores: Stores) -> list[str]:
        return [claim_as_seen(stores, wal_id, meeting) for wal_id in wal_ids]

    first, second = at_once([backend.open(), backend.open()], player)
    assert [sorted(pair) for pair in zip(first, second, strict=True)] == [
        ["version_conflict", "won"]
    ] * ROUNDS
    assert backend.sql("SELECT DISTINCT status, attempts, version FROM wal_records") == [
        ("in_progress", 2, 5)
    ]


def claim_as_seen(stores: Stores, wal_id: str, meeting: threading.Barrier) -> str:
    """Read the unit, meet the rival, then claim at the version that was read."""
    with stores.database.reading() as tx:
        seen = tx.select("units", rows=[wal_id])[0]["version"]
    meeting.wait(MEETING_S_MAX)
    row = row_for(
        stores,
        "claim_records",
        wal_id=wal_id,
        version=seen,
        from_status="pending",
        to_status="in_progress",
        budget_from=0,
    )

    def claim(tx: Transaction) -> None:
        write_all(tx, "claim_records", [row], now=tx.now(), ingest_run_id="run", worker_id="w")

    try:
        stores.runner.run(claim)
    except TallgrassError as error:
        return error.code
    return "won"


@pytest.mark.conformance("WAL-5.8")
def test_of_64_writers_with_one_version_one_wins(backend: Backend) -> None:
    """64 guarded writes at version 4 leave version 5: one wins and 63 get a version conflict."""
    wal_id = recorded(backend, 1)[0]
    seen = {"wal_id": wal_id, "version": 4, "status": "pending", "budget_from": 0}

    def write(stores: Stores) -> str:
        row = row_for(stores, "park_records", **seen)
        stores.runner.run(lambda tx: write_all(tx, "park_records", [row], now=tx.now()))
        return "won"

    results = Counter(at_once([backend.open() for _ in range(WRITERS)], write))
    assert results == {"won": 1, "version_conflict": 63}
    assert backend.sql("SELECT status, version FROM wal_records") == [("pending", 5)]


@pytest.mark.conformance("WAL-5.8")
def test_of_64_people_who_saw_one_version_one_decides(backend: Backend) -> None:
    """64 decide on what they saw at version 4; one is heard, 63 are told that the record moved."""
    wal_id = recorded(backend, 1)[0]

    def decide(stores: Stores) -> str:
        moved = stores.interventions.quarantine([(wal_id, 4)], reason="odd", actor="a person")
        return "won" if moved.done == (wal_id,) else moved.refused[wal_id].code

    results = Counter(at_once([backend.open() for _ in range(WRITERS)], decide))
    assert results == {"won": 1, "version_conflict": 63}
    assert backend.sql("SELECT status, version FROM wal_records") == [("quarantined", 5)]
    assert backend.sql("SELECT count(*) FROM wal_transitions WHERE kind = 'quarantine'") == [(1,)]


def rescue(backend: Backend, log: Path, rival: str) -> dict[int, list[int]]:
    """Race a rescuer with a rival; return, for each round, whether [rescuer, rival] won."""
    log.mkdir()
    play(
        "rescue_race",
        name=backend.name,
        url=backend.url,
        log=str(log),
        rounds=RESCUE_ROUNDS,
        rival=rival,
    )
    rounds: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for entry in read_log(log):
        rounds[entry["round"]][0 if entry["rescuer"] else 1] = entry["won"]
    assert len(rounds) == RESCUE_ROUNDS
    return rounds


@pytest.mark.conformance("SM-5.2b", "SM-2.2c")
def test_two_rescuers_free_a_unit_once(backend: Backend, tmp_path: Path) -> None:
    """Two processes recover one expired worker: one frees its unit, and one expiry is counted."""
    rounds = rescue(backend, tmp_path / "log", "rescuer")
    assert [sum(won) for won in rounds.values()] == [1] * RESCUE_ROUNDS
    records = backend.sql(
        "SELECT status, attempts, version, lease_expiries, count(*) FROM wal_records"
        " GROUP BY status, attempts, version, lease_expiries"
    )
    assert records == [("pending", 1, 4, 1, RESCUE_ROUNDS)]


@pytest.mark.conformance("SM-5.2b", "WAL-7.5")
def test_a_commit_lands_or_its_worker_is_recovered_never_both(
    backend: Backend, tmp_path: Path
) -> None:
    """A late commit races its recovery: either the attempt is applied or it is rolled back."""
    rounds = rescue(backend, tmp_path / "log", "commit")
    assert [sum(won) for won in rounds.values()] == [1] * RESCUE_ROUNDS
    applied = sum(won[1] for won in rounds.values())
    ends = dict(
        backend.sql(
            "SELECT r.status || ' ' || a.status, count(*) FROM wal_records AS r"
            " JOIN wal_attempts AS a ON a.wal_id = r.wal_id GROUP BY 1"
        )
    )
    assert ends.get("succeeded applied", 0) == applied
    assert ends.get("pending rolled_back", 0) == RESCUE_ROUNDS - applied


@pytest.mark.conformance("SM-5.2b")
def test_a_heartbeat_saves_the_worker_or_comes_too_late_never_both(
    backend: Backend, tmp_path: Path
) -> None:
    """A late heartbeat races recovery: either the lease is renewed or the unit is freed."""
    rounds = rescue(backend, tmp_path / "log", "heartbeat")
    assert [sum(won) for won in rounds.values()] == [1] * RESCUE_ROUNDS
    renewed = sum(won[1] for won in rounds.values())
    assert backend.sql("SELECT count(*) FROM workers WHERE fenced_at IS NULL") == [(renewed,)]
    assert backend.sql("SELECT count(*) FROM wal_attempts WHERE status = 'pending'") == [(renewed,)]

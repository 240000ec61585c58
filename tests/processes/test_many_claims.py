"""Many processes claim the same units at once; a history checker looks for two holders of one."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.process_roles import swarm_unit
from tests.support.processes import play, read_log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

PROCESSES = 16
#: A process; unit n needs 1 + n mod 3 attempts, so half as many units as claims.
CLAIMS, CLAIMS_FULL = 500, 10_000


def overlaps(history: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Return (unit, attempt, attempt) wherever two holders had one unit at the same time."""
    holders = defaultdict(list)
    for entry in history:
        holders[entry["wal_id"]].append((entry["claimed"], entry["closed"], entry["attempt_no"]))
    found = []
    for wal_id, spans in holders.items():
        spans.sort()
        pairs = pairwise(spans)
        found += [(wal_id, a[2], b[2]) for a, b in pairs if b[0] < a[1]]
    return found


def test_the_history_checker_sees_two_holders() -> None:
    """The checker reports a unit that two held at once, and none that was handed on."""
    first = {"wal_id": "a", "attempt_no": 1, "claimed": 10, "closed": 20}
    inside = {"wal_id": "a", "attempt_no": 2, "claimed": 19, "closed": 30}
    after = {"wal_id": "a", "attempt_no": 2, "claimed": 20, "closed": 30}
    other = {"wal_id": "b", "attempt_no": 1, "claimed": 11, "closed": 12}
    assert overlaps([inside, first, other]) == [("a", 1, 2)]
    assert overlaps([after, first, other]) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.conformance("WAL-7.5", "WAL-10.6", "WAL-5.2", "SM-2.2b", "SM-6.1", "SM-9.4")
def test_sixteen_processes_never_hold_a_unit_twice(
    backend: Backend, tmp_path: Path, *, full_counts: bool
) -> None:
    """16 processes make 500 claims each and more; no unit has two holders, all are done once."""
    claims = PROCESSES * (CLAIMS_FULL if full_counts else CLAIMS)
    unit_count = claims // 2 + 2
    log = tmp_path / "log"
    log.mkdir()
    play(
        "swarm",
        name=backend.name,
        url=backend.url,
        log=str(log),
        processes=PROCESSES,
        unit_count=unit_count,
        batch=25,
    )
    history = read_log(log)
    assert overlaps(history) == []
    assert_each_attempt_once(history, unit_count)
    assert_tables_agree(backend, history, unit_count)


def needed(number: int) -> int:
    """Return after how many attempts unit `number` is done."""
    return 1 + number % 3


def assert_each_attempt_once(history: list[dict[str, Any]], unit_count: int) -> None:
    """Every unit was claimed as often as it needed, and its last attempt alone succeeded."""
    counted = Counter((entry["wal_id"], entry["attempt_no"]) for entry in history)
    expected = {
        (swarm_unit(number).wal_id, attempt)
        for number in range(unit_count)
        for attempt in range(1, needed(number) + 1)
    }
    assert set(counted) == expected
    assert set(counted.values()) == {1}
    verdicts = Counter(entry["verdict"] for entry in history)
    assert verdicts == {"succeeded": unit_count, "failed": len(expected) - unit_count}


def assert_tables_agree(backend: Backend, history: list[dict[str, Any]], unit_count: int) -> None:
    """The tables hold the same attempts as the processes' own logs."""
    statuses = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status")
    assert statuses == [("succeeded", unit_count)]
    attempts = backend.sql("SELECT wal_id, attempt_no, status FROM wal_attempts")
    said = {
        (e["wal_id"], e["attempt_no"], "applied" if e["verdict"] == "succeeded" else "failed")
        for e in history
    }
    assert len(attempts) == len(history)
    assert set(attempts) == said
    unequal = backend.sql(
        "SELECT count(*) FROM wal_records AS r WHERE r.attempts <> r.applied_attempt OR"
        " r.attempts <> (SELECT count(*) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id)"
    )
    assert unequal == [(0,)]

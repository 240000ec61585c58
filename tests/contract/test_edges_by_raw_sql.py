"""The seven edges, guarded by the database itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.scene import (
    NEW_RECORD,
    RAW_ERRORS,
    STATUSES,
    Scene,
    accepts,
    insert_statement,
    run,
    undone,
)

if TYPE_CHECKING:
    from tests.support.backends import Backend

SEVEN = {
    (None, "pending"),
    ("pending", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "failed"),
    ("failed", "pending"),
    ("pending", "quarantined"),
    ("failed", "quarantined"),
}

#: Everything that the CHECKs ask for in any status, so that only the edge can be refused.
MOVE = (
    "UPDATE wal_records SET status = ?, version = version + 1, attempts = attempts + {count},"
    " integrity_status = 'ok', metadata_status = 'ok', stac_status = 'created',"
    " provenance_status = 'ok', stac_item_id = 'i', stac_collection_id = 'c', due_at = NULL,"
    " applied_attempt = CASE WHEN attempts + {count} >= 1 THEN 1 END,"
    " last_error_code = 'io_error', rerun_intent = NULL WHERE wal_id = ?"
)


def creates(connection: Any, status: str | None) -> bool:
    """Try to create a record in a status."""
    row = NEW_RECORD | {
        "wal_id": "0e0e0e0e-0000-8000-8000-000000000001",
        "object_uri": "s3://b/created",
        "status": status,
        "last_error_code": "io_error",
    }
    completed = {
        "attempts": 1,
        "applied_attempt": 1,
        "integrity_status": "ok",
        "metadata_status": "ok",
        "stac_status": "created",
        "provenance_status": "ok",
        "stac_item_id": "i",
        "stac_collection_id": "c",
    }
    return any(
        accepts(connection, insert_statement("wal_records", values), *values.values())
        for values in (row, row | completed)
    )


def moves(connection: Any, wal_id: str, source: str, target: str | None) -> bool:
    """Try to move a record; writing its own status again moves nothing."""
    if target is None:
        return accepts(connection, "DELETE FROM wal_records WHERE wal_id = ?", wal_id)
    taken = any(accepts(connection, MOVE.format(count=n), target, wal_id) for n in (0, 1))
    return taken and source != target


@pytest.mark.conformance(
    "WAL-4.6", "WAL-4.7", "WAL-10.3", "SM-0.1", "SM-3.1", "SM-3.2", "SM-3.3", "SM-3.4", "SM-9.1"
)
def test_of_36_pairs_of_states_the_database_takes_seven(backend: Backend) -> None:
    """Raw INSERT, UPDATE and DELETE move a record along the seven edges and no other."""
    scene = Scene(backend)
    ids = {status: scene.at(status, number) for number, status in enumerate(STATUSES)}
    connection = backend.connect()
    targets = (None, *STATUSES)
    accepted: set[tuple[str | None, str | None]] = {
        (None, target) for target in targets if creates(connection, target)
    }
    accepted |= {
        (source, target)
        for source in STATUSES
        for target in targets
        if moves(connection, ids[source], source, target)
    }
    assert accepted == SEVEN


@pytest.mark.conformance("SM-4.2a", "SM-3.1")
def test_the_claim_edge_counts_its_attempt(backend: Backend) -> None:
    """A raw move from pending to in_progress without one more attempt is refused."""
    scene = Scene(backend)
    wal_id = scene.at("pending")
    connection = backend.connect()
    assert not accepts(connection, MOVE.format(count=0), "in_progress", wal_id)
    assert accepts(connection, MOVE.format(count=1), "in_progress", wal_id)
    assert not accepts(connection, MOVE.format(count=2), "in_progress", wal_id)


@pytest.mark.conformance("SM-3.3", "SM-3.4", "WAL-4.6")
def test_a_refused_edge_leaves_row_and_version(backend: Backend) -> None:
    """An illegal raw UPDATE changes nothing of the record."""
    scene = Scene(backend)
    wal_id = scene.at("succeeded")
    before = scene.row(wal_id)
    connection = backend.connect()
    for target in ("failed", "pending", "in_progress", "quarantined"):
        assert not accepts(connection, MOVE.format(count=0), target, wal_id)
    assert scene.row(wal_id) == before


def step(connection: Any, draw: random.Random, standing: dict[str, str]) -> None:
    """Try one random edge for good; the database must judge it as the table does."""
    if draw.random() < 0.15 or not standing:
        number = len(standing)
        wal_id = f"0e0e0e0e-0000-8000-8000-{number:012}"
        row = NEW_RECORD | {"wal_id": wal_id, "object_uri": f"s3://b/{number}"}
        run(connection, insert_statement("wal_records", row), *row.values())
        standing[wal_id] = "pending"
        return
    wal_id = draw.choice(list(standing)[-20:])
    source, target = standing[wal_id], draw.choice(STATUSES)
    if source == target:
        return
    connection.execute("SAVEPOINT attempt")
    try:
        count = 1 if target == "in_progress" else 0
        run(connection, MOVE.format(count=count), target, wal_id)
    except RAW_ERRORS:
        connection.execute("ROLLBACK TO attempt")
        assert (source, target) not in SEVEN
    else:
        assert (source, target) in SEVEN
        standing[wal_id] = target


@pytest.mark.conformance("SM-9.1", "SM-3.1", "WAL-4.7", "WAL-4.6", "SM-3.2")
def test_ten_thousand_random_edges_are_judged_by_the_table(
    backend: Backend, *, full_counts: bool
) -> None:
    """A random walk of raw UPDATEs takes exactly the legal edges and ends where the model ends."""
    steps = 10_000 if full_counts or backend.name == "sqlite" else 2000
    connection = backend.connect()
    standing: dict[str, str] = {}
    draw = random.Random(20260601)
    with undone(connection):
        for _ in range(steps):
            step(connection, draw, standing)
        rows = run(connection, "SELECT CAST(wal_id AS text), status FROM wal_records").fetchall()
        assert dict(rows) == standing
        assert set(standing.values()) == set(STATUSES)

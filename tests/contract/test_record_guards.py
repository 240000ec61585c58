"""What the database refuses of a record, even through raw SQL."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.scene import NEW_RECORD, STATUSES, Scene, accepts, insert_statement
from tests.support.builders import unit

if TYPE_CHECKING:
    from tests.support.backends import Backend

CHECKS = ("unknown", "ok", "suspect", "failed")
STAC = ("unknown", "created", "updated", "no-op", "failed")
PROVENANCE = ("unknown", "ok", "partial", "failed")

VOCABULARIES = [
    pytest.param("integrity_status", CHECKS, marks=pytest.mark.conformance("WAL-3.9")),
    pytest.param("metadata_status", CHECKS, marks=pytest.mark.conformance("WAL-3.9")),
    ("stac_status", STAC),
    pytest.param("provenance_status", PROVENANCE, marks=pytest.mark.conformance("WAL-3.11")),
]

UNKNOWN_WORDS = ("", "OK", "Ok ", "done", "partial-ok", "null", "succeeded")

CLOSE = (
    "UPDATE wal_records SET status = 'succeeded', version = version + 1, applied_attempt = 1,"
    " stac_item_id = 'i', stac_collection_id = 'c', integrity_status = ?, metadata_status = ?,"
    " stac_status = ?, provenance_status = ? WHERE wal_id = ?"
)


def new_record(**changes: Any) -> dict[str, Any]:
    """Return a row that the table takes, with changes."""
    ids = {"wal_id": "0e0e0e0e-0000-8000-8000-000000000001", "object_uri": "s3://b/key"}
    return NEW_RECORD | ids | changes


def inserts(connection: Any, **changes: Any) -> bool:
    """Try to create a record."""
    row = new_record(**changes)
    return accepts(connection, insert_statement("wal_records", row), *row.values())


@pytest.mark.conformance("WAL-3.5")
def test_status_holds_only_its_vocabulary(backend: Backend) -> None:
    """Raw SQL can give a record none but the five statuses, at creation or later."""
    scene = Scene(backend)
    wal_id = scene.at("in_progress")
    connection = backend.connect()
    update = "UPDATE wal_records SET status = ?, version = version + 1 WHERE wal_id = ?"
    for word in ("", "Pending", "applied", "done", "rolled_back", None):
        assert not inserts(connection, status=word)
        assert not accepts(connection, update, word, wal_id)
    assert inserts(connection)


@pytest.mark.parametrize(("column", "words"), VOCABULARIES)
def test_an_operator_status_holds_only_its_vocabulary(
    backend: Backend, column: str, words: tuple[str, ...]
) -> None:
    """Each listed word is taken and every other refused, on records and on attempts."""
    scene = Scene(backend)
    wal_id = scene.at("in_progress")
    connection = backend.connect()
    record = f"UPDATE wal_records SET {column} = ?, version = version + 1 WHERE wal_id = ?"
    attempt = f"UPDATE wal_attempts SET {column} = ? WHERE wal_id = ?"
    for statement in (record, attempt):
        taken = {w for w in (*words, *UNKNOWN_WORDS) if accepts(connection, statement, w, wal_id)}
        assert taken == set(words)
        assert not accepts(connection, statement, None, wal_id)


@pytest.mark.conformance("WAL-4.3", "SM-2.3a", "SM-4.3a", "SM-9.2", "C-15")
def test_only_an_acceptable_tuple_makes_a_success(backend: Backend) -> None:
    """Of 320 combinations of operator statuses the database takes 2 × 2 × 3 × 2 as succeeded."""
    scene = Scene(backend)
    wal_id = scene.at("in_progress")
    connection = backend.connect()
    accepted = {
        combination
        for combination in product(CHECKS, CHECKS, STAC, PROVENANCE)
        if accepts(connection, CLOSE, *combination, wal_id)
    }
    passed = ("ok", "suspect")
    written = ("created", "updated", "no-op")
    assert accepted == set(product(passed, passed, written, ("ok", "partial")))


@pytest.mark.conformance("WAL-4.3", "SM-9.2")
def test_a_success_keeps_its_tuple_and_its_item(backend: Backend) -> None:
    """A succeeded record loses neither an acceptable status nor the ids of its item."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    connection = backend.connect()
    for change in (
        "integrity_status = 'failed'",
        "metadata_status = 'unknown'",
        "stac_status = 'failed'",
        "provenance_status = 'failed'",
        "stac_item_id = NULL",
        "stac_collection_id = NULL",
        "applied_attempt = NULL",
        "applied_attempt = 2",
    ):
        statement = f"UPDATE wal_records SET {change}, version = version + 1 WHERE wal_id = ?"
        assert not accepts(connection, statement, wal_id), change


@pytest.mark.conformance("WAL-3.15")
@pytest.mark.parametrize("step", [-1, 0, 2, 100])
def test_each_write_adds_exactly_one_to_version(backend: Backend, step: int) -> None:
    """Version neither stands still nor leaps nor falls, in any status."""
    scene = Scene(backend)
    connection = backend.connect()
    statement = "UPDATE wal_records SET worker_id = 'x', version = version + ? WHERE wal_id = ?"
    for number, status in enumerate(STATUSES):
        wal_id = scene.at(status, number)
        assert not accepts(connection, statement, step, wal_id)
        assert accepts(connection, statement, 1, wal_id)


@pytest.mark.conformance("SM-1.1")
def test_a_record_has_one_status_in_one_column_that_is_never_null(backend: Backend) -> None:
    """`status` is a single NOT NULL column, and no other column of the record could hold one."""
    if backend.name == "sqlite":
        info = backend.sql("SELECT name, \"notnull\" FROM pragma_table_info('wal_records')")
    else:
        info = backend.sql(
            "SELECT column_name, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END"
            " FROM information_schema.columns WHERE table_name = 'wal_records'"
        )
    columns = dict(info)
    assert columns["status"] == 1
    operators = {f"{name}_status" for name in ("integrity", "metadata", "stac", "provenance")}
    assert {name for name in columns if "status" in name or "state" in name} == {
        "status",
        *operators,
    }


@pytest.mark.conformance("WAL-3.1", "SM-4.1a")
def test_a_unit_has_one_record(backend: Backend) -> None:
    """A second row with the same wal_id or the same object_uri is refused by a unique index."""
    scene = Scene(backend)
    wal_id = scene.park()
    connection = backend.connect()
    assert not inserts(connection, wal_id=wal_id)
    assert not inserts(connection, object_uri=unit(0).object_uri)
    assert inserts(connection)


@pytest.mark.conformance("SM-4.1a")
def test_unique_addresses_are_an_index_not_a_trigger(backend: Backend) -> None:
    """The uniqueness of wal_id and object_uri is declared, so that no race gets between."""
    if backend.name == "sqlite":
        unique = backend.sql(
            "SELECT group_concat(c.name) FROM pragma_index_list('wal_records') AS i,"
            ' pragma_index_info(i.name) AS c WHERE i."unique" = 1 GROUP BY i.name'
        )
    else:
        unique = backend.sql(
            "SELECT string_agg(a.attname, ',') FROM pg_index AS i JOIN pg_attribute AS a"
            " ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
            " WHERE i.indrelid = 'wal_records'::regclass AND i.indisunique GROUP BY i.indexrelid"
        )
    assert {row[0] for row in unique} == {"wal_id", "object_uri"}


@pytest.mark.conformance("WAL-3.14", "C-14")
def test_an_unregistered_replay_reason_is_refused(backend: Backend) -> None:
    """Raw SQL can set a listed reason, or a custom one only once it stands registered."""
    scene = Scene(backend)
    wal_id = scene.fail()
    connection = backend.connect()
    statement = "UPDATE wal_records SET replay_reason = ?, version = version + 1 WHERE wal_id = ?"
    listed = ("dlq-drain", "incident", "backfill", "test")
    assert all(accepts(connection, statement, reason, wal_id) for reason in listed)
    for reason in ("because", "", "Incident", "sensor-recall", None):
        assert not accepts(connection, statement, reason, wal_id)
    backend.sql(
        "INSERT INTO replay_reasons VALUES ('sensor-recall', 'recalled', 'CAB-7', ?)",
        "2026-01-01T00:00:00.000000Z",
    )
    assert accepts(connection, statement, "sensor-recall", wal_id)


@pytest.mark.conformance("RP-3.2")
@pytest.mark.parametrize(
    "change",
    [
        "wal_id = '0e0e0e0e-0000-8000-8000-00000000000f'",
        "object_uri = 's3://b/other'",
        "time_range_start = '2025-01-01T00:00:00.000000Z'",
        "created_at = '2025-01-01T00:00:00.000000Z'",
        "attempts = attempts - 1",
        "attempts = attempts + 2",
        "budget_from = attempts + 1",
        "budget_from = -1",
        "lease_expiries = -1",
        "time_range_end = '1999-01-01T00:00:00.000000Z'",
        "last_error_code = 'Free text!'",
        "rerun_intent = 'ingest'",
    ],
    ids=lambda change: change.split(" ")[0],
)
def test_identity_and_counts_cannot_be_rewritten(backend: Backend, change: str) -> None:
    """What names a unit never changes, and its counters stay within their meaning."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    statement = f"UPDATE wal_records SET {change}, version = version + 1 WHERE wal_id = ?"
    assert not accepts(backend.connect(), statement, wal_id)


@pytest.mark.parametrize("status", ["failed", "in_progress", "pending", "quarantined"])
def test_only_a_success_is_run_again(backend: Backend, status: str) -> None:
    """A wish to re-run stands on succeeded records alone."""
    scene = Scene(backend)
    wal_id = scene.at(status)
    statement = (
        "UPDATE wal_records SET rerun_intent = 'repair', version = version + 1 WHERE wal_id = ?"
    )
    assert not accepts(backend.connect(), statement, wal_id)
    assert accepts(backend.connect(), statement, scene.succeed(1))


@pytest.mark.parametrize("status", ["failed", "quarantined"])
def test_a_failure_says_why(backend: Backend, status: str) -> None:
    """A failed or quarantined record cannot lose its code."""
    scene = Scene(backend)
    wal_id = scene.at(status)
    statement = (
        "UPDATE wal_records SET last_error_code = NULL, version = version + 1 WHERE wal_id = ?"
    )
    assert not accepts(backend.connect(), statement, wal_id)


def test_records_are_created_by_the_front_door(backend: Backend) -> None:
    """A record that starts with a version, an attempt or a second stamp is refused."""
    connection = backend.connect()
    assert not inserts(connection, version=2)
    assert not inserts(connection, attempts=1)
    assert not inserts(connection, updated_at="2026-01-02T00:00:00.000000Z")
    assert inserts(connection)

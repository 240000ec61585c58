"""Attempts, journal and log: what was written there stays."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import IllegalTransition, Refused, WorkerFenced
from tests.contract.scene import Scene, accepts, insert_statement, run, undone
from tests.support.builders import failure, success

if TYPE_CHECKING:
    from tests.support.backends import Backend

WORDS = ("pending", "applied", "failed", "rolled_back")
ATTEMPT_EDGES = {
    (None, "pending"),
    ("pending", "applied"),
    ("pending", "failed"),
    ("failed", "rolled_back"),
}

APPEND_ONLY = ("wal_transitions", "wal_annotations", "audit_log", "audit_seals")


def attempt_in(scene: Scene, status: str, number: int) -> dict[str, Any]:
    """Bring an attempt to a status; return its row."""
    claim = scene.claim(number, worker := scene.register())
    if status == "applied":
        scene.commit(success(claim), worker=worker)
    elif status == "failed":
        scene.commit(failure(claim), worker=worker)
    elif status == "rolled_back":
        scene.crash(worker)
    return scene.attempts(claim.wal_id)[0]


def rewritten(row: dict[str, Any], target: str) -> dict[str, Any]:
    """Return the row as it would have to look in the target status."""
    row = dict(row)
    if row["status"] == "failed" and target == "rolled_back":
        return row | {"status": target}
    closed = {
        "closed_at": "2026-01-01T00:00:00.000000Z",
        "commit_id": "0e0e0e0e-0000-4000-8000-000000000001",
        "closed_version": 3,
    }
    open_again = dict.fromkeys(closed)
    row |= open_again if target == "pending" else closed
    code = None if target in ("pending", "applied") else "io_error"
    return row | {"status": target, "error_code": code}


def update_statement(row: dict[str, Any]) -> str:
    """Return an UPDATE of all columns of one attempt."""
    columns = ", ".join(f"{name} = ?" for name in row)
    return f"UPDATE wal_attempts SET {columns} WHERE wal_id = ? AND attempt_no = ?"


def takes(connection: Any, row: dict[str, Any], target: str | None) -> bool:
    """Try to move an attempt to a status, or away."""
    key = (row["wal_id"], row["attempt_no"])
    if target is None:
        delete = "DELETE FROM wal_attempts WHERE wal_id = ? AND attempt_no = ?"
        return accepts(connection, delete, *key)
    values = rewritten(row, target)
    taken = accepts(connection, update_statement(values), *values.values(), *key)
    return taken and row["status"] != target


def opens(connection: Any, row: dict[str, Any], target: str) -> bool:
    """Try to insert a further attempt of a unit, in a status."""
    values = rewritten(row, target) | {"attempt_no": row["attempt_no"] + 1}
    return accepts(connection, insert_statement("wal_attempts", values), *values.values())


@pytest.mark.conformance("RP-3.8", "RP-3.10", "C-01")
def test_an_attempt_takes_four_edges_and_no_other(backend: Backend) -> None:
    """Opened pending, then applied or failed; failed may become rolled_back; nothing else."""
    scene = Scene(backend)
    rows = {status: attempt_in(scene, status, n) for n, status in enumerate(WORDS)}
    connection = backend.connect()
    accepted: set[tuple[str | None, str | None]] = {
        (source, target)
        for source, target in product(WORDS, (None, *WORDS))
        if takes(connection, rows[source], target)
    }
    accepted |= {(None, t) for t in WORDS if opens(connection, rows["failed"], t)}
    assert accepted == ATTEMPT_EDGES
    assert {rows[status]["status"] for status in WORDS} == set(WORDS)


@pytest.mark.conformance("RP-3.8", "RP-3.5")
@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("status", {"pending"}),
        ("intent", {"ingest", "reingest", "repair", "backfill"}),
        ("claimed_from", {"pending", "succeeded"}),
    ],
)
def test_an_attempt_holds_only_its_vocabularies(
    backend: Backend, column: str, words: set[str]
) -> None:
    """Any other word for status, intent or origin is refused on an open attempt."""
    scene = Scene(backend)
    wal_id = scene.at("in_progress")
    connection = backend.connect()
    statement = f"UPDATE wal_attempts SET {column} = ? WHERE wal_id = ?"
    tried = {*words, "", "Ingest", "retry", "in_progress", "done", "rolled_back"}
    assert {word for word in tried if accepts(connection, statement, word, wal_id)} == words
    assert not accepts(connection, statement, None, wal_id)


@pytest.mark.conformance("RP-3.11", "RP-3.10")
@pytest.mark.parametrize("status", ["applied", "failed", "rolled_back"])
def test_a_closed_attempt_is_never_edited(backend: Backend, status: str) -> None:
    """No single column of a closed attempt can be changed by raw SQL."""
    scene = Scene(backend)
    row = attempt_in(scene, status, 0)
    connection = backend.connect()
    for column, value in row.items():
        if column == "status":
            continue
        other: Any = 7 if isinstance(value, int) else "0e0e0e0e-0000-4000-8000-00000000000a"
        if column.endswith(("_at", "_time")):
            other = "1999-01-01T00:00:00.000000Z"
        if column == "evidence":
            other = b"{}"
        if column == "issues":
            other = '["integrity-check:size_zero"]'
        statement = f"UPDATE wal_attempts SET {column} = ? WHERE wal_id = ?"
        assert not accepts(connection, statement, other, row["wal_id"]), column
        # Together with the one edge that a failed attempt has, it is refused as well.
        both = f"UPDATE wal_attempts SET status = 'rolled_back', {column} = ? WHERE wal_id = ?"
        assert not accepts(connection, both, other, row["wal_id"]), column


@pytest.mark.conformance("RP-3.11")
def test_an_applied_attempt_stays_while_annotations_grow(backend: Backend) -> None:
    """Its hash is the same after notes, overwrites and further attempts; notes only get more."""
    scene = Scene(backend)
    wal_id = scene.succeed()

    def digest() -> str:
        return hashlib.sha256(repr(sorted(scene.attempts(wal_id)[0].items())).encode()).hexdigest()

    before = digest()
    for count in range(1, 4):
        scene.stores.interventions.annotate(wal_id, 1, actor="ann", note=f"n{count}")
        notes = backend.sql("SELECT note FROM wal_annotations ORDER BY annotation_id")
        assert notes == [(f"n{n}",) for n in range(1, count + 1)]
        assert digest() == before
    assert [note.note for note in scene.stores.reader.annotations(wal_id)] == ["n1", "n2", "n3"]


def test_a_note_needs_its_attempt(backend: Backend) -> None:
    """An annotation of an attempt that never was is refused with a named error."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    with pytest.raises(Exception, match="refused a row") as caught:
        scene.stores.interventions.annotate(wal_id, 2, actor="ann", note="x")
    assert getattr(caught.value, "code", None) == "data_refused"


@pytest.mark.conformance("WAL-7.5", "SM-2.2b", "SM-6.1")
def test_a_second_open_attempt_is_refused_by_the_index(backend: Backend) -> None:
    """While an attempt is open the database takes no other, whoever inserts it."""
    scene = Scene(backend)
    row = attempt_in(scene, "pending", 0)
    connection = backend.connect()
    assert not opens(connection, row, "pending")
    scene.crash(scene.worker)
    backend.sql("UPDATE workers SET expires_at = ?", "2000-01-01T00:00:00.000000Z")
    scene.stores.leases.recover()
    assert opens(connection, row, "pending")


def fill_append_only(scene: Scene) -> None:
    """Put at least one row into each append-only table."""
    wal_id = scene.fail()
    scene.quarantine(wal_id)
    scene.stores.interventions.annotate(wal_id, 1, actor="ann", note="n")
    scene.stores.audit.seal()


def edits(backend: Backend, table: str) -> list[str]:
    """Return statements that would rewrite a table's first row, or empty it."""
    key = {"audit_log": "entry_id", "audit_seals": "position"}.get(table, table[4:-1] + "_id")
    first = f"WHERE {key} = (SELECT min({key}) FROM {table})"
    column = "entry_hash" if table == "audit_seals" else "actor"
    value = "f" * 64
    statements = [
        f"UPDATE {table} SET {column} = '{value}' {first}",
        f"UPDATE {table} SET {column} = {column} {first}",
        f"DELETE FROM {table} {first}",
    ]
    if backend.name == "postgres":
        return [*statements, f"TRUNCATE {table}", f"TRUNCATE {table} CASCADE"]
    return [*statements, f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"]


@pytest.mark.conformance("RP-3.11", "SM-0.1")
@pytest.mark.parametrize("table", APPEND_ONLY)
def test_an_append_only_table_refuses_every_edit(backend: Backend, table: str) -> None:
    """Raw UPDATE, DELETE, REPLACE and TRUNCATE leave journal, notes and log as they are."""
    scene = Scene(backend)
    fill_append_only(scene)
    before = backend.rows(f"SELECT * FROM {table}")
    assert before
    connection = backend.connect()
    for statement in edits(backend, table):
        with undone(connection), pytest.raises(Exception, match=f"append_only: {table}"):
            run(connection, statement)
    assert backend.rows(f"SELECT * FROM {table}") == before


@pytest.mark.conformance("RP-3.11", "RP-3.10")
@pytest.mark.parametrize("table", ["wal_records", "wal_attempts"])
def test_records_and_attempts_are_never_replaced_or_emptied(backend: Backend, table: str) -> None:
    """REPLACE and TRUNCATE do not get round the guards of single rows."""
    scene = Scene(backend)
    scene.succeed()
    connection = backend.connect()
    statements = (
        [f"TRUNCATE {table} CASCADE"]
        if backend.name == "postgres"
        else [f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"]
    )
    for statement in (*statements, f"DELETE FROM {table}"):
        with undone(connection), pytest.raises(Exception, match=r"illegal_transition|append_only"):
            run(connection, statement)


@pytest.mark.conformance("RP-3.11", "WAL-7.5", "SM-0.1")
def test_replace_cannot_push_out_another_row(backend: Backend) -> None:
    """An INSERT OR REPLACE that collides in any unique key removes no row that is there."""
    if backend.name == "postgres":
        return  # has no such statement: a conflicting INSERT is an error
    scene = Scene(backend)
    fill_append_only(scene)
    held = attempt_in(scene, "pending", 1)
    scene.succeed(2)
    connection = backend.connect()
    connection.execute("PRAGMA recursive_triggers = OFF")  # DELETE triggers are silent then
    record = backend.rows("SELECT * FROM wal_records")[0]
    moved = record | {"wal_id": "0e0e0e0e-0000-8000-8000-000000000001", "object_uri": "s3://b/x"}
    moved |= {"rowid": backend.sql("SELECT min(rowid) FROM wal_records")[0][0]}
    seal = backend.rows("SELECT * FROM audit_seals")[0] | {"position": 99}
    edge = backend.rows("SELECT * FROM wal_transitions")[0] | {"transition_id": None, "actor": "x"}
    taken = backend.sql("SELECT min(rowid) FROM wal_attempts")[0][0]
    for table, row in (
        ("wal_attempts", held | {"attempt_no": 2}),
        ("wal_attempts", held | {"attempt_no": 3, "rowid": taken}),
        ("wal_transitions", edge),
        ("audit_seals", seal),
        ("wal_records", NEW | moved | NEW),
    ):
        statement = insert_statement(table, row, "INSERT OR REPLACE")
        with undone(connection):
            count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            with pytest.raises(Exception, match=r"illegal_transition|append_only"):
                run(connection, statement, *row.values())
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == count


#: A record as it is created.
NEW: dict[str, Any] = {"status": "pending", "version": 1, "attempts": 0, "budget_from": 0}


@pytest.mark.conformance("WAL-7.5")
@pytest.mark.parametrize("ended", ["fenced", "stopped"])
def test_a_worker_that_ended_stays_ended(backend: Backend, ended: str) -> None:
    """Neither raw SQL nor a heartbeat gives a fenced or stopped worker its lease back."""
    scene = Scene(backend)
    worker = scene.register()
    if ended == "fenced":
        scene.crash(worker)
    else:
        scene.stores.leases.stop(worker)
    connection = backend.connect()
    for change in (
        f"{ended}_at = NULL",
        f"{ended}_at = '2030-01-01T00:00:00.000000Z'",
        "expires_at = '2030-01-01T00:00:00.000000Z'",
    ):
        statement = f"UPDATE workers SET {change} WHERE incarnation = ?"
        assert not accepts(connection, statement, worker.incarnation), change
    with pytest.raises(WorkerFenced):
        scene.stores.leases.renew(worker)
    with pytest.raises(WorkerFenced):
        scene.announce(worker=worker)
    with pytest.raises(WorkerFenced):
        scene.due(worker=worker)
    with pytest.raises(WorkerFenced):
        scene.commit(worker=worker)


@pytest.mark.conformance("SM-0.1")
def test_a_guard_of_the_database_speaks_with_its_own_error(backend: Backend) -> None:
    """A trigger's refusal reaches the caller as the error it stands for."""
    scene = Scene(backend)
    wal_id = scene.succeed()
    row = (wal_id, 3, "succeeded", "pending", 0, None)
    with pytest.raises(IllegalTransition), scene.stores.database.transaction() as tx:
        tx.write("claim_records", [row], now=tx.now(), ingest_run_id="r", worker_id="w")
    assert issubclass(IllegalTransition, Refused)

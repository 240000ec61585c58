"""Publications that are killed, that race, and that repeat at random."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallgrass.errors import IdempotencyConflict, TransientError
from tallgrass.outbox import Artifact, publish, publish_all
from tests.outbox.callers import CHECKSUM, URI, DriverCaller, counts, event, nothing, once
from tests.outbox.publisher import POINTS
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.outbox import Event, Published
    from tests.support.backends import Backend

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.conformance("OB-1.0", "OB-1.1", "OB-3.2", "OB-3.3")
def test_a_killed_pipeline_leaves_all_or_nothing(pipeline_backend: Backend) -> None:
    """Killed before the commit, nothing is there; after it, everything; run again, once."""
    command = [sys.executable, "-m", "tests.outbox.publisher"]
    for point in POINTS:
        done = subprocess.run(
            [*command, pipeline_backend.name, pipeline_backend.url, point],
            cwd=ROOT,
            check=False,
            capture_output=True,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        expected = once() if point == "committed" else nothing()
        assert counts(pipeline_backend) == expected, point


@pytest.mark.conformance("OB-5.2", "OB-5.3", "OB-3.3")
def test_of_two_at_once_one_wins(pipeline_backend: Backend) -> None:
    """The other waits, then sees the duplicate or is told to run again; never a second row."""
    winners = 0
    for number in range(5):
        outcomes = race(pipeline_backend, f"key-{number}")
        assert all(isinstance(each, bool | TransientError) for each in outcomes)
        assert outcomes.count(False) == 1, outcomes
        winners += 1
        # Whoever was told to run again finds the duplicate.
        caller = DriverCaller(pipeline_backend)
        with caller.transaction() as handle:
            assert publish(handle, event(idempotency_key=f"key-{number}")).duplicate
    assert counts(pipeline_backend)["outbox"] == winners


def race(backend: Backend, key: str) -> list[bool | TransientError]:
    """Let two transactions publish one key; neither commits before both have begun to."""
    meeting = threading.Barrier(2)
    outcomes: list[bool | TransientError] = []

    def run() -> None:
        try:
            outcomes.append(attempt(backend, key, meeting).duplicate)
        except TransientError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def attempt(backend: Backend, key: str, meeting: threading.Barrier) -> Published:
    """Begin, meet the other, publish, commit."""
    if backend.name == "sqlite":
        with contextlib.closing(sqlite3.connect(backend.path, timeout=30)) as connection:
            connection.execute("BEGIN")
            # A view of the database before either has written.
            connection.execute("SELECT count(*) FROM outbox").fetchall()
            meeting.wait(60)
            with connection:
                return publish(connection, event(idempotency_key=key))
    with psycopg.connect(backend.url) as client, client.transaction():
        client.execute("SELECT count(*) FROM outbox")
        meeting.wait(60)
        return publish(client, event(idempotency_key=key))


@pytest.mark.conformance("OB-5.2")
@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_batches_in_opposite_order_do_not_block_each_other(pipeline_backend: Backend) -> None:
    """Keys are taken in one order by everyone: one waits for the other, no deadlock."""
    batch = [event(idempotency_key=f"k{number:03}") for number in range(9)]
    failures: list[str] = []

    def run(events: list[Event]) -> None:
        try:
            with psycopg.connect(pipeline_backend.url) as client, client.transaction():
                client.execute("SELECT 1")
                publish_all(client, events)
        except TransientError as error:
            failures.append(str(error))

    threads = [threading.Thread(target=run, args=(each,)) for each in (batch, batch[::-1])]
    with psycopg.connect(pipeline_backend.url) as holder:
        # Whoever holds the key in the middle makes both batches stop there, or before.
        holder.execute("SELECT 1")
        publish(holder, batch[4])
        for thread in threads:
            thread.start()
        wait_until(
            lambda: (
                pipeline_backend.sql(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                == [(2,)]
            )
        )
        holder.rollback()
    for thread in threads:
        thread.join()
    assert counts(pipeline_backend)["outbox"] == 9
    assert len(failures) == 1
    assert "published by another transaction" in failures[0]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that other threads bring about."""
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


# --- random repetitions against a model ---------------------------------------------------------

KEYS = st.sampled_from(["k0", "k1", "k2"])
PUBLICATIONS = st.lists(
    st.tuples(KEYS, st.integers(0, 1), st.sampled_from([None, "a0", "a1"]), st.integers(0, 1)),
    max_size=12,
)


@pytest.mark.conformance("OB-1.3", "OB-5.2", "OB-5.3")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(publications=PUBLICATIONS, cuts=st.sets(st.integers(0, 12), max_size=4))
def test_any_history_ends_as_its_first_publications_say(
    pipeline_backend: Backend, publications: list[tuple[Any, ...]], cuts: set[int]
) -> None:
    """Whatever is repeated, in whatever batches: one row a key, as the first one said it."""
    keys: dict[str, tuple[Any, ...]] = {}
    artifacts: dict[str, str] = {}
    caller = DriverCaller(pipeline_backend)
    with contextlib.suppress(ZeroDivisionError), caller.transaction() as handle:
        for batch in cut(publications, cuts):
            expected = model(batch, keys, artifacts)
            wanted = [made(*each) for each in batch]
            if expected is None:
                with pytest.raises(IdempotencyConflict):
                    publish_all(handle, wanted)
            else:
                assert [each.duplicate for each in publish_all(handle, wanted)] == expected
        assert found(handle, "SELECT idempotency_key FROM outbox ORDER BY 1") == sorted(keys)
        assert found(handle, "SELECT idempotency_key FROM idempotency_keys ORDER BY 1") == sorted(
            keys
        )
        assert found(handle, "SELECT artifact_uri FROM artifact_versions ORDER BY 1") == sorted(
            artifacts
        )
        raise ZeroDivisionError  # nothing of this history is for the next


def found(handle: Any, query: str) -> list[str]:
    """Return one column."""
    return [row[0] for row in handle.execute(query).fetchall()]


def cut(publications: list[Any], cuts: set[int]) -> list[list[Any]]:
    """Return the same in batches."""
    edges = [0, *sorted(each for each in cuts if each < len(publications)), len(publications)]
    return [publications[low:high] for low, high in pairwise(edges)]


def made(key: str, payload: int, artifact: str | None, content: int) -> Any:
    """Return the event that a tuple stands for."""
    uri = None if artifact is None else Artifact(uri=artifact, checksum=f"sha256:{content}")
    return event(idempotency_key=key, payload={"n": payload}, artifact=uri)


def model(
    batch: list[tuple[Any, ...]], keys: dict[str, tuple[Any, ...]], artifacts: dict[str, str]
) -> list[bool] | None:
    """Play a batch on two dictionaries; return which are duplicates, None for a conflict."""
    new_keys, new_artifacts, duplicates = dict(keys), dict(artifacts), []
    for key, payload, artifact, content in batch:
        said = (payload, artifact, None if artifact is None else content)
        if artifact is not None and new_artifacts.setdefault(artifact, content) != content:
            return None
        if new_keys.get(key, said) != said:
            return None
        duplicates.append(key in new_keys)
        new_keys[key] = said
    keys.update(new_keys)
    artifacts.update(new_artifacts)
    return duplicates


# --- the database's own guards ------------------------------------------------------------------

FIELDS = {
    "outbox_id": "'0196f3c1-4c4c-7f3e-8c1f-0d1f5f0a7b11'",
    "subject": "'s'",
    "pipeline_id": "'p'",
    "event_name": "'e'",
    "dataset_id": "'d'",
    "version": "'1.0.0'",
    "idempotency_key": "'k'",
    "target": "'file'",
    "payload": "{blob}",
    "care_label": "'public'",
    "created_at": "'2026-01-01T00:00:00.000000Z'",
}
REFUSED = (sqlite3.IntegrityError, psycopg.errors.IntegrityError, psycopg.errors.RaiseException)


def insert(backend: Backend, **changes: str) -> None:
    """Insert an outbox row by hand, with changes in SQL."""
    values = {**FIELDS, **changes}
    blob = "X'7b7d'" if backend.name == "sqlite" else "'\\x7b7d'::bytea"
    row = ", ".join(values.values()).replace("{blob}", blob)
    backend.sql(f"INSERT INTO outbox ({', '.join(values)}) VALUES ({row})")


@pytest.mark.conformance("OB-2.1", "OB-2.2", "OB-2.3", "OB-8.4", "OB-2.4", "C-36")
def test_the_database_refuses_a_row_without_a_field(pipeline_backend: Backend) -> None:
    """No field of the record may be missing, and no text of it empty; a key not even blank."""
    for name in FIELDS:
        with pytest.raises(REFUSED):
            insert(pipeline_backend, **{name: "NULL"})
    for name in set(FIELDS) - {"outbox_id", "payload", "created_at"}:
        with pytest.raises(REFUSED):
            insert(pipeline_backend, **{name: "''"})
    with pytest.raises(REFUSED):
        insert(pipeline_backend, idempotency_key="'   '")
    assert counts(pipeline_backend) == nothing()


@pytest.mark.conformance("OB-2.1", "OB-2.3")
def test_ids_and_keys_stand_once(pipeline_backend: Backend) -> None:
    """An id is unique; a key is unique for its subject and target."""
    other = {"outbox_id": "'0196f3c1-4c4c-7f3e-8c1f-0d1f5f0a7b12'"}
    insert(pipeline_backend)
    with pytest.raises(REFUSED):
        insert(pipeline_backend, idempotency_key="'other'")
    with pytest.raises(REFUSED):
        insert(pipeline_backend, **other)
    insert(pipeline_backend, **other, target="'lake'")
    assert counts(pipeline_backend)["outbox"] == 2


@pytest.mark.conformance("OB-2.5")
def test_a_delivery_has_one_of_three_states(pipeline_backend: Backend) -> None:
    """Pending, dispatched or failed: the database takes no other word, and no case of its own."""
    insert(pipeline_backend)
    assert pipeline_backend.sql("SELECT status FROM outbox_delivery") == [("pending",)]
    for word in ("sent", "PENDING", "", "exhausted"):
        with pytest.raises(REFUSED):
            pipeline_backend.sql(f"UPDATE outbox_delivery SET status = '{word}'")
    for word in ("failed", "pending"):
        pipeline_backend.sql(f"UPDATE outbox_delivery SET status = '{word}'")
    pipeline_backend.sql("UPDATE outbox_delivery SET status = 'dispatched', due_at = NULL")
    assert pipeline_backend.sql("SELECT status FROM outbox_delivery") == [("dispatched",)]


@pytest.mark.conformance("OB-8.3", "C-38")
def test_what_was_published_cannot_be_changed(pipeline_backend: Backend) -> None:
    """Neither events nor keys, artifacts and duplicates: no column, no row, by no statement."""
    caller = DriverCaller(pipeline_backend)
    with caller.transaction() as handle:
        for _ in range(2):
            publish(handle, event(), artifact=Artifact(uri=URI, checksum=CHECKSUM))
    tables = ("outbox", "idempotency_keys", "artifact_versions", "outbox_duplicates")
    before = [pipeline_backend.rows(f"SELECT * FROM {table}") for table in tables]
    for table, rows in zip(tables, before, strict=True):
        statements = [f"UPDATE {table} SET {column} = {column}" for column in rows[0]]
        for statement in (*statements, f"DELETE FROM {table}"):
            with pytest.raises((*REFUSED, psycopg.errors.DatabaseError)):
                pipeline_backend.sql(statement)
    assert [pipeline_backend.rows(f"SELECT * FROM {table}") for table in tables] == before


@pytest.mark.conformance("OB-8.3", "C-38")
def test_what_was_published_cannot_be_replaced(tmp_path: Path) -> None:
    """SQLite's INSERT OR REPLACE deletes without asking: it is refused, by whichever key."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'outbox.db'}")
    caller = DriverCaller(backend)
    with caller.transaction() as handle:
        for _ in range(2):
            publish(handle, event(), artifact=Artifact(uri=URI, checksum=CHECKSUM))
    backend.sql(
        "INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, ended_at)"
        " SELECT outbox_id, 1, 'd', 'lost', created_at FROM outbox"
    )
    tables = (
        "outbox", "outbox_delivery", "outbox_attempts", "idempotency_keys", "artifact_versions",
        "outbox_duplicates",
    )  # fmt: skip
    before = [backend.rows(f"SELECT * FROM {table}") for table in tables]
    for table, (row,) in zip(tables, before, strict=True):
        with pytest.raises(REFUSED, match=f"append_only: {table}"):
            backend.sql(f"INSERT OR REPLACE INTO {table} SELECT {', '.join(row)} FROM {table}")
    columns = ", ".join(name for name in before[0][0] if name != "outbox_id")
    other = "0196f3c1-4c4c-7f3e-8c1f-0d1f5f0a7b12"
    with pytest.raises(REFUSED):
        backend.sql(
            f"INSERT OR REPLACE INTO outbox (outbox_id, {columns})"
            f" SELECT '{other}', {columns} FROM outbox"
        )
    assert [backend.rows(f"SELECT * FROM {table}") for table in tables] == before
    backend.close()

"""The record comes first: what is committed before an effect, in which order, seen from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.workers import open_reader
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import WorkerFenced
from tallgrass.operators import stac_register
from tests.contract.scene import RAW_ERRORS, insert_statement
from tests.pipeline.scene import Pipeline, assert_effects_follow_the_ledger, thing, things
from tests.pipeline.watched import CrashAt, Crashed, Watched, WatchedDatabase
from tests.support.builders import failure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

EFFECTS = ("insert_items", "update_items", "insert_spans", "insert_provenance", "insert_events")
OPEN = (
    "SELECT r.object_uri FROM wal_records AS r JOIN wal_attempts AS a ON a.wal_id = r.wal_id"
    " AND a.attempt_no = r.attempts WHERE a.status = 'pending'"
    " AND r.status IN ('in_progress', 'succeeded')"
)


def effects(backend: Backend) -> tuple[Any, ...]:
    """Count what stands beside the ledger."""
    return backend.sql(
        "SELECT (SELECT count(*) FROM stac_items), (SELECT count(*) FROM provenance),"
        " (SELECT count(*) FROM outbox)"
    )[0]


@pytest.mark.conformance("WAL-1.2", "RP-3.1", "RP-3.9", "WAL-6.10")
def test_another_connection_sees_the_open_attempt_before_each_effect(
    backend: Backend, tmp_path: Path
) -> None:
    """When an effect is written its record and attempt are committed; the effect is not, yet."""
    pipeline = Pipeline(backend, tmp_path)
    first, second = thing(0), thing(1)
    pipeline.feed(first)
    pipeline.drain()
    before = effects(backend)
    assert before == (1, 1, 1)
    newer = thing(0, version=2)
    seen: dict[str, set[str]] = {}

    def watch(name: str) -> None:
        if name in EFFECTS or name == "commit":
            seen[name] = {row[0] for row in backend.sql(OPEN)}
            assert effects(backend) == before

    pipeline.feed(newer, second)
    batch = pipeline.worker.receive()
    pipeline.worker.parse(batch)
    pipeline.worker.record_and_claim(batch)
    pipeline.worker.read_evidence(batch)
    pipeline.worker.operate(batch)
    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, watch)
    pipeline.worker.commit(batch)
    assert seen == {name: {first.uri, second.uri} for name in (*EFFECTS, "commit")}
    # The item of the first is updated, so it has a second document and event.
    assert effects(backend) == (2, 3, 3)


@pytest.mark.conformance("RP-3.1", "WAL-6.9")
def test_operators_run_on_what_is_already_recorded(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first operator runs, every unit of the batch is committed as in progress."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    seen: list[Any] = []
    register = stac_register.stac_register

    def watched(*args: Any) -> Any:
        seen.append(backend.sql("SELECT status, attempts, version FROM wal_records"))
        return register(*args)

    monkeypatch.setattr(stac_register, "stac_register", watched)
    pipeline.drain()
    assert seen == [[("in_progress", 1, 2)] * 3] * 3


@pytest.mark.conformance("WAL-6.9")
def test_each_attempt_writes_in_this_order(backend: Backend, tmp_path: Path) -> None:
    """Claim, read, operators, outcome with its effects, acknowledgement: two transactions."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    trace: list[str] = []
    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, trace.append)
    reader = Watched(open_reader(pipeline.config, default_catalogue()), trace.append, "read")
    queue = Watched(pipeline.queue, trace.append, "receive", "delete")
    pipeline.start(pipeline.lease, queue=queue, reader=reader).run_messages()
    reads = {"hold_worker", "switched_off", "known_objects", "begin", "commit"}
    assert [step for step in trace if step not in reads] == [
        "receive",
        "receive done",
        "insert_records",
        "claim_records",
        "insert_attempts",
        "committed",
        "read",
        "read done",
        "close_attempts",
        "close_records",
        "insert_items",
        "insert_spans",
        "insert_provenance",
        "insert_events",
        "committed",
        "delete",
        "delete done",
    ]


@pytest.mark.conformance("WAL-6.10")
@pytest.mark.parametrize("step", [*EFFECTS[:1], *EFFECTS[2:], "commit"])
def test_a_crash_between_the_effect_and_the_outcome_leaves_neither(
    backend: Backend, tmp_path: Path, step: str
) -> None:
    """An item that was written but not committed is nobody's; the next worker makes the one."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    batch = pipeline.worker.receive()
    for phase in ("parse", "record_and_claim", "read_evidence", "operate"):
        getattr(pipeline.worker, phase)(batch)
    crash = CrashAt()

    def watch(name: str) -> None:
        if name == step:
            raise Crashed(name)
        crash(name)

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, watch)
    with pytest.raises(Crashed):
        pipeline.worker.commit(batch)
    pipeline.stores.runner.database = pipeline.stores.database
    assert effects(backend) == (0, 0, 0)
    assert pipeline.row(thing())["status"] == "in_progress"
    pipeline.replace_worker()
    pipeline.drain()
    assert effects(backend) == (1, 1, 1)
    assert pipeline.statuses() == {"succeeded": 1}
    assert_effects_follow_the_ledger(backend)


@pytest.mark.conformance("RP-3.1", "WAL-7.3", "WAL-6.10")
def test_a_worker_whose_claim_was_lost_writes_no_effect(backend: Backend, tmp_path: Path) -> None:
    """Of a batch only the attempts that are still open have effects."""
    pipeline = Pipeline(backend, tmp_path)
    lost, kept = thing(0), thing(1)
    pipeline.feed(lost, kept)
    batch = pipeline.worker.receive()
    for phase in ("parse", "record_and_claim", "read_evidence", "operate"):
        getattr(pipeline.worker, phase)(batch)
    # One attempt is closed behind the back of the batch.
    claim = next(claim for claim in batch.claims if claim.unit.object_uri == lost.uri)
    pipeline.stores.ledger.commit(pipeline.lease, [failure(claim, "io_error")])
    pipeline.worker.commit(batch)
    assert set(batch.closed) == {pipeline.row(kept)["wal_id"]}
    assert pipeline.item(lost) is None
    assert effects(backend) == (1, 1, 1)
    assert_effects_follow_the_ledger(backend)


@pytest.mark.conformance("RP-3.1")
def test_a_fenced_worker_writes_nothing(backend: Backend, tmp_path: Path) -> None:
    """A worker that lost its lease is refused as a whole, and the next one is not disturbed."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    worker, batch = pipeline.worker, pipeline.worker.receive()
    for phase in ("parse", "record_and_claim", "read_evidence", "operate"):
        getattr(worker, phase)(batch)
    pipeline.replace_worker()
    with pytest.raises(WorkerFenced):
        worker.commit(batch)
    assert effects(backend) == (0, 0, 0)
    pipeline.drain()
    assert effects(backend) == (3, 3, 3)
    with pytest.raises(WorkerFenced):
        worker.commit(batch)
    assert effects(backend) == (3, 3, 3)


@pytest.mark.conformance("WAL-1.2", "RP-3.9")
def test_the_database_refuses_an_effect_without_a_record(backend: Backend, tmp_path: Path) -> None:
    """Neither an item nor a document of an unknown unit can be stored, not even by raw SQL."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.drain()
    stranger = "3a21953a-f200-8517-9252-000000000000"
    for table, changes in (
        ("stac_items", {"wal_id": stranger, "item_id": "another"}),
        ("provenance", {"wal_id": stranger}),
    ):
        row = {**backend.rows(f"SELECT * FROM {table}")[0], **changes}
        with pytest.raises(RAW_ERRORS):
            backend.sql(insert_statement(table, row), *row.values())
    assert effects(backend) == (1, 1, 1)

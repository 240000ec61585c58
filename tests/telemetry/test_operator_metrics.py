"""What the last operators and the queue come to: writes, provenance, dead letters, by hand."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.operators import provenance_emit
from tallgrass.outbox.dispatch_rules import DispatchRules
from tests.pipeline.scene import VISIBILITY_S, Pipeline, thing, things
from tests.pipeline.test_failures import rejecting
from tests.replay.scene import Unreadable
from tests.support.events import MemorySink, down, write
from tests.support.outbox_roles import open_dispatcher
from tests.support.recording import MemoryRecorder
from tests.telemetry.spans import fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

P = "nodd_sns."
WRITES = P + "stac_write_latency_seconds"
UNPROVED = P + "provenance_failures_total"
DYING = P + "dlq_messages_total"


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the embedded database, whose messages die after three deliveries."""
    with fresh(tmp_path / "pipeline") as (backend, folder):
        yield Pipeline(backend, folder, max_receive_count=3)


def test_each_item_has_the_time_of_the_commit_that_wrote_it(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Created and updated ones have; what changed nothing, and what failed, has not."""
    recorder = MemoryRecorder()
    worker = pipeline.start(recorder=recorder)
    monkeypatch.setattr(worker, "_clock", pipeline.clock)
    real = worker._ledger.commit

    def slow(*args: Any) -> Any:
        pipeline.clock.advance(0.25)
        return real(*args)

    monkeypatch.setattr(worker._ledger, "commit", slow)
    pipeline.feed(*things(2))
    pipeline.announce(thing(5, dataset="hrrr"))
    worker.run_messages()
    assert recorder.observed(WRITES, dataset="goes-glm") == [0.25]
    assert recorder.observed(WRITES, dataset="nexrad-l2") == [0.25]
    pipeline.feed(thing(0, version=2))
    pipeline.announce(thing(1, dataset="nexrad-l2"), sequencer="F" * 16)
    worker.run_messages()
    outcomes = {key: n for key, n in recorder.by_labels(P + "stac_writes_total").items() if n}
    assert outcomes == {
        ("goes-glm", "created"): 1, ("nexrad-l2", "created"): 1,
        ("goes-glm", "updated"): 1, ("nexrad-l2", "no_op"): 1,
    }  # fmt: skip
    assert recorder.observed(WRITES, dataset="goes-glm") == [0.25, 0.25]
    assert recorder.observed(WRITES) == [0.25] * 3


def test_a_unit_that_fails_at_provenance_has_neither_document(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted on both paths at once; nothing of it is in the tables."""
    real, recorder = provenance_emit.provenance_emit, MemoryRecorder()

    def broken(**given: Any) -> Any:
        if given["claim"].unit.dataset == "hrrr":
            raise ZeroDivisionError
        return real(**given)

    monkeypatch.setattr(provenance_emit, "provenance_emit", broken)
    pipeline.feed(*things(6))
    pipeline.start(recorder=recorder).run_messages()
    assert recorder.by_labels(UNPROVED) == {("hrrr", "both"): 2}
    assert recorder.total(P + "provenance_emits_total", dataset="hrrr", status="failed") == 2
    written = pipeline.backend.sql("SELECT count(*) FROM provenance")
    assert written == [(4,)]


@pytest.mark.parametrize("attempts", [1, 2])
def test_lineage_that_is_given_up_is_counted_once(backend: Backend, attempts: int) -> None:
    """An event for a lineage service counts when it is exhausted; other events do not."""
    recorder = MemoryRecorder()
    write(backend, 1, event_name="openlineage.complete", dataset="hrrr")
    write(backend, 2, event_name="nodd.item.created", dataset="hrrr")
    sink = MemorySink(answers=[down() for _ in range(2 * attempts)])
    dispatcher = open_dispatcher(
        backend.open(), sink, recorder=recorder, rules=DispatchRules(attempts_max=attempts)
    )
    for left in reversed(range(attempts)):
        assert recorder.by_labels(UNPROVED) == {}
        dispatcher.run()
        if left:
            backend.sql("UPDATE outbox_delivery SET due_at = updated_at")
    assert recorder.by_labels(UNPROVED) == {("hrrr", "openlineage"): 1}
    dispatcher.run()
    assert len(sink.sent) == 2 * attempts
    assert recorder.by_labels(UNPROVED) == {("hrrr", "openlineage"): 1}


def test_a_message_is_counted_as_dying_at_its_last_delivery(pipeline: Pipeline) -> None:
    """Once each, by dataset, before the queue puts it away; what succeeds at last is not."""
    recorder = MemoryRecorder()

    def deliver(times: int, **changes: Any) -> None:
        worker = pipeline.start(recorder=recorder, **changes)
        for _ in range(times):
            worker.run_messages()
            pipeline.clock.advance(VISIBILITY_S + 1)

    pipeline.feed(thing(2, dataset="hrrr"))
    deliver(2, reader=Unreadable())
    deliver(1)
    assert pipeline.statuses() == {"succeeded": 1}
    pipeline.feed(thing(0), thing(1, dataset="nexrad-l2"))
    deliver(2, reader=Unreadable())
    assert recorder.by_labels(DYING) == {}
    deliver(1, reader=Unreadable())
    assert recorder.by_labels(DYING) == {
        ("nodd-primary", "goes-glm", "test"): 1,
        ("nodd-primary", "nexrad-l2", "test"): 1,
    }
    deliver(1)
    assert recorder.total(DYING) == 2
    with contextlib.closing(sqlite3.connect(pipeline.folder / "queue.db")) as queue:
        assert queue.execute("SELECT count(*) FROM dead_letters").fetchone() == (2,)


def test_a_line_of_governance_names_its_rule(pipeline: Pipeline) -> None:
    """What the gate refused says by which rule; a failure of another kind names none."""
    recorder = MemoryRecorder()
    pipeline.feed(thing(0))
    pipeline.put(thing(2, dataset="hrrr"), content=b"")
    pipeline.announce(thing(2, dataset="hrrr"), size=0)
    pipeline.start(recorder=recorder, catalogue=rejecting()).run_messages()
    lines = {(name, fields["error_code"], fields["rule_id"]) for name, fields in recorder.events}
    assert lines == {
        ("unit_quarantined", "governance_hard_fail", "dataset_rejected"),
        ("unit_failed", "size_zero", None),
    }
    spans = {
        span.attributes["error.type"]: span.attributes["nodd.rule_id"]
        for span in recorder.spans
        if span.name == "nodd_sns.ingest"
    }
    assert spans == {"governance_hard_fail": "dataset_rejected", "size_zero": None}

"""One span an attempt, its operators below it, and what each of them tells."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tests.pipeline.scene import VISIBILITY_S, Pipeline, thing, things
from tests.support.recording import MemoryRecorder
from tests.telemetry.spans import (
    FROM_A_MESSAGE,
    OF_A_UNIT,
    attempts,
    below,
    context_of,
    digits,
    fresh,
    roots,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the embedded database: what no statement has a part in."""
    with fresh(tmp_path / "pipeline") as (backend, folder):
        yield Pipeline(backend, folder)


@pytest.mark.conformance("WAL-9.2", "SM-8.1")
def test_every_claim_is_one_span_and_a_lost_race_is_none(backend: Backend, tmp_path: Path) -> None:
    """Failed and repeated attempts have a span and a point each; who comes too late has neither."""
    pipeline = Pipeline(backend, tmp_path)
    recorder = MemoryRecorder()
    worker = pipeline.start(recorder=recorder)
    pipeline.feed(*things(3))
    pipeline.announce(thing(9))
    late = pipeline.start(recorder=recorder)
    batch = worker.receive()
    worker.parse(batch)
    worker.record_and_claim(batch)
    pipeline.announce(*things(3), thing(9))
    assert late.run_messages().claims == []
    assert roots(recorder) == []
    for phase in (worker.read_evidence, worker.operate, worker.commit, worker.acknowledge):
        phase(batch)
    worker._report_batch(batch, pipeline.queue)
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.start(recorder=recorder).run_messages()
    spans = sorted(told(span, "wal_id", "attempt") for span in roots(recorder))
    assert spans == attempts(pipeline.backend)
    assert len(spans) == 5
    points = recorder.observed("nodd_sns.wal_attempts_histogram")
    assert sorted(points) == sorted(float(number) for _, number in spans)


@pytest.mark.conformance("WAL-9.2")
def test_an_attempt_has_its_operators_below_it(pipeline: Pipeline) -> None:
    """The parts come in the order of the work, inside the attempt, each with the unit's id."""
    recorder = MemoryRecorder()
    pipeline.feed(*things(3))
    pipeline.start(recorder=recorder).run_messages()
    assert len(roots(recorder)) == 3
    for root in roots(recorder):
        parts = below(recorder, root)
        assert tuple(part.name for part in parts) == (*FROM_A_MESSAGE, *OF_A_UNIT, "outbox_write")
        times = [time for part in parts for time in (part.started_at, part.ended_at)]
        assert times == sorted(times)
        assert root.started_at == times[0]
        assert root.ended_at == times[-1]
        assert {told(part, "wal_id") for part in parts} == {told(root, "wal_id")}
        assert len({context_of(part).span_id for part in parts}) == len(parts)
        assert {context_of(part).trace_id for part in parts} == {context_of(root).trace_id}
    first = roots(recorder)[0]
    receive, parse, *_ = below(recorder, first)
    assert receive.attributes["messaging.operation.type"] == "receive"
    assert receive.attributes["messaging.system"] == "tallgrass"
    assert receive.attributes["messaging.batch.message_count"] == 3
    assert told(parse, "parse_status", "parse_issues", "schema_version") == ("ok", None, "2.1")
    assert told(parse, "topic_arn") == ("arn:aws:sns:us-east-1:123901341784:NewGOES19Object",)
    (message_id,) = {span.attributes["messaging.message.id"] for span in (first, receive)}
    row = pipeline.backend.rows("SELECT sqs_message_id FROM wal_attempts WHERE wal_id = ?",
                                told(first, "wal_id")[0])  # fmt: skip
    assert row == [{"sqs_message_id": message_id}]


def test_parts_tell_what_the_ledger_holds(pipeline: Pipeline) -> None:
    """Statuses, ids and the address of the object are those of the tables."""
    recorder = MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder).run_messages()
    (root,) = roots(recorder)
    record, (attempt,) = pipeline.row(thing()), pipeline.attempts(thing())
    parts = {part.name: part for part in below(recorder, root)}
    assert told(root, "object_uri", "dataset", "bucket_provider", "run_mode", "intent") == (
        thing().uri, "goes-glm", "aws", "hot-path", "ingest",
    )  # fmt: skip
    assert told(root, "status", "ingest_run_id") == ("succeeded", attempt["ingest_run_id"])
    assert root.attributes["error.type"] is None
    assert told(parts["integrity_check"], "integrity_status") == ("ok",)
    assert told(parts["metadata_extract"], "metadata_status") == ("ok",)
    assert told(
        parts["stac_register"], "stac_item_id", "stac_collection_id", "stac_write_status"
    ) == (record["stac_item_id"], record["stac_collection_id"], "created")
    assert told(
        parts["provenance_emit"], "provenance_status", "prov_activity_id", "openlineage_run_id"
    ) == ("ok", attempt["prov_activity_id"], str(attempt["openlineage_run_id"]))
    uri_hash = hashlib.sha256(thing().uri.encode()).hexdigest()[:16]
    assert {told(part, "object_uri_hash") for part in parts.values()} == {(uri_hash,)}
    assert all("nodd.object_uri" not in part.attributes for part in parts.values())


def test_a_failure_says_where_and_by_which_code(pipeline: Pipeline) -> None:
    """The chain ends at the operator that failed; the attempt has the code of the ledger."""
    recorder = MemoryRecorder()
    pipeline.put(thing())
    pipeline.announce(thing(), etag="0" * 32)
    pipeline.start(recorder=recorder).run_messages()
    (root,) = roots(recorder)
    code = pipeline.row(thing())["last_error_code"]
    assert (root.attributes["error.type"], *told(root, "status")) == (code, "failed")
    names = [part.name for part in below(recorder, root)]
    assert names == [*FROM_A_MESSAGE, "object_fetch", "integrity_check"]
    (check,) = [part for part in below(recorder, root) if part.name == "integrity_check"]
    assert told(check, "integrity_status", "integrity_issues") == ("failed", code)


def test_a_claim_that_was_lost_ends_as_an_error(pipeline: Pipeline) -> None:
    """Its attempt was opened, so it has a span; nothing of it was written."""
    recorder = MemoryRecorder()
    worker = pipeline.start(pipeline.lease, recorder=recorder)
    pipeline.feed(thing())
    phases = worker.messages_by_phase()
    for _ in range(3):
        next(phases)
    pipeline.stores.leases.hand_back(pipeline.lease)
    for _ in phases:
        pass
    (root,) = roots(recorder)
    assert (root.attributes["error.type"], *told(root, "status")) == ("claim_lost",) * 2
    assert "outbox_write" not in {part.name for part in below(recorder, root)}


def test_only_the_traces_that_are_kept_are_gathered(pipeline: Pipeline) -> None:
    """Of three units one is sampled: its spans are whole, and nothing is noted of the others."""
    pipeline.feed(*things(3))
    recorder = MemoryRecorder(sampled=frozenset())
    worker = pipeline.start(recorder=recorder)
    batch = worker.run_messages()
    assert batch.trace is not None
    assert (batch.trace.laps, recorder.spans) == ({}, [])
    wal_id = str(pipeline.row(thing())["wal_id"])
    recorder.sampled = frozenset({digits(32, "trace", wal_id)})
    pipeline.feed(*(thing(n, dataset=d, version=2) for n, d in enumerate(
        ("goes-glm", "nexrad-l2", "hrrr"))))  # fmt: skip
    batch = worker.run_messages()
    assert len(batch.closed) == 3
    assert {told(root, "wal_id", "attempt") for root in roots(recorder)} == {(wal_id, 2)}
    assert {context_of(span).trace_id for span in recorder.spans} == recorder.sampled


def test_a_dataset_whose_places_are_masked_tells_no_address(pipeline: Pipeline) -> None:
    """A key may tell a place: its hash is told, the address is not."""
    shown, hidden = thing(1), thing(2, dataset="hrrr")
    datasets = tuple(
        replace(each, governance=replace(each.governance, masking_degrees=1.0))
        if each.id == "hrrr"
        else each
        for each in default_catalogue().datasets
    )
    recorder = MemoryRecorder()
    pipeline.feed(shown, hidden)
    catalogue = Catalogue(datasets)
    pipeline.start(recorder=recorder, catalogue=catalogue).run_messages()
    told_of = {told(root, "dataset")[0]: told(root, "object_uri")[0] for root in roots(recorder)}
    assert told_of == {"goes-glm": shown.uri, "hrrr": None}
    spans = [span for span in recorder.spans if span.attributes.get("nodd.dataset") == "hrrr"]
    assert len(spans) > 5
    assert hidden.place.key not in repr(spans)

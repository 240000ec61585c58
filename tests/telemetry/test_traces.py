"""Traces: one span an attempt, its operators below it, and links along the way of a message."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.telemetry.recorder import MemoryRecorder
from tallgrass.telemetry.trace_context import SpanContext, event_context, read_traceparent
from tests.pipeline.scene import VISIBILITY_S, Pipeline, message_of, thing, things
from tests.replay.letters import Letters
from tests.replay.scene import Replays, Unreadable
from tests.support.backends import Backend, prepare
from tests.support.events import MemorySink, down
from tests.support.outbox_roles import open_dispatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tallgrass.telemetry.recorder import RecordedSpan

ROOT = "nodd_sns.ingest"
FROM_A_MESSAGE = ("sqs_receive", "message_parse")
OF_A_UNIT = (
    "object_fetch", "integrity_check", "metadata_extract", "stac_register", "provenance_emit",
)  # fmt: skip
REPLAY = ("replay_run_id", "replay_mode", "replay_reason", "replay_original_run")
SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def digits(count: int, *parts: object) -> str:
    """Hash netstrings of the parts, as the page on telemetry says that ids are made."""
    named = "".join(f"{len(str(part))}:{part}," for part in parts)
    return hashlib.sha256(named.encode()).hexdigest()[:count]


def context_of(span: RecordedSpan) -> SpanContext:
    """Return where a span stands."""
    assert span.place is not None
    return span.place.context


def roots(recorder: MemoryRecorder) -> list[RecordedSpan]:
    """Return the spans of attempts."""
    return [span for span in recorder.spans if span.name == ROOT]


def below(recorder: MemoryRecorder, root: RecordedSpan) -> list[RecordedSpan]:
    """Return the spans whose parent is the given one."""
    parent = context_of(root)
    return [span for span in recorder.spans if span.place and span.place.parent == parent]


def told(span: RecordedSpan, *names: str) -> tuple[Any, ...]:
    """Return attributes of our own."""
    return tuple(span.attributes[f"nodd.{name}"] for name in names)


def attempts(backend: Backend) -> list[tuple[Any, ...]]:
    """Return id and number of all attempts, by raw SQL."""
    rows = backend.sql("SELECT wal_id, attempt_no FROM wal_attempts ORDER BY wal_id, attempt_no")
    return [(str(wal_id), number) for wal_id, number in rows]


@contextmanager
def fresh(folder: Path) -> Iterator[tuple[Backend, Path]]:
    """A database of its own, and a folder for its objects."""
    folder.mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    yield backend, folder
    backend.close()


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


def test_ids_are_made_of_the_attempt(pipeline: Pipeline) -> None:
    """Whoever knows a unit's id and its attempt knows the span, in any process."""
    recorder = MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder, reader=Unreadable()).run_messages()
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.start(recorder=recorder).run_messages()
    wal_id = str(pipeline.row(thing())["wal_id"])
    assert [context_of(root) for root in roots(recorder)] == [
        (digits(32, "trace", wal_id), digits(16, "attempt", wal_id, number)) for number in (1, 2)
    ]
    assert context_of(roots(recorder)[0]).traceparent == (
        f"00-{digits(32, 'trace', wal_id)}-{digits(16, 'attempt', wal_id, 1)}-01"
    )


def test_an_attempt_is_linked_to_its_batch_and_to_who_sent_the_message(pipeline: Pipeline) -> None:
    """A context that stands in the envelope, or beside the body, is a link; rubbish is none."""
    recorder = MemoryRecorder()
    envelope = json.loads(message_of(thing().event()))
    envelope["MessageAttributes"] = {"traceparent": {"Type": "String", "Value": SENDER}}
    rubbish = json.loads(message_of(thing(1).event()))
    rubbish["MessageAttributes"] = {"traceparent": {"Type": "String", "Value": SENDER[:-4]}}
    pipeline.put(*(thing(number) for number in range(3)))
    pipeline.queue.send([json.dumps(envelope).encode(), json.dumps(rubbish).encode()])
    pipeline.announce(thing(2))
    other = SENDER.replace("b7ad", "c8be")

    class Beside:
        """A queue that keeps contexts beside the bodies."""

        name, system = pipeline.queue.name, "aws_sqs"

        def __getattr__(self, name: str) -> Any:
            return getattr(pipeline.queue, name)

        def receive(self, limit: int) -> Sequence[Any]:
            """Hand out messages, the last one with a context."""
            *first, last = pipeline.queue.receive(limit)
            return [*first, replace(last, traceparent=other)]

    pipeline.start(recorder=recorder, queue=Beside()).run_messages()
    (batch,) = [span for span in recorder.spans if span.name == "nodd_sns.batch"]
    links = {told(root, "object_uri"): root.place.links for root in roots(recorder) if root.place}
    assert links == {
        (thing(0).uri,): (context_of(batch), tuple(SENDER.split("-")[1:3])),
        (thing(1).uri,): (context_of(batch),),
        (thing(2).uri,): (context_of(batch), tuple(other.split("-")[1:3])),
    }
    assert {root.attributes["messaging.system"] for root in roots(recorder)} == {"aws_sqs"}


@pytest.mark.parametrize(
    "text",
    [
        None, "", SENDER.upper(), SENDER + "-more", SENDER[:-1], "ff" + SENDER[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{'a' * 32}-{'0' * 16}-01", SENDER + "\n",
    ],
)  # fmt: skip
def test_what_the_standard_refuses_is_no_context(text: str | None) -> None:
    """Wrong lengths, capitals, zeros and the forbidden version are ignored."""
    assert read_traceparent(text) is None


def test_a_later_version_may_say_more() -> None:
    """As the standard asks, what a later version adds is passed over."""
    later = "cc" + SENDER[2:] + "-what-comes"
    assert read_traceparent(later) == tuple(SENDER.split("-")[1:3])
    assert read_traceparent(SENDER) == tuple(SENDER.split("-")[1:3])


def test_a_dispatch_stands_below_the_attempt_that_wrote_its_event(
    backend: Backend, tmp_path: Path
) -> None:
    """Another process finds the span by the row of the outbox alone; each send has its own."""
    pipeline = Pipeline(backend, tmp_path)
    recorder, later = MemoryRecorder(), MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder).run_messages()
    ((target, subject, key),) = pipeline.backend.sql(
        "SELECT target, subject, idempotency_key FROM outbox"
    )
    (root,) = roots(recorder)
    (written,) = [part for part in below(recorder, root) if part.name == "outbox_write"]
    assert context_of(written) == event_context(str(subject), key)
    assert told(written, "idempotency_key", "event_name") == (key, "nodd.item.created")
    sink = MemorySink(answers=[down()])
    stores = pipeline.backend.open()
    dispatcher = open_dispatcher(stores, sink, target=target, recorder=later)
    dispatcher.run()
    pipeline.backend.sql("UPDATE outbox_delivery SET due_at = updated_at")
    dispatcher.run()
    sends = [span for span in later.spans if span.name == "outbox_dispatch"]
    assert [told(span, "attempt", "dispatch_status", "duplicate_detected") for span in sends] == [
        (1, "failure", False), (2, "success", False),
    ]  # fmt: skip
    assert [span.attributes["error.type"] for span in sends] == ["sink_unreachable", None]
    assert {span.place.parent for span in sends if span.place} == {context_of(written)}
    assert len({context_of(span) for span in sends}) == 2
    ((outbox_id, created_at),) = pipeline.backend.sql("SELECT outbox_id, created_at FROM outbox")
    assert {told(span, "outbox_id") for span in sends} == {(str(outbox_id),)}
    assert created_at is not None
    latencies = [told(span, "latency_ms")[0] for span in sends]
    assert 0 <= latencies[0] <= latencies[1]


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


# --- replays --------------------------------------------------------------------------------------


@pytest.mark.conformance("WAL-9.3", "RP-8.4")
@pytest.mark.parametrize(("number", "mode"), [(1, "single"), (2, "range")])
def test_a_replayed_attempt_tells_its_run_and_the_one_before(
    backend: Backend, tmp_path: Path, number: int, mode: str
) -> None:
    """Run, mode, reason and the original run are on the span, with the unit's own id."""
    replays, recorder = Replays(backend, tmp_path), MemoryRecorder()
    failed = replays.failed(*things(number))
    before = dict(backend.sql("SELECT wal_id, ingest_run_id FROM wal_attempts"))
    report = replays.run(replays.select(failed), recorder=recorder)
    assert report.done == number
    for root in roots(recorder):
        (wal_id,) = told(root, "wal_id")
        original = {str(key): run for key, run in before.items()}[wal_id]
        assert told(root, *REPLAY) == (report.replay_run_id, mode, "backfill", original)
        assert root.place is not None
        assert root.place.links[-1] == (
            digits(32, "trace", wal_id), digits(16, "attempt", wal_id, 1),
        )  # fmt: skip
        assert root.attributes["messaging.message.id"] is None
        assert [part.name for part in below(recorder, root)] == [*OF_A_UNIT, "outbox_write"]
    assert sorted(told(root, "wal_id")[0] for root in roots(recorder)) == failed


@pytest.mark.conformance("RP-8.4")
def test_the_original_run_of_a_retried_replay_is_not_the_replay(
    backend: Backend, tmp_path: Path
) -> None:
    """A replay that fails once and is tried again still names the run before the replay."""
    replays, recorder = Replays(backend, tmp_path), MemoryRecorder()
    failed = replays.failed(thing())
    ((original,),) = backend.sql("SELECT ingest_run_id FROM wal_attempts")
    run = replays.run(replays.select(failed), options=RunOptions(work=False))
    for reader in (Unreadable(), None):
        lease = replays.pipeline.register("second")  # with a run of its own
        replays.pipeline.start(lease, reader=reader, recorder=recorder).run_due()
    first, second = roots(recorder)
    expected = (run.replay_run_id, "single", "backfill", original)
    assert told(first, *REPLAY) == told(second, *REPLAY) == expected
    assert [told(root, "attempt") for root in (first, second)] == [(2,), (3,)]
    assert told(second, "ingest_run_id") == ("run-second",) != (original,)
    for root in (first, second):
        assert root.place is not None
        assert root.place.links[-1] == (
            digits(32, "trace", failed[0]), digits(16, "attempt", failed[0], 1),
        )  # fmt: skip


@pytest.mark.conformance("WAL-9.3", "RP-8.4")
def test_a_drained_letter_tells_its_run(backend: Backend, tmp_path: Path) -> None:
    """Units that had failed name their first run; one that is new to the ledger has none."""
    letters, recorder = Letters(backend, tmp_path), MemoryRecorder()
    known, new = thing(1), thing(3)
    letters.fail(known)
    ((original,),) = backend.sql("SELECT ingest_run_id FROM wal_attempts")
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    letters.recorder = recorder
    report = letters.drain(plan, approval_id=letters.approved(plan))
    run_id = plan.header.replay_run_id
    assert (report.sent, letters.work(replay_run_id=run_id)) == (2, 2)
    spans = {told(root, "object_uri")[0]: told(root, *REPLAY) for root in roots(recorder)}
    assert spans == {
        known.uri: (run_id, "dlq", "dlq-drain", original),
        new.uri: (run_id, "dlq", "dlq-drain", None),
    }


def test_what_was_never_replayed_has_no_replay_attributes(pipeline: Pipeline) -> None:
    """All four are absent; the link to an earlier attempt is, too."""
    recorder = MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder, reader=Unreadable()).run_messages()
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.start(recorder=recorder).run_messages()
    assert [told(root, *REPLAY) for root in roots(recorder)] == [(None,) * 4] * 2
    assert [len(root.place.links) for root in roots(recorder) if root.place] == [1, 1]


@pytest.mark.conformance("RP-4.1c")
def test_a_replay_tells_the_same_as_the_ingest_would_have(tmp_path: Path) -> None:
    """Names, labels and counts of the operators, and their spans, are those of a first ingest."""
    first, again = MemoryRecorder(), MemoryRecorder()
    with fresh(tmp_path / "first") as (backend, folder):
        pipeline = Pipeline(backend, folder)
        pipeline.feed(*things(6))
        pipeline.start(recorder=first).run_messages()
        assert pipeline.statuses() == {"succeeded": 6}
    with fresh(tmp_path / "again") as (backend, folder):
        replays = Replays(backend, folder)
        failed = replays.failed(*things(6))
        assert replays.run(replays.select(failed), recorder=again).done == 6
    operators = {
        f"nodd_sns.{name}"
        for name in (
            "integrity_checks_total", "metadata_extract_total", "stac_writes_total",
            "provenance_emits_total", "bytes_ingested_total",
        )
    }  # fmt: skip
    assert all(first.by_labels(name) for name in operators)
    others = {name for name, _ in (*first._counts, *again._counts)} - {
        # Of the way to the claim, where a replay has no message and a unit that had failed.
        *(f"nodd_sns.{name}" for name in (
            "messages_received_total", "messages_parsed_total", "messages_deleted_total",
            "messages_kept_total", "receipts_total", "wal_records_total", "wal_replays_total",
            "replays_total", "replay_batches_total",
        ))
    }  # fmt: skip
    assert others >= operators
    assert {n: again.by_labels(n) for n in others} == {n: first.by_labels(n) for n in others}
    assert Counter(map(_sameness, _operator_spans(again))) == Counter(
        map(_sameness, _operator_spans(first))
    )


def _operator_spans(recorder: MemoryRecorder) -> list[RecordedSpan]:
    spans = [span for span in recorder.spans if span.name in OF_A_UNIT]
    assert len(spans) == 6 * len(OF_A_UNIT)
    return spans


def _sameness(span: RecordedSpan) -> tuple[str, tuple[tuple[str, object], ...]]:
    """Return all of a span but its time and the run that is named by the attempt."""
    kept = {k: v for k, v in span.attributes.items() if k != "nodd.openlineage_run_id"}
    return span.name, tuple(sorted(kept.items()))


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

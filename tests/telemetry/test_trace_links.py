"""Along the way of a message: from who sent it to the attempt, and on to each dispatch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.telemetry.trace_context import event_context, read_traceparent
from tests.pipeline.scene import VISIBILITY_S, Pipeline, message_of, thing
from tests.replay.scene import Unreadable
from tests.support.events import MemorySink, down
from tests.support.outbox_roles import open_dispatcher
from tests.support.recording import MemoryRecorder
from tests.telemetry.spans import below, context_of, digits, fresh, roots, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.backends import Backend

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the embedded database: what no statement has a part in."""
    with fresh(tmp_path / "pipeline") as (backend, folder):
        yield Pipeline(backend, folder)


def beside(pipeline: Pipeline, context: str) -> Any:
    """Return a queue that keeps contexts beside the bodies; the last message has one."""

    class Beside:
        name, system = pipeline.queue.name, "aws_sqs"

        def __getattr__(self, name: str) -> Any:
            return getattr(pipeline.queue, name)

        def receive(self, limit: int, *, wait: bool = True) -> Sequence[Any]:
            found = pipeline.queue.receive(limit, wait=wait)
            return [*found[:-1], *(replace(last, traceparent=context) for last in found[-1:])]

    return Beside()


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
    first = context_of(roots(recorder)[0])
    named = f"00-{digits(32, 'trace', wal_id)}-{digits(16, 'attempt', wal_id, 1)}"
    assert first.traceparent(kept=True) == f"{named}-01"
    assert first.traceparent(kept=False) == f"{named}-00"


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

    pipeline.start(recorder=recorder, queue=beside(pipeline, other)).run_messages()
    (batch,) = [span for span in recorder.spans if span.name == "nodd_sns.batch"]
    links = {told(root, "object_uri"): root.place.links for root in roots(recorder) if root.place}
    assert links == {
        (thing(0).uri,): (context_of(batch), tuple(SENDER.split("-")[1:3])),
        (thing(1).uri,): (context_of(batch),),
        (thing(2).uri,): (context_of(batch), tuple(other.split("-")[1:3])),
    }
    assert {root.attributes["messaging.system"] for root in roots(recorder)} == {"aws_sqs"}


def test_a_parked_unit_is_linked_to_who_sent_its_message(backend: Backend, tmp_path: Path) -> None:
    """Its message is gone when it is worked on; whoever sent it is a link all the same."""
    pipeline = Pipeline(backend, tmp_path)
    recorder = MemoryRecorder()
    envelope = json.loads(message_of(thing().event()))
    envelope["MessageAttributes"] = {"traceparent": {"Type": "String", "Value": SENDER}}
    rubbish = json.loads(message_of(thing(1).event()))
    rubbish["MessageAttributes"] = {"traceparent": {"Type": "String", "Value": "x" * 55}}
    pipeline.put(*(thing(number) for number in range(3)))
    pipeline.queue.send([json.dumps(envelope).encode(), json.dumps(rubbish).encode()])
    pipeline.announce(thing(2))
    other = SENDER.replace("b7ad", "c8be")
    pipeline.switch(is_on=True)
    pipeline.start(queue=beside(pipeline, other)).run_messages()
    assert pipeline.statuses() == {"pending": 3}
    pipeline.switch(is_on=False)
    pipeline.start(recorder=recorder).run_due()
    assert pipeline.statuses() == {"succeeded": 3}
    (batch,) = [span for span in recorder.spans if span.name == "nodd_sns.batch"]
    links = {told(root, "object_uri"): root.place.links for root in roots(recorder) if root.place}
    assert links == {
        (thing(0).uri,): (context_of(batch), tuple(SENDER.split("-")[1:3])),
        (thing(1).uri,): (context_of(batch),),
        (thing(2).uri,): (context_of(batch), tuple(other.split("-")[1:3])),
    }


def test_who_sent_a_message_is_no_part_of_what_is_made(backend: Backend, tmp_path: Path) -> None:
    """Nothing of a context is in an item, in provenance or in an event."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.switch(is_on=True)
    pipeline.start(queue=beside(pipeline, SENDER)).run_messages()
    ((kept,),) = backend.sql("SELECT next_object FROM wal_records")
    assert SENDER in kept
    pipeline.switch(is_on=False)
    pipeline.start().run_due()
    assert pipeline.statuses() == {"succeeded": 1}
    for table in ("wal_records", "wal_attempts", "stac_items", "provenance", "outbox"):
        (row,) = backend.sql(f"SELECT * FROM {table}")
        assert not any(SENDER.split("-")[1].encode() in as_bytes(value) for value in row), table


def as_bytes(value: object) -> bytes:
    """Return a column's value as bytes to search in."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


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


def test_what_leaves_with_an_event_names_the_spans_that_are_kept(
    backend: Backend, tmp_path: Path
) -> None:
    """The sink is given the contexts of exactly the spans that were told, at each attempt."""
    pipeline = Pipeline(backend, tmp_path)
    recorder = MemoryRecorder()
    pipeline.feed(thing())
    pipeline.start(recorder=recorder).run_messages()
    ((target,),) = pipeline.backend.sql("SELECT target FROM outbox")
    sink = MemorySink(answers=[down()])
    dispatcher = open_dispatcher(pipeline.backend.open(), sink, target=target, recorder=recorder)
    dispatcher.run()
    pipeline.backend.sql("UPDATE outbox_delivery SET due_at = updated_at")
    dispatcher.run()
    (written,) = [span for span in recorder.spans if span.name == "outbox_write"]
    sends = [span for span in recorder.spans if span.name == "outbox_dispatch"]
    assert [event.trace for event in sink.events] == [
        (context_of(written).traceparent(kept=True), context_of(send).traceparent(kept=True))
        for send in sends
    ]
    assert len(sends) == 2


@pytest.mark.parametrize(("tracing", "flag"), [(True, "00"), (False, None)])
def test_an_event_whose_trace_is_not_kept_says_so(
    pipeline: Pipeline, flag: str | None, *, tracing: bool
) -> None:
    """With the flag of the standard; where nobody traces at all, nothing leaves."""
    pipeline.feed(thing())
    pipeline.start().run_messages()
    ((target,),) = pipeline.backend.sql("SELECT target FROM outbox")
    sink = MemorySink()
    recorder = MemoryRecorder(tracing=tracing, sampled=frozenset())
    open_dispatcher(pipeline.backend.open(), sink, target=target, recorder=recorder).run()
    (event,) = sink.events
    assert [each[-2:] for each in event.trace or ()] == ([] if flag is None else [flag] * 2)
    assert recorder.spans == []

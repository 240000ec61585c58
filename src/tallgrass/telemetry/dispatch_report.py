"""What a dispatcher reports of a batch: once a batch, and nothing where nobody listens."""

from collections.abc import Sequence
from datetime import timedelta

from tallgrass.ledger.redaction import redact
from tallgrass.outbox.breaker import Lesson
from tallgrass.outbox.dispatch_rules import AttemptOutcome, Settled, Settlement
from tallgrass.outbox.event import EventTrace, OutboxEvent
from tallgrass.sinks.protocol import Delivery, Undelivered
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder, count_each, observe_each
from tallgrass.telemetry.trace_context import (
    SpanContext,
    SpanPlace,
    event_context,
    unit_trace,
)

_LINEAGE_EVENTS = "openlineage."
_STATUS = {AttemptOutcome.DISPATCHED: "success", AttemptOutcome.FAILED: "failure"}


def with_traces(recorder: Recorder, events: Sequence[OutboxEvent]) -> Sequence[OutboxEvent]:
    """Return events with the trace contexts that leave with them, where anybody keeps traces.

    One whose own trace is not kept has them too, with the flag that says so: its receiver need
    not guess.
    """
    if not recorder.tracing:
        return events
    return [event._replace(trace=_trace_of(recorder, event)) for event in events]


def _trace_of(recorder: Recorder, event: OutboxEvent) -> EventTrace:
    written, sent = _spans_of(event)
    kept = recorder.samples(written.trace_id)
    return EventTrace(created=written.traceparent(kept=kept), sent=sent.traceparent(kept=kept))


def _spans_of(event: OutboxEvent) -> tuple[SpanContext, SpanContext]:
    """Return the span that wrote an event, and that of this send of it."""
    written = event_context(event.subject, event.idempotency_key)
    return written, written.below(event.outbox_id, event.attempt)


def report_settled(
    recorder: Recorder, settlements: Sequence[Settlement], settled: Settled, took_s: float
) -> None:
    """Count deliveries by how they ended; tell of each that failed, and of those that came late.

    `took_s` is the time from the claim until now.
    """
    if not recorder.enabled:
        return
    written = [one for one in settlements if one.event.outbox_id not in settled.lost]
    count_each(
        recorder,
        names.OUTBOX_DISPATCHES,
        [
            (one.event.target, one.event.event_name, _STATUS[one.outcome])
            for one in written
            if one.outcome in _STATUS
        ],
    )
    observe_each(
        recorder,
        names.OUTBOX_LATENCY,
        [
            ((one.event.target,), max(0.0, (settled.at - one.event.created_at).total_seconds()))
            for one in written
            if one.outcome is AttemptOutcome.DISPATCHED
        ],
    )
    count_each(
        recorder, names.OUTBOX_DUPLICATES, [(one.event.target,) for one in written if one.duplicate]
    )
    failed = [one for one in written if one.outcome is AttemptOutcome.FAILED]
    for one in failed:
        _tell(recorder, one)
    _count_unproved(recorder, [one for one in failed if one.exhausted])
    if recorder.tracing:
        for one in written:
            if one.outcome in _STATUS and recorder.samples(unit_trace(one.event.subject)):
                _trace(recorder, one, settled, took_s)
    late = [one for one in settlements if one.event.outbox_id in settled.lost]
    count_each(recorder, names.OUTBOX_FENCED, [(one.event.target,) for one in late])
    if late:
        recorder.event(names.DELIVERIES_LOST, target=late[0].event.target, count=len(late))


def report_exhausted(recorder: Recorder, exhausted: Sequence[Settlement]) -> None:
    """Tell of each event that was given up without another send."""
    if recorder.enabled:
        for one in exhausted:
            _tell(recorder, one)
        _count_unproved(recorder, exhausted)


def report_lesson(
    recorder: Recorder, target: str, lesson: Lesson, answers: Sequence[Delivery]
) -> None:
    """Tell once that a target is left alone, as it is down, and once that it is back."""
    first = answers[0] if answers else None
    if lesson.opened and isinstance(first, Undelivered):
        recorder.event(
            names.TARGET_PAUSED,
            target=target,
            error_code=first.code,
            message=redact(first.message),
        )
    if lesson.closed_after_s is not None:
        recorder.event(
            names.TARGET_RESUMED, target=target, paused_s=round(lesson.closed_after_s, 3)
        )


def _trace(recorder: Recorder, one: Settlement, settled: Settled, took_s: float) -> None:
    """Note a send in the trace of what it tells of, below the span that wrote the event."""
    event = one.event
    written, sent = _spans_of(event)
    latency = max(settled.at - event.created_at, timedelta(0))
    recorder.span(
        names.OUTBOX_DISPATCH,
        settled.at - timedelta(seconds=max(took_s, 0.0)),
        settled.at,
        {
            "nodd.outbox_id": event.outbox_id,
            "nodd.pipeline_id": event.pipeline_id,
            "nodd.event_name": event.event_name,
            "nodd.dataset": event.dataset_id,
            "nodd.dispatch_status": _STATUS[one.outcome],
            "nodd.attempt": event.attempt,
            "nodd.latency_ms": round(latency / timedelta(milliseconds=1), 3),
            "nodd.duplicate_detected": one.duplicate,
            names.MESSAGING_OPERATION: "send",
            names.MESSAGING_DESTINATION: event.target,
            names.ERROR_TYPE: one.error_code,
        },
        SpanPlace(sent, written),
    )


def _count_unproved(recorder: Recorder, given_up: Sequence[Settlement]) -> None:
    """Count the lineage that no service will get."""
    datasets = (
        (one.event.dataset_id, "openlineage")
        for one in given_up
        if one.event.event_name.startswith(_LINEAGE_EVENTS)
    )
    count_each(recorder, names.PROVENANCE_FAILURES, datasets)


def _tell(recorder: Recorder, one: Settlement) -> None:
    recorder.event(
        names.EVENT_EXHAUSTED if one.exhausted else names.EVENT_UNDELIVERED,
        outbox_id=one.event.outbox_id,
        pipeline_id=one.event.pipeline_id,
        event_name=one.event.event_name,
        target=one.event.target,
        attempt=one.event.attempt,
        error_code=one.error_code,
        message=redact(one.error or ""),
    )

"""What a dispatcher reports of a batch: once a batch, and nothing where nobody listens."""

from collections.abc import Sequence

from tallgrass.ledger.redaction import redact
from tallgrass.outbox.breaker import Lesson
from tallgrass.outbox.dispatch_rules import AttemptOutcome, Settled, Settlement
from tallgrass.sinks.protocol import Delivery, Undelivered
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder, count_each, observe_each

_STATUS = {AttemptOutcome.DISPATCHED: "success", AttemptOutcome.FAILED: "failure"}


def report_settled(recorder: Recorder, settlements: Sequence[Settlement], settled: Settled) -> None:
    """Count deliveries by how they ended; tell of each that failed, and of those that came late."""
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
    for one in written:
        if one.outcome is AttemptOutcome.FAILED:
            _tell(recorder, one)
    late = [one for one in settlements if one.event.outbox_id in settled.lost]
    count_each(recorder, names.OUTBOX_FENCED, [(one.event.target,) for one in late])
    if late:
        recorder.event(names.DELIVERIES_LOST, target=late[0].event.target, count=len(late))


def report_exhausted(recorder: Recorder, exhausted: Sequence[Settlement]) -> None:
    """Tell of each event that was given up without another send."""
    if recorder.enabled:
        for one in exhausted:
            _tell(recorder, one)


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

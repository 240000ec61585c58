"""The age of messages is that at which they were taken from the queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tallgrass.queues.protocol import QueueMessage
from tallgrass.telemetry import names
from tallgrass.telemetry.batch_report import report_received
from tallgrass.worker import Batch
from tests.support.recording import MemoryRecorder

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def sent(seconds_ago: float) -> QueueMessage:
    """Return a message that was sent so long ago."""
    return QueueMessage(
        message_id="m",
        receipt="r",
        body=b"",
        receive_count=1,
        sent_at=NOW - timedelta(seconds=seconds_ago),
    )


def test_each_message_tells_its_age_once() -> None:
    """One report a batch; a message from a clock that is ahead has no age."""
    recorder = MemoryRecorder(env="prod")
    batch = Batch(started_at=NOW, messages=[sent(90), sent(0.5), sent(-3)])
    report_received(recorder, batch, "nodd")
    assert recorder.observed(names.QUEUE_AGE, queue="nodd", env="prod") == [90, 0.5, 0]
    report_received(recorder, Batch(started_at=NOW, messages=[]), "nodd")
    assert len(recorder.observed(names.QUEUE_AGE)) == 3

"""What a batch reports: each phase once, after the commit that it describes.

A batch that breaks off has reported what was committed before, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.redaction import redact
from tallgrass.ledger.vocabulary import ProvenanceStatus, StacStatus
from tallgrass.operators import integrity_check, metadata_extract
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder, count_each, observe_each
from tallgrass.telemetry.unit_events import replay_fields, report_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from tallgrass.clock import Clock
    from tallgrass.ledger.claim import Claim, CommitResult, Receipt
    from tallgrass.operators.effects import ChainResult
    from tallgrass.queues.protocol import Queue
    from tallgrass.telemetry.trace_report import Timed
    from tallgrass.worker import Batch

    Results = Sequence[tuple[Claim, ChainResult]]

#: What counts the issues of an operator.
_ISSUES = {
    integrity_check.NAME: names.INTEGRITY_FAILURES,
    metadata_extract.NAME: names.METADATA_FAILURES,
}
#: What counts the results of an operator, and the field that holds them.
_STATUSES = (
    (names.INTEGRITY_CHECKS, "integrity_status"),
    (names.METADATA_EXTRACTS, "metadata_status"),
    (names.STAC_WRITES, "stac_status"),
    (names.PROVENANCE_EMITS, "provenance_status"),
)
#: What wrote an item.
_WRITTEN = frozenset({StacStatus.CREATED, StacStatus.UPDATED})
_NO_PROVENANCE = frozenset({ProvenanceStatus.PARTIAL, ProvenanceStatus.FAILED})
#: Of a message that no unit could be made of yet.
_UNKNOWN = "unknown"


class Took(NamedTuple):
    """When a transaction began and ended."""

    began: datetime
    ended: datetime


@contextmanager
def timed(recorder: Recorder, clock: Clock, name: str, spans: list[Timed]) -> Iterator[None]:
    """Note the time of a phase that comes to its end, where somebody keeps spans."""
    if not recorder.tracing:
        yield
        return
    began = clock()
    yield
    spans.append((name, began, clock()))


def report_received(recorder: Recorder, batch: Batch, queue: str) -> None:
    """Report what the queue gave."""
    if recorder.enabled and batch.messages:
        recorder.count(names.MESSAGES_RECEIVED, len(batch.messages), queue=queue)
        # The queue's clock may be ahead of ours.
        ages = (batch.started_at - message.sent_at for message in batch.messages)
        seconds = [max(0.0, age.total_seconds()) for age in ages]
        recorder.observe(names.QUEUE_AGE, seconds, queue=queue)


def report_parsed(recorder: Recorder, batch: Batch, queue: str) -> None:
    """Report what the messages turned out to be; poison is stored by now."""
    if not recorder.enabled:
        return
    parsed = batch.parsed
    units = ((unit.dataset, "ok") for each in parsed for unit in each.units)
    count_each(recorder, names.MESSAGES_PARSED, units)
    ignored = ((record.reason,) for each in parsed for record in each.ignored)
    count_each(recorder, names.RECORDS_IGNORED, ignored)
    deferred = ((each.deferred.code,) for each in parsed if each.deferred is not None)
    count_each(recorder, names.MESSAGES_DEFERRED, deferred)
    poison = ((each.poison.code,) for each in parsed if each.poison is not None)
    count_each(recorder, names.PARSE_FAILURES, poison)
    for message, each in zip(batch.messages, parsed, strict=True):
        if each.poison is not None:
            recorder.event(
                names.MESSAGE_POISONED,
                queue=queue,
                message_id=message.message_id,
                error_code=each.poison.code,
                message=redact(each.poison.message),
            )


def report_claims(recorder: Recorder, batch: Batch) -> None:
    """Report what the ledger decided of announced units, and the attempts that it opened."""
    if not recorder.enabled:
        return
    receipts = chain.from_iterable(batch.receipts)
    decided = ((receipt.unit.dataset, receipt.decision.action.value) for receipt in receipts)
    count_each(recorder, names.RECEIPTS, decided)
    numbers = (((claim.unit.dataset,), float(claim.attempt_no)) for claim in batch.claims)
    observe_each(recorder, names.WAL_ATTEMPTS, numbers)


def report_commit(
    recorder: Recorder,
    batch: Batch,
    results: Results,
    done: CommitResult,
    worker_id: str,
    took: Took,
) -> None:
    """Report the outcomes of one commit: those of the batch, or of a part of it."""
    if not recorder.enabled:
        return
    won = [pair for pair in results if pair[0].wal_id in done.closed]
    _report_operators(recorder, won)
    _report_successes(recorder, batch, won, took.ended)
    _report_writes(recorder, won, took)
    _report_failures(recorder, won, done)
    if done.lost:
        lost = ((c.unit.dataset,) for c, _ in results if c.wal_id not in done.closed)
        count_each(recorder, names.CLAIMS_LOST, lost)
        recorder.event(names.CLAIMS_WERE_LOST, worker_id=worker_id, count=len(done.lost))


def report_split(recorder: Recorder, batch: Batch, message: str) -> None:
    """Report that a batch had to be committed in parts; it is said once, with the first refusal."""
    if batch.refusal is not None:
        recorder.event(
            names.BATCH_SPLIT,
            error_code=batch.refusal.code,
            count=len(batch.results),
            message=redact(message),
        )


def report_acknowledged(recorder: Recorder, batch: Batch, queue: Queue) -> None:
    """Report what became of the messages."""
    if not recorder.enabled:
        return
    name, last = queue.name, queue.max_receive_count
    recorder.count(names.MESSAGES_DELETED, batch.deleted, queue=name)
    recorder.count(names.MESSAGES_KEPT, batch.kept, queue=name)
    if last is not None:
        dying = (receipts for message, receipts in batch.staying if message.receive_count >= last)
        count_each(recorder, names.DLQ_MESSAGES, ((name, _dataset_of(each)) for each in dying))
    stale = len(batch.messages) - batch.deleted - batch.kept
    if stale and batch.unacknowledged is None:
        recorder.count(names.MESSAGES_STALE, stale, queue=name)
        recorder.event(names.RECEIPTS_STALE, queue=name, count=stale)


def report_batch(recorder: Recorder, batch: Batch, now: datetime, queue: str | None) -> None:
    """Report a batch that has come to its end: its size and its time."""
    if not recorder.enabled:
        return
    source = "due" if queue is None else "queue"
    recorder.observe(names.BATCH_UNITS, [float(len(batch.claims))], source=source)
    seconds = (now - batch.started_at).total_seconds()
    recorder.observe(names.BATCH_SECONDS, [seconds], source=source)


def _report_operators(recorder: Recorder, won: Results) -> None:
    for name, field in _STATUSES:
        # Added up as they are, and put into words once for each: a batch has a thousand units.
        found = Counter(
            (claim.unit.dataset, getattr(result.outcome, field)) for claim, result in won
        )
        of_dataset, of_status = names.METRICS[name].labels
        for (dataset, status), number in found.items():
            if status.value != "unknown":
                word = status.value.replace("-", "_")
                recorder.count(name, number, **{of_dataset: dataset, of_status: word})
    issues = [
        (claim.unit.dataset, *issue.split(":", 1))
        for claim, result in won
        for issue in result.outcome.issues
    ]
    for operator, name in _ISSUES.items():
        labels = ((dataset, code) for dataset, by, code in issues if by == operator)
        count_each(recorder, name, labels)


def _report_successes(recorder: Recorder, batch: Batch, won: Results, now: datetime) -> None:
    done = [claim for claim, result in won if result.outcome.error_code is None]
    observe_each(
        recorder,
        names.INGEST_LATENCY,
        (((c.unit.dataset,), (now - c.unit.event.event_time).total_seconds()) for c in done),
    )
    sizes = {
        claim.wal_id: reading.size or 0
        for claim, reading in zip(batch.claims, batch.readings, strict=True)
        if isinstance(reading, Evidence)
    }
    for dataset in sorted({claim.unit.dataset for claim in done}):
        size = sum(sizes[claim.wal_id] for claim in done if claim.unit.dataset == dataset)
        recorder.count(names.BYTES_INGESTED, size, dataset=dataset)


def _report_writes(recorder: Recorder, won: Results, took: Took) -> None:
    """Report how long items took to be written: as long as the commit that wrote them all."""
    seconds = max(0.0, (took.ended - took.began).total_seconds())
    writes = (
        ((claim.unit.dataset,), seconds)
        for claim, result in won
        if result.outcome.error_code is None and result.outcome.stac_status in _WRITTEN
    )
    observe_each(recorder, names.STAC_WRITE_LATENCY, writes)


def _dataset_of(receipts: Sequence[Receipt]) -> str:
    """Return the dataset of a message, which is that of its units."""
    return receipts[0].unit.dataset if receipts else _UNKNOWN


def _report_failures(recorder: Recorder, won: Results, done: CommitResult) -> None:
    failed = [(c, r, code) for c, r in won if (code := r.outcome.error_code) is not None]
    errors = ((claim.unit.dataset, code) for claim, _, code in failed)
    count_each(recorder, names.VALIDATION_ERRORS, errors)
    unproved = (
        (claim.unit.dataset, "both")
        for claim, result, _ in failed
        if result.outcome.provenance_status in _NO_PROVENANCE
    )
    count_each(recorder, names.PROVENANCE_FAILURES, unproved)
    for claim, result, code in failed:
        verdict = done.closed[claim.wal_id].verdict
        held = verdict is Verdict.QUARANTINED
        report_unit(
            recorder,
            names.UNIT_QUARANTINED if held else names.UNIT_FAILED,
            wal_id=claim.wal_id,
            dataset=claim.unit.dataset,
            object_uri=claim.unit.object_uri,
            attempt=claim.attempt_no,
            status=verdict.value,
            error_code=code,
            message=result.outcome.error_message,
            replay=replay_fields(claim),
            issues=result.outcome.issues,
            rule_id=result.rule_id,
        )

"""What a finished batch reports: called once, after the commit that it describes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tallgrass.canonical_json import sha256_hex
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Action
from tallgrass.ledger.vocabulary import Status
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder, count_each, observe_each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tallgrass.ledger.claim import Claim
    from tallgrass.operators.effects import ChainResult
    from tallgrass.worker import Batch

#: What a verdict makes a unit enter, in order.
_ENTERED = {
    Verdict.SUCCEEDED: ("succeeded",),
    Verdict.FAILED: ("failed",),
    Verdict.RETRY: ("failed", "pending"),
    Verdict.QUARANTINED: ("failed", "quarantined"),
}


def report_batch(recorder: Recorder, batch: Batch, now: datetime, queue: str | None) -> None:
    """Report a batch; where nobody listens nothing is gathered."""
    if not recorder.enabled:
        return
    source = "due" if queue is None else "queue"
    if queue is not None:
        _report_messages(recorder, batch, queue)
    won = [pair for pair in batch.results if pair[0].wal_id in batch.closed]
    count_each(recorder, names.WAL_RECORDS, _entries(batch))
    observe_each(
        recorder,
        names.WAL_ATTEMPTS,
        (((claim.unit.dataset,), float(claim.attempt_no)) for claim in batch.claims),
    )
    lost = [claim for claim in batch.claims if claim.wal_id not in batch.closed]
    count_each(recorder, names.CLAIMS_LOST, ((claim.unit.dataset,) for claim in lost))
    _report_operators(recorder, won)
    _report_outcomes(recorder, batch, won, now)
    recorder.observe(names.BATCH_UNITS, [float(len(batch.claims))], source=source)
    seconds = (now - batch.started_at).total_seconds()
    recorder.observe(names.BATCH_SECONDS, [seconds], source=source)
    recorder.span(
        names.INGEST,
        batch.started_at,
        now,
        {
            "nodd.queue": queue,
            "nodd.run_mode": "hot-path",
            "nodd.messages": len(batch.messages),
            "nodd.units": len(batch.claims),
        },
    )


def _report_messages(recorder: Recorder, batch: Batch, queue: str) -> None:
    recorder.count(names.MESSAGES_RECEIVED, len(batch.messages), queue=queue)
    recorder.count(names.MESSAGES_DELETED, batch.deleted, queue=queue)
    recorder.count(names.MESSAGES_KEPT, batch.kept, queue=queue)
    stale = len(batch.messages) - batch.deleted - batch.kept
    if stale:
        recorder.count(names.MESSAGES_STALE, stale, queue=queue)
        recorder.event(names.RECEIPTS_STALE, queue=queue, count=stale)
    count_each(
        recorder,
        names.MESSAGES_PARSED,
        ((unit.dataset, "ok") for parsed in batch.parsed for unit in parsed.units),
    )
    count_each(
        recorder,
        names.RECORDS_IGNORED,
        ((ignored.reason,) for parsed in batch.parsed for ignored in parsed.ignored),
    )
    for message, parsed in zip(batch.messages, batch.parsed, strict=True):
        if parsed.poison is not None:
            recorder.count(names.PARSE_FAILURES, 1, reason=parsed.poison.code)
            recorder.event(
                names.MESSAGE_POISONED,
                queue=queue,
                message_id=message.message_id,
                error_code=parsed.poison.code,
                message=parsed.poison.message,
            )
    count_each(
        recorder,
        names.RECEIPTS,
        (
            (receipt.unit.dataset, receipt.decision.action.value)
            for receipt in chain.from_iterable(batch.receipts)
        ),
    )


def _entries(batch: Batch) -> Iterator[tuple[str, str]]:
    """Yield (dataset, status) for every status that a unit entered in this batch."""
    for receipt in chain.from_iterable(batch.receipts):
        if receipt.claim is None and receipt.decision.action is Action.QUARANTINE:
            yield receipt.unit.dataset, "quarantined"
    for claim in batch.claims:
        if claim.attempt_no == 1:
            yield claim.unit.dataset, "pending"
        if claim.claimed_from is Status.PENDING:
            yield claim.unit.dataset, "in_progress"
            closed = batch.closed.get(claim.wal_id)
            for status in () if closed is None else _ENTERED[closed.verdict]:
                yield claim.unit.dataset, status


def _report_operators(recorder: Recorder, won: list[tuple[Claim, ChainResult]]) -> None:
    for name, field in (
        (names.INTEGRITY_CHECKS, "integrity_status"),
        (names.METADATA_EXTRACTS, "metadata_status"),
        (names.STAC_WRITES, "stac_status"),
        (names.PROVENANCE_EMITS, "provenance_status"),
    ):
        count_each(
            recorder,
            name,
            (
                (claim.unit.dataset, status.replace("-", "_"))
                for claim, result in won
                if (status := getattr(result.outcome, field).value) != "unknown"
            ),
        )


def _report_outcomes(
    recorder: Recorder, batch: Batch, won: list[tuple[Claim, ChainResult]], now: datetime
) -> None:
    done = [claim for claim, result in won if result.outcome.error_code is None]
    observe_each(
        recorder,
        names.INGEST_LATENCY,
        (
            ((claim.unit.dataset,), (now - claim.unit.event.event_time).total_seconds())
            for claim in done
        ),
    )
    for dataset in sorted({claim.unit.dataset for claim in done}):
        size = sum(c.unit.object_ref.size or 0 for c in done if c.unit.dataset == dataset)
        recorder.count(names.BYTES_INGESTED, size, dataset=dataset)
    for claim, result in won:
        code = result.outcome.error_code
        if code is None:
            continue
        recorder.count(names.VALIDATION_ERRORS, 1, dataset=claim.unit.dataset, error_type=code)
        verdict = batch.closed[claim.wal_id].verdict
        held = verdict is Verdict.QUARANTINED
        recorder.event(
            names.UNIT_QUARANTINED if held else names.UNIT_FAILED,
            wal_id=claim.wal_id,
            dataset=claim.unit.dataset,
            object_uri_hash=sha256_hex(claim.unit.object_uri.encode())[:16],
            status=verdict.value,
            error_code=code,
            message=result.outcome.error_message,
        )

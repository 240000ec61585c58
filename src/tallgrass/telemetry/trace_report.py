"""The traces of a batch: its own, and that of each of its units whose trace is kept.

A unit's part is made after the commit that it tells of; what was claimed and then lost is told too,
as a failure. Where nobody keeps spans, or not those of a unit, nothing of it is gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from tallgrass.clock import format_instant
from tallgrass.ledger.redaction import redact
from tallgrass.ledger.vocabulary import Intent
from tallgrass.operators import (
    governance_gate,
    integrity_check,
    metadata_extract,
    provenance_emit,
    stac_register,
)
from tallgrass.telemetry import names
from tallgrass.telemetry.message_head import MessageHead, head_of
from tallgrass.telemetry.trace_context import (
    SpanContext,
    SpanPlace,
    attempt_context,
    event_context,
    named_context,
    read_traceparent,
    unit_trace,
)
from tallgrass.telemetry.unit_events import object_uri_hash, replay_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tallgrass.clock import Clock
    from tallgrass.datasets.catalogue import Catalogue
    from tallgrass.intake.message import Poison
    from tallgrass.ledger.claim import Claim
    from tallgrass.operators.effects import ChainResult
    from tallgrass.queues.protocol import QueueMessage
    from tallgrass.telemetry.recorder import Recorder
    from tallgrass.worker import Batch

#: Name, begin and end of a span.
Timed = tuple[str, datetime, datetime]
Attributes = dict[str, object]

#: What a claim that somebody else recovered ended with.
CLAIM_LOST = "claim_lost"
#: The operators that have a span; the gate has none.
_OPERATOR_SPANS = {
    integrity_check.NAME: names.INTEGRITY_CHECK,
    metadata_extract.NAME: names.METADATA_EXTRACT,
    stac_register.NAME: names.STAC_REGISTER,
    provenance_emit.NAME: names.PROVENANCE_EMIT,
}
#: The span of a unit that each phase of the batch shows as.
_SHARED = (
    (names.RECEIVE, names.SQS_RECEIVE),
    (names.PARSE, names.MESSAGE_PARSE),
    (names.READ_EVIDENCE, names.OBJECT_FETCH),
)


@dataclass(slots=True, kw_only=True)
class BatchTrace:
    """What is gathered for the traces of a batch."""

    context: SpanContext
    #: Of units whose trace is kept, by wal_id: operators and when each began, and when it ended.
    laps: dict[str, list[tuple[str, datetime]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the units of a worker come from."""

    #: None where they were due in the ledger.
    queue: str | None
    #: As the messaging conventions name it: `aws_sqs`, or our own.
    system: str
    ingest_run_id: str
    catalogue: Catalogue


def begin_batch(
    recorder: Recorder, incarnation: str, number: int, now: datetime
) -> BatchTrace | None:
    """Return what gathers the spans of a worker's batch; None where none are kept."""
    if not recorder.tracing:
        return None
    return BatchTrace(context=named_context("batch", incarnation, number, format_instant(now)))


def begin_units(recorder: Recorder, batch: Batch) -> None:
    """Choose the units whose trace is kept."""
    if batch.trace is not None:
        batch.trace.laps = {
            claim.wal_id: [] for claim in batch.claims if recorder.samples(unit_trace(claim.wal_id))
        }


def watches(batch: Batch, clock: Clock) -> Callable[[str], Callable[[str], None] | None]:
    """Return who notes when operators begin and end on a unit, if its trace is kept."""
    kept = {} if batch.trace is None else batch.trace.laps

    def watch_of(wal_id: str) -> Callable[[str], None] | None:
        laps = kept.get(wal_id)
        return None if laps is None else lambda operator: laps.append((operator, clock()))

    return watch_of


def report_traces(recorder: Recorder, batch: Batch, now: datetime, origin: Origin) -> None:
    """Report the spans of a batch that has come to its end, and those of its units."""
    trace = batch.trace
    if trace is None:
        return
    if recorder.samples(trace.context.trace_id):
        _report_phases(recorder, batch, trace.context, now, origin)
    if not trace.laps:
        return
    messages = _messages_of(batch, trace.laps.keys())
    for claim, result in batch.results:
        laps = trace.laps.get(claim.wal_id)
        if laps is not None:
            told = messages.get(claim.wal_id)
            _UnitTrace(batch, origin, claim, result, told).report(recorder, laps)


def _report_phases(
    recorder: Recorder, batch: Batch, root: SpanContext, now: datetime, origin: Origin
) -> None:
    counts = {"nodd.messages": len(batch.messages), "nodd.units": len(batch.claims)}
    began = batch.spans[0][1] if batch.spans else batch.started_at
    about = {"nodd.queue": origin.queue, "nodd.run_mode": "hot-path", **counts}
    recorder.span(names.BATCH, began, now, about, SpanPlace(root))
    for name, begin, end in batch.spans:
        of = {attribute: counts[attribute] for attribute in names.SPANS[name].attributes}
        recorder.span(name, begin, end, of, SpanPlace(root.below(name), root))


class _Told(NamedTuple):
    """The message that told of a unit."""

    message: QueueMessage
    head: MessageHead
    #: What of it could not be understood.
    poison: Poison | None


def _messages_of(batch: Batch, wanted: Any) -> dict[str, _Told]:
    """Return the message of each unit that is wanted; one message may hold many."""
    found: dict[str, _Told] = {}
    each = zip(batch.messages, batch.parsed, batch.receipts, strict=True)
    for message, parsed, receipts in each:
        told: _Told | None = None
        for receipt in receipts:
            wal_id = receipt.unit.wal_id
            if wal_id in wanted:
                told = told or _Told(message, head_of(message.body), parsed.poison)
                found[wal_id] = told
    return found


class _UnitTrace:
    """The spans of one attempt."""

    def __init__(
        self,
        batch: Batch,
        origin: Origin,
        claim: Claim,
        result: ChainResult,
        told: _Told | None,
    ) -> None:
        self._batch = batch
        self._origin = origin
        self._claim = claim
        self._result = result
        self._told = told
        self._root = attempt_context(claim.wal_id, claim.attempt_no)
        unit = claim.unit
        self._unit: Attributes = {
            "nodd.wal_id": unit.wal_id,
            "nodd.dataset": unit.dataset,
            "nodd.object_uri_hash": object_uri_hash(unit.object_uri),
        }

    def report(self, recorder: Recorder, laps: Sequence[tuple[str, datetime]]) -> None:
        """Report the attempt, then its parts in the order of time."""
        phases = {name: (begin, end) for name, begin, end in self._batch.spans}
        began = self._batch.spans[0][1] if self._batch.spans else self._batch.started_at
        _, ended = phases.get(names.COMMIT, (began, laps[-1][1] if laps else began))
        place = SpanPlace(self._root, links=tuple(self._links()))
        recorder.span(names.INGEST, began, ended, self._about(), place)
        for phase, name in _SHARED:
            if phase in phases and (self._told is not None or name == names.OBJECT_FETCH):
                self._part(recorder, name, *phases[phase])
        for (operator, begin), (_, end) in pairwise(laps):
            if operator in _OPERATOR_SPANS:
                self._part(recorder, _OPERATOR_SPANS[operator], begin, end)
        if names.COMMIT in phases and self._verdict == "succeeded":
            self._report_events(recorder, *phases[names.COMMIT])

    @property
    def _verdict(self) -> str:
        closed = self._batch.closed.get(self._claim.wal_id)
        return CLAIM_LOST if closed is None else closed.verdict.value

    def _about(self) -> Attributes:
        claim, origin = self._claim, self._origin
        unit, told = claim.unit, self._told
        lost = claim.wal_id not in self._batch.closed
        replay = replay_fields(claim)
        return {
            **self._unit,
            "nodd.object_uri": self._object_uri(),
            "nodd.bucket_provider": unit.provider,
            "nodd.run_mode": "backfill" if claim.intent is Intent.BACKFILL else "hot-path",
            "nodd.attempt": claim.attempt_no,
            "nodd.intent": claim.intent.value,
            "nodd.status": self._verdict,
            "nodd.rule_id": self._result.rule_id,
            "nodd.ingest_run_id": origin.ingest_run_id,
            **{f"nodd.{name}": value for name, value in replay.items()},
            names.MESSAGING_SYSTEM: None if told is None else origin.system,
            names.MESSAGING_OPERATION: None if told is None else "process",
            names.MESSAGING_DESTINATION: None if told is None else origin.queue,
            names.MESSAGING_MESSAGE_ID: None if told is None else told.message.message_id,
            names.ERROR_TYPE: CLAIM_LOST if lost else self._result.outcome.error_code,
        }

    def _object_uri(self) -> str | None:
        """Return the object's address, unless the dataset hides places: a key may tell them."""
        dataset = self._origin.catalogue.dataset(self._claim.unit.dataset)
        if dataset is None or governance_gate.governance_gate(dataset).masking_degrees:
            return None
        return redact(self._claim.unit.object_uri)

    def _links(self) -> Iterator[SpanContext]:
        """Yield what led here: the batch, who sent the message, the attempt that is repeated."""
        if self._batch.trace is not None:
            yield self._batch.trace.context
        if self._told is not None:
            of = (self._told.message.traceparent, self._told.head.traceparent)
        else:
            # Its message is gone: what was kept of it while it was parked.
            of = (self._claim.unit.event.traceparent, None)
        beside, inside = map(read_traceparent, of)
        if sender := beside or inside:
            yield sender
        original = self._claim.replayed.original_attempt
        if original is not None:
            yield attempt_context(self._claim.wal_id, original)

    def _part(self, recorder: Recorder, name: str, begin: datetime, end: datetime) -> None:
        about = {**self._unit, **self._told_by(name)}
        recorder.span(name, begin, end, about, SpanPlace(self._root.below(name), self._root))

    def _told_by(self, name: str) -> Mapping[str, object]:
        """Return what a part tells beside the unit."""
        if name == names.SQS_RECEIVE and self._told is not None:
            return {
                names.MESSAGING_SYSTEM: self._origin.system,
                names.MESSAGING_OPERATION: "receive",
                names.MESSAGING_DESTINATION: self._origin.queue,
                names.MESSAGING_MESSAGE_ID: self._told.message.message_id,
                names.MESSAGING_BATCH_COUNT: len(self._batch.messages),
            }
        if name == names.MESSAGE_PARSE and self._told is not None:
            return _told_by_parse(self._told)
        if name == names.OBJECT_FETCH:
            return {"nodd.bucket_provider": self._claim.unit.provider}
        return self._told_by_operator(name)

    def _told_by_operator(self, name: str) -> Mapping[str, object]:
        outcome = self._result.outcome
        if name == names.INTEGRITY_CHECK:
            return {
                "nodd.integrity_status": outcome.integrity_status.value,
                "nodd.integrity_issues": self._issues(integrity_check.NAME),
            }
        if name == names.METADATA_EXTRACT:
            return {
                "nodd.metadata_status": outcome.metadata_status.value,
                "nodd.metadata_issues": self._issues(metadata_extract.NAME),
            }
        if name == names.STAC_REGISTER:
            return {
                "nodd.stac_item_id": outcome.stac_item_id,
                "nodd.stac_collection_id": outcome.stac_collection_id,
                "nodd.stac_write_status": outcome.stac_status.value,
            }
        return {
            "nodd.provenance_status": outcome.provenance_status.value,
            "nodd.prov_activity_id": outcome.prov_activity_id,
            "nodd.openlineage_run_id": outcome.openlineage_run_id,
        }

    def _issues(self, operator: str) -> str | None:
        found = [issue.split(":", 1) for issue in self._result.outcome.issues]
        return ",".join(code for by, code in found if by == operator) or None

    def _report_events(self, recorder: Recorder, begin: datetime, end: datetime) -> None:
        for event in self._result.effects.events:
            about = {
                **self._unit,
                "nodd.event_name": event.event_name,
                "nodd.idempotency_key": event.idempotency_key,
                names.MESSAGING_OPERATION: "create",
            }
            context = event_context(self._claim.wal_id, event.idempotency_key)
            recorder.span(names.OUTBOX_WRITE, begin, end, about, SpanPlace(context, self._root))


def _told_by_parse(told: _Told) -> Mapping[str, object]:
    return {
        "nodd.topic_arn": told.head.topic_arn,
        "nodd.schema_version": told.head.schema_version,
        "nodd.parse_status": "ok" if told.poison is None else "partial",
        "nodd.parse_issues": None if told.poison is None else told.poison.code,
    }

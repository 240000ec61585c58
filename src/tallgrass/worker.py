"""The worker: a batch of messages, or of due units, through seven phases.

    receive → parse → record_and_claim → read_evidence → operate → commit → acknowledge

Read this file first. Every phase is a plain method on a `Batch`, so that a simulator can stop
between any two, and a killed process leaves nothing that the next one cannot finish: what was
recorded is in the ledger, what was not acknowledged comes again. A batch of due units enters at the
claim and has no message to acknowledge. Two transactions a batch, whatever its size.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Protocol

from tallgrass.clock import Clock
from tallgrass.committing import Results, commit_in_parts, said
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import DataRefused, TransientError, WorkerFenced
from tallgrass.evidence.reading import Evidence, EvidenceReader, ReadFailure
from tallgrass.governance.switches import SwitchedOff
from tallgrass.intake.message import ParsedMessage, PoisonMessage
from tallgrass.intake.parse import Admission, Records, open_message, understand
from tallgrass.ledger.claim import Claim, ClosedClaim, CommitResult, Receipt, WorkerLease
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.unit import IngestUnit
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import ChainResult, Effects
from tallgrass.operators.run_unit import run_units
from tallgrass.queues.acknowledgement import acknowledge, deferral_s
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.protocol import Queue, QueueMessage
from tallgrass.queues.subscriptions import UNCONFIRMED, Confirmer
from tallgrass.telemetry import batch_report, names, trace_report
from tallgrass.telemetry.recorder import Recorder


class LedgerStore(Protocol):
    """The ledger as the worker needs it; each verb is one transaction."""

    def record_and_claim(
        self, worker: WorkerLease, units: Sequence[IngestUnit]
    ) -> Sequence[Receipt]:
        """Record units and claim those that may be worked on now; one receipt each, in order."""

    def claim_due(self, worker: WorkerLease, limit: int) -> Sequence[Claim]:
        """Claim units whose time has come."""

    def commit(
        self,
        worker: WorkerLease,
        outcomes: Sequence[tuple[Claim, Outcome]],
        effects: Mapping[str, Effects],
    ) -> CommitResult:
        """Close claims and write the effects of the successes, all or nothing."""


class PoisonShelf(Protocol):
    """Keeps messages that no unit could be made of."""

    def put(self, messages: Sequence[PoisonMessage]) -> None:
        """Store them; nothing for none."""


@dataclass(slots=True)
class Batch:
    """What one round carries from phase to phase."""

    started_at: datetime
    messages: Sequence[QueueMessage] = ()
    parsed: list[ParsedMessage] = field(default_factory=list)
    #: By message, one for each of its units.
    receipts: list[Sequence[Receipt]] = field(default_factory=list)
    #: Units to work on, each once.
    claims: list[Claim] = field(default_factory=list)
    readings: Sequence[Evidence | ReadFailure] = ()
    results: list[tuple[Claim, ChainResult]] = field(default_factory=list)
    #: What the commit made of each claim; a claim that is missing was lost.
    closed: dict[str, ClosedClaim] = field(default_factory=dict)
    deleted: int = 0
    kept: int = 0
    #: Messages that stay in the queue, with the receipts of their units.
    staying: list[tuple[QueueMessage, Sequence[Receipt]]] = field(default_factory=list)
    #: Why messages could not be acknowledged, if so; what was committed stands.
    unacknowledged: TransientError | None = None
    #: Why it had to be committed in parts, if so: the first refusal.
    refusal: DataRefused | None = None
    #: Name, begin and end of each phase, where somebody listens.
    spans: list[trace_report.Timed] = field(default_factory=list)
    #: What its traces are made of, where somebody keeps them.
    trace: trace_report.BatchTrace | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.messages and not self.claims


#: A batch on its way: it stops between phases and returns the batch at the end.
Phases = Generator[None, None, Batch]


class Worker:
    """Takes batches from a queue and from the ledger's schedule; everything is passed in."""

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        *,
        lease: WorkerLease,
        ledger: LedgerStore,
        queue: Queue | None,
        poison: PoisonShelf,
        reader: EvidenceReader,
        catalogue: Catalogue,
        context: ChainContext,
        recorder: Recorder,
        clock: Clock,
        held: HeldMessages,
        batch_size: int,
        providers: frozenset[str],
        admit: Admission | None = None,
        confirm: Confirmer | None = None,
    ) -> None:
        self._lease = lease
        self._ledger = ledger
        self._queue = queue
        self._poison = poison
        self._reader = reader
        self._catalogue = catalogue
        self._context = context
        self._recorder = recorder
        self._clock = clock
        self._held = held
        self._batch_size = batch_size
        self._providers = providers
        self._admit = admit
        self._confirm = confirm
        self._numbers = count(1)

    @property
    def queue_name(self) -> str | None:
        """The queue that messages come from, if there is one."""
        return None if self._queue is None else self._queue.name

    def all_stopped_by(self, off: SwitchedOff) -> bool:
        """Tell whether every dataset of this worker is switched off."""
        return all(off.stops(dataset.id) for dataset in self._catalogue.datasets)

    def run_messages(self, between: Callable[[], None] = lambda: None) -> Batch:
        """Take one batch of messages through all phases; `between` is called after each."""
        return _run(self.messages_by_phase(), between)

    def run_due(self, between: Callable[[], None] = lambda: None) -> Batch:
        """Take one batch of due units through the phases that need no message."""
        return _run(self.due_by_phase(), between)

    def messages_by_phase(self, *, wait: bool = True) -> Phases:
        """Take one batch of messages through all phases; stop after each."""
        spans: list[trace_report.Timed] = []
        with batch_report.timed(self._recorder, self._clock, names.RECEIVE, spans):
            batch = self.receive(wait=wait)
        batch.spans = spans
        try:
            for name, phase in (
                (names.PARSE, self.parse),
                (names.RECORD_AND_CLAIM, self.record_and_claim),
                (names.READ_EVIDENCE, self.read_evidence),
                (names.OPERATE, self.operate),
                (names.COMMIT, self.commit),
                (names.ACKNOWLEDGE, self.acknowledge),
            ):
                if batch.is_empty:
                    return batch
                yield
                with batch_report.timed(self._recorder, self._clock, name, spans):
                    phase(batch)
        except (TransientError, WorkerFenced):
            self._held.keep(batch.messages, batch.parsed)
            raise
        except BaseException:
            self._held.release()
            raise
        self._report_batch(batch, self._queue)
        return batch

    def due_by_phase(self) -> Phases:
        """Take one batch of due units through the phases that need no message; stop after each."""
        spans: list[trace_report.Timed] = []
        with batch_report.timed(self._recorder, self._clock, names.RECORD_AND_CLAIM, spans):
            batch = self.claim_due()
        batch.spans = spans
        for name, phase in (
            (names.READ_EVIDENCE, self.read_evidence),
            (names.OPERATE, self.operate),
            (names.COMMIT, self.commit),
        ):
            if batch.is_empty:
                return batch
            yield
            with batch_report.timed(self._recorder, self._clock, name, spans):
                phase(batch)
        self._report_batch(batch, None)
        return batch

    def receive(self, *, wait: bool = True) -> Batch:
        """Take messages from the queue; they stay hidden, not gone.

        Those of a batch that was cut off come first, while they can be kept hidden.
        """
        if self._held.cut_off is not None and self._held.hideable_s():
            messages, parsed = self._held.cut_off
            batch = self._begin_batch(messages=messages)
            batch.parsed = parsed
            return batch
        received_at = self._held.receiving()
        queue, size = self._queue, self._batch_size
        messages = () if queue is None else queue.receive(size, wait=wait)
        self._held.hold([message.receipt for message in messages], received_at)
        batch = self._begin_batch(messages=messages)
        batch_report.report_received(self._recorder, batch, self.queue_name or "")
        return batch

    def parse(self, batch: Batch) -> None:
        """Understand each message by itself; what cannot be understood is kept before it may go."""
        if batch.parsed:
            return  # it was cut off after that
        queue = self.queue_name or ""
        opened = [open_message(message.body, self._admit) for message in batch.messages]
        understood = [
            self._understand(message, records, queue)
            for message, records in zip(batch.messages, opened, strict=True)
        ]
        self._poison.put(
            [
                PoisonMessage(
                    queue=queue,
                    body=message.body,
                    message_id=message.message_id,
                    error_code=parsed.poison.code,
                    error_message=parsed.poison.message,
                )
                for message, parsed in zip(batch.messages, understood, strict=True)
                if parsed.poison is not None
            ]
        )
        batch.parsed = understood
        batch_report.report_parsed(self._recorder, batch, queue)

    def record_and_claim(self, batch: Batch) -> None:
        """Write every unit into the ledger before anything happens to it; claim what may run."""
        units = [unit for parsed in batch.parsed for unit in parsed.units]
        receipts = iter(self._ledger.record_and_claim(self._lease, units))
        batch.receipts = [[next(receipts) for _ in parsed.units] for parsed in batch.parsed]
        # Two messages may share a unit: it is worked on once.
        claims = {
            receipt.claim.wal_id: receipt.claim
            for of_message in batch.receipts
            for receipt in of_message
            if receipt.claim is not None
        }
        batch.claims = list(claims.values())
        trace_report.begin_units(self._recorder, batch)
        batch_report.report_claims(self._recorder, batch)

    def claim_due(self) -> Batch:
        """Claim what the ledger itself has due: parked, recovered, to be retried or run again."""
        claims = self._ledger.claim_due(self._lease, self._batch_size)
        batch = self._begin_batch(claims=claims)
        trace_report.begin_units(self._recorder, batch)
        batch_report.report_claims(self._recorder, batch)
        return batch

    def read_evidence(self, batch: Batch) -> None:
        """Read head and tail of each object once."""
        batch.readings = self._reader.read([claim.unit for claim in batch.claims])

    def operate(self, batch: Batch) -> None:
        """Run the operators: pure, each unit for itself, so that a bad one harms no neighbour."""
        context = self._context.at(batch.started_at, self._clock())
        watch_of = trace_report.watches(batch, self._clock)
        results = run_units(batch.claims, batch.readings, self._catalogue, context, watch_of)
        batch.results = list(zip(batch.claims, results, strict=True))

    def commit(self, batch: Batch) -> None:
        """Write outcomes and effects in one transaction."""
        batch.refusal = commit_in_parts(batch.results, lambda part: self._commit(batch, part))
        if batch.refusal is not None:
            batch_report.report_split(self._recorder, batch, said(batch.refusal))

    def acknowledge(self, batch: Batch) -> None:
        """Let messages go whose units are all done or held; the others come again later.

        If the queue cannot be told, what was committed stands: the messages come again, and their
        units are duplicates then.
        """
        if self._queue is None:
            return
        self._held.release()
        hideable_s = self._held.hideable_s()
        deletes: list[str] = []
        keeps: list[tuple[str, float]] = []
        for message, parsed, receipts in zip(
            batch.messages, batch.parsed, batch.receipts, strict=True
        ):
            decision = acknowledge(
                receipts,
                batch.closed,
                settled=parsed.deferred is None,
                look_again_s=deferral_s(message.receive_count),
            )
            if decision.visibility_s is None:
                deletes.append(message.receipt)
            else:
                keeps.append((message.receipt, min(decision.visibility_s, hideable_s)))
                batch.staying.append((message, receipts))
        try:
            batch.deleted = len(deletes) - len(self._queue.delete(deletes))
            batch.kept = len(keeps) - len(self._queue.change_visibility(keeps))
        except TransientError as error:
            batch.unacknowledged = error
        batch_report.report_acknowledged(self._recorder, batch, self._queue)

    def _begin_batch(
        self, *, messages: Sequence[QueueMessage] = (), claims: Sequence[Claim] = ()
    ) -> Batch:
        now, number = self._clock(), next(self._numbers)
        trace = trace_report.begin_batch(self._recorder, self._lease.incarnation, number, now)
        return Batch(started_at=now, messages=messages, claims=list(claims), trace=trace)

    def _report_batch(self, batch: Batch, queue: Queue | None) -> None:
        """Report a batch that has come to its end, from a queue or from the ledger's schedule."""
        recorder, now = self._recorder, self._clock()
        name = None if queue is None else queue.name
        batch_report.report_batch(recorder, batch, now, name)
        if batch.trace is not None:
            origin = trace_report.Origin(
                queue=name,
                system="" if queue is None else queue.system,
                ingest_run_id=self._lease.ingest_run_id,
                catalogue=self._catalogue,
            )
            trace_report.report_traces(recorder, batch, now, origin)

    def _understand(
        self, message: QueueMessage, records: Records | ParsedMessage, queue: str
    ) -> ParsedMessage:
        parsed = understand(
            records,
            message_id=message.message_id,
            sent_at=message.sent_at,
            queue=queue,
            catalogue=self._catalogue,
            providers=self._providers,
            traceparent=message.traceparent,
        )
        if self._confirm is None or parsed.poison is None or parsed.poison.code != UNCONFIRMED:
            return parsed
        return self._confirm(message.body) or parsed

    def _commit(self, batch: Batch, results: Results) -> None:
        """Close some claims of a batch in one transaction; then tell what they came to."""
        began = self._clock()
        done = self._ledger.commit(
            self._lease,
            [(claim, result.outcome) for claim, result in results],
            {claim.wal_id: result.effects for claim, result in results},
        )
        batch.closed.update(done.closed)
        took = batch_report.Took(began=began, ended=self._clock())
        who = self._lease.worker_id
        batch_report.report_commit(self._recorder, batch, results, done, who, took)


def _run(phases: Phases, between: Callable[[], None]) -> Batch:
    while True:
        try:
            next(phases)
        except StopIteration as end:
            batch: Batch = end.value
            return batch
        between()

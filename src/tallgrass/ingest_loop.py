"""Rounds of a worker until it is told to stop: messages, due units, recovery, rest."""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tallgrass.errors import QueueUnavailable, TransientError, WorkerFenced
from tallgrass.garbage import rare_collections
from tallgrass.governance.switches import SwitchedOff
from tallgrass.ledger.claim import WorkerLease
from tallgrass.retry import Backoff
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder
from tallgrass.unsettled import HandsBack, Unsettled
from tallgrass.worker import Batch, Phases, Worker

#: Rest between rounds that found nothing, and between tries of a store that is down.
IDLE = Backoff(base_s=0.2, cap_s=5.0)
#: Rest between maintenances.
MAINTAIN_EVERY_S = 30.0
_ALL_OFF = (
    "ingest of all datasets is switched off: messages stay in the queue, due units in the ledger; "
    "`tallgrass switches list` says by whom and why"
)


class Until(StrEnum):
    """When a loop ends by itself."""

    STOPPED = "stopped"  # never: it is told to
    ONCE = "once"  # after one round
    DRAINED = "drained"  # when neither queue nor ledger has anything now


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round found."""

    #: Whether the queue was given time to find messages.
    waited: bool
    messages: bool
    due: bool

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.messages and not self.due

    def ends(self, until: Until) -> bool:
        """Tell whether it was the last round. A drain wants a queue that was asked in earnest."""
        return until is Until.ONCE or (until is Until.DRAINED and self.waited and self.is_empty)


class LeaseStore(HandsBack, Protocol):
    """Leases as the loop needs them."""

    def stop(self, worker: WorkerLease) -> tuple[str, ...]:
        """End a lease in good order; what it still holds goes back."""

    def recover(self) -> object:
        """Free what lost workers held."""


@dataclass(slots=True)
class LoopReport:
    """What a loop did, added up."""

    rounds: int = 0
    messages: int = 0
    units: int = 0
    by_verdict: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    by_action: dict[str, int] = field(default_factory=dict)
    poison: int = 0
    #: Deliveries that could not be judged yet and stay in the queue.
    deferred: int = 0

    def add(self, batch: Batch) -> None:
        """Count a batch."""
        self.messages += len(batch.messages)
        self.units += len(batch.claims)
        for closed in batch.closed.values():
            _count(self.by_verdict, closed.verdict.value)
        for parsed in batch.parsed:
            self.poison += parsed.poison is not None
            self.deferred += parsed.deferred is not None
            for ignored in parsed.ignored:
                _count(self.ignored, ignored.reason)
        for receipts in batch.receipts:
            for receipt in receipts:
                _count(self.by_action, receipt.decision.action.value)


class IngestLoop:
    """Runs a worker; survives a store that is down, ends when it is fenced or told to stop."""

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        worker: Worker,
        lease: WorkerLease,
        leases: LeaseStore,
        *,
        switched_off: Callable[[], SwitchedOff],
        recorder: Recorder,
        sleep: Callable[[float], object],
        random: Callable[[], float],
        monotonic: Callable[[], float],
        recover_every_s: float,
        maintain: Callable[[], object] = lambda: None,
        progress: Callable[[], None] = lambda: None,
        require_open: Callable[[], None] = lambda: None,
        report: LoopReport | None = None,
    ) -> None:
        self._worker = worker
        self._lease = lease
        self._leases = leases
        self._switched_off = switched_off
        self._recorder = recorder
        self._sleep = sleep
        self._random = random
        self._monotonic = monotonic
        self._recover_every_s = recover_every_s
        self._recovered_at: float | None = None
        #: What no unit waits for and has to be done now and then, and at the end.
        self._maintain = maintain
        self._maintained_at = monotonic()
        self._progress = progress
        #: Refuses a round whose units could not be worked on.
        self._require_open = require_open
        self._unsettled = Unsettled(leases, lease)
        #: What was told since the last round that went well: each fault is told once.
        self._told: set[str] = set()
        #: Whether it was told that everything is switched off; it is told again after a thaw.
        self._told_off = False
        self.report = report or LoopReport()

    def run(self, until: Until, stop: Callable[[], bool] = lambda: False) -> LoopReport:
        """Run rounds; at the end hand back whatever is still held."""
        with rare_collections():
            for rest_s in self.steps(until, stop):
                if rest_s:
                    self._sleep(rest_s)
        return self.report

    def steps(self, until: Until, stop: Callable[[], bool] = lambda: False) -> Iterator[float]:
        """Run as `run` does, and stop after each phase; each time yield the rest wanted."""
        idle = failures = 0
        wait = True
        try:
            while not stop():
                self._progress()
                began = self._monotonic()
                try:
                    done = yield from self._round(wait=wait)
                except TransientError as error:
                    failures += 1
                    self._unsettled.note(error)
                    self._say_waiting(error)
                    yield IDLE.delay_s(failures, self._random)
                    continue
                failures = 0
                self._told.clear()
                self.report.rounds += 1
                if done.ends(until):
                    break
                # Where something was due there may be more, which needs no message: the queue is
                # asked before each batch of it, and waited for when there is none.
                wait = not done.due
                idle = idle + 1 if done.waited and done.is_empty else 0
                # A queue that waits for messages has rested for us.
                rest_s = IDLE.delay_s(idle, self._random) - (self._monotonic() - began)
                if idle and rest_s > 0:
                    yield rest_s
            with suppress(TransientError):  # the next worker does it
                self._maintain()
            # A heartbeat that learned of the fence first ends the loop: the stop is refused then.
            handed_back = (*self._unsettled.settle(), *self._leases.stop(self._lease))
        except WorkerFenced:
            self._recorder.event(
                names.WORKER_FENCED,
                worker_id=self._lease.worker_id,
                ingest_run_id=self._lease.ingest_run_id,
            )
            raise
        self._recorder.event(
            names.WORKER_STOPPED,
            worker_id=self._lease.worker_id,
            ingest_run_id=self._lease.ingest_run_id,
            handed_back=len(handed_back),
        )

    def _round(self, *, wait: bool) -> Generator[float, None, Round]:
        """Recover now and then, take a batch of each source; tell what there was."""
        self._unsettled.settle()
        self._recover()
        self._maintain_now_and_then()
        self._require_open()
        messages = False
        unavailable: QueueUnavailable | None = None
        if not self._queue_is_off():
            try:
                arriving = self._worker.messages_by_phase(wait=wait)
                messages = self._take((yield from self._paced(arriving)))
            except QueueUnavailable as error:
                unavailable = error  # what is due in the ledger needs no queue
        due = self._take((yield from self._paced(self._worker.due_by_phase())))
        if unavailable is not None:
            raise unavailable
        return Round(waited=wait, messages=messages, due=due)

    def _paced(self, phases: Phases) -> Generator[float, None, Batch]:
        while True:
            try:
                next(phases)
            except StopIteration as end:
                batch: Batch = end.value
                return batch
            self._progress()
            yield 0.0

    def _take(self, batch: Batch) -> bool:
        if batch.is_empty:
            return False
        self.report.add(batch)
        if batch.unacknowledged is not None:
            raise batch.unacknowledged
        return True

    def _recover(self) -> None:
        now = self._monotonic()
        if self._recovered_at is None or now - self._recovered_at >= self._recover_every_s:
            self._leases.recover()
            self._recovered_at = now

    def _maintain_now_and_then(self) -> None:
        now = self._monotonic()
        if now - self._maintained_at >= MAINTAIN_EVERY_S:
            self._maintained_at = now
            self._maintain()

    def _queue_is_off(self) -> bool:
        """A queue whose datasets are all off is not polled: polling would only dead-letter."""
        off = self._switched_off()
        is_off = off.everything or self._worker.all_stopped_by(off)
        if is_off and not self._told_off:
            self._recorder.event(
                names.INGEST_SWITCHED_OFF, worker_id=self._lease.worker_id, message=_ALL_OFF
            )
        self._told_off = is_off
        return is_off

    def _say_waiting(self, error: TransientError) -> None:
        """Say once that something is down."""
        if error.code not in self._told:
            self._told.add(error.code)
            self._recorder.event(names.STORE_WAITED_FOR, error_code=error.code, message=str(error))


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1

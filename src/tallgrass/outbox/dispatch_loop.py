"""Rounds of a dispatcher until it is told to stop: claim, send, settle, rest."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tallgrass.errors import TransientError
from tallgrass.outbox.dispatch_rules import AttemptOutcome
from tallgrass.outbox.dispatcher import Batch, Dispatcher
from tallgrass.retry import Backoff
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import Recorder

#: However it is woken, a dispatcher looks once a second: a wake-up may be lost, and what is to be
#: tried again becomes due without anybody's doing.
POLL_S = 1.0
#: Rest between tries of a database that is down.
_DOWN = Backoff(base_s=0.2, cap_s=5.0)
#: Tries to write results after it was told to stop; then the lease must do it.
_LAST_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How long a loop wants to do nothing."""

    s: float
    #: Whether news of an event may end it: a rate's pause and a database's recovery may not be cut.
    until_woken: bool = False


_NO_REST = Rest(s=0.0)


class DispatchUntil(StrEnum):
    """When a loop ends by itself."""

    STOPPED = "stopped"  # never: it is told to
    ONCE = "once"  # after one batch
    DRAINED = "drained"  # when nothing is due now, or the target is down


@dataclass(slots=True)
class DispatchReport:
    """What loops did, added up."""

    batches: int = 0
    dispatched: int = 0
    #: Sends that failed and are tried again.
    failed: int = 0
    #: Events that stay undelivered until somebody asks for them again.
    exhausted: int = 0
    #: Events given back unsent.
    released: int = 0
    #: Sends whose results came too late to be written.
    lost: int = 0
    #: Events that the targets had before.
    duplicates: int = 0

    def add(self, batch: Batch) -> None:
        """Count a batch that was settled."""
        self.batches += 1
        self.exhausted += len(batch.exhausted)
        gone = frozenset[str]() if batch.settled is None else batch.settled.lost
        for one in batch.settlements:
            if one.event.outbox_id in gone:
                self.lost += 1
                continue
            self.dispatched += one.outcome is AttemptOutcome.DISPATCHED
            self.released += one.outcome is AttemptOutcome.RELEASED
            self.failed += one.outcome is AttemptOutcome.FAILED
            self.exhausted += one.exhausted
            self.duplicates += one.duplicate

    def merge(self, other: "DispatchReport") -> None:
        """Add what another loop did."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class DispatchLoop:
    """Runs one dispatcher; survives a database that is down and writes its results then."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        recorder: Recorder,
        random: Callable[[], float],
        monotonic: Callable[[], float],
        rate: float | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._random = random
        self._monotonic = monotonic
        #: Most events a second; None for any number.
        self._rate = rate
        self._told: set[str] = set()
        #: A claim was cut off: the outbox may hold claims of ours that we know nothing of.
        self._unsettled = False
        self.report = DispatchReport()

    def steps(
        self, until: DispatchUntil, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Rest]:
        """Run rounds and stop after each phase; each time yield the rest wanted."""
        failures = 0
        idle = False
        while not stop():
            try:
                batch = yield from self._round(stop, look_first=idle)
            except TransientError as error:
                failures += 1
                self._say_waiting(error)
                yield Rest(s=_DOWN.delay_s(failures, self._random))
                continue
            failures = 0
            self._told.clear()
            idle = batch is None or batch.is_empty
            sent = batch is not None and bool(batch.claims)
            if (idle and until is not DispatchUntil.STOPPED) or (
                sent and until is DispatchUntil.ONCE
            ):
                break
            if batch is None or batch.is_empty:
                yield Rest(s=POLL_S, until_woken=True)
            elif (pause_s := self._pause_s(batch)) > 0:
                yield Rest(s=pause_s)

    def _round(
        self, stop: Callable[[], bool], *, look_first: bool
    ) -> Generator[Rest, None, Batch | None]:
        """Take one batch; None if a look told that there is none, or none that may be sent now."""
        dispatcher = self._dispatcher
        if self._unsettled:
            dispatcher.abandon()
            self._unsettled = False
        if dispatcher.is_paused():
            return None
        # Reading only: whoever waits for work must not take the writers' turn each second.
        if look_first and not dispatcher.is_due():
            return None
        self._unsettled = True
        batch = dispatcher.claim()
        self._unsettled = False
        if batch.claims:
            yield _NO_REST
            dispatcher.send(batch)
            yield _NO_REST
            yield from self._settle(batch, stop)
        if not batch.is_empty:
            self.report.add(batch)
        return batch

    def _settle(self, batch: Batch, stop: Callable[[], bool]) -> Iterator[Rest]:
        """Write the results, however long the database is away: what was sent is not sent again.

        Others may take the events once the lease has ended; then the results are refused, which is
        a result too.
        """
        failures = 0
        while True:
            try:
                self._dispatcher.settle(batch)
            except TransientError as error:
                failures += 1
                self._say_waiting(error)
                if stop() and failures >= _LAST_TRIES:
                    raise
                yield Rest(s=_DOWN.delay_s(failures, self._random))
            else:
                return

    def _pause_s(self, batch: Batch) -> float:
        """Return the rest that the target's rate asks for after a batch."""
        if self._rate is None:
            return 0.0
        sent = sum(one.outcome is not AttemptOutcome.RELEASED for one in batch.settlements)
        return sent / self._rate - (self._monotonic() - batch.claimed_at)

    def _say_waiting(self, error: TransientError) -> None:
        """Say once that something is down."""
        if error.code not in self._told:
            self._told.add(error.code)
            self._recorder.event(names.STORE_WAITED_FOR, error_code=error.code, message=str(error))

"""The dispatcher: a batch of due events of one target through three phases.

    claim → send → settle

Each phase is a plain method on a `Batch`, so that a simulator can stop between any two. Claim and
settle are one transaction each; the send stands between them, so no database waits for a network.
A dispatcher that dies leaves its events due again when its lease ends: what it had sent by then is
sent twice, and consumers know it by its key. One that was merely away finds its late results
refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tallgrass.errors import TallgrassError, text_of
from tallgrass.governance.policy import Policies
from tallgrass.outbox.breaker import Admission, Breaker, Lesson, is_down
from tallgrass.outbox.dispatch_rules import (
    GUARD_REFUSED,
    SINK_ERROR,
    ClaimedEvent,
    Claims,
    DispatchRules,
    Settled,
    Settlement,
    answers,
    put_behind,
    refusal_of,
    release,
    settle,
)
from tallgrass.sinks.protocol import Delivery, Sink, Undelivered
from tallgrass.telemetry import dispatch_report
from tallgrass.telemetry.recorder import Recorder

#: Sends that a claim may be cut into: a target that takes one event at a time must not keep
#: hundreds from other dispatchers.
_PIECES_MAX = 10
#: Sends that fail before the rest of a batch is given back: the target is down.
_PIECES_IN_VAIN = 3
NO_POLICIES = Policies()
#: Of the lease: after that no further send is begun, so that the results come in time.
_SENDING_SHARE = 0.25


class DeliveryStore(Protocol):
    """The outbox as a dispatcher needs it; each verb is one transaction."""

    def is_due(self, target: str) -> bool:
        """Tell by reading alone whether anything of a target may be claimed."""

    def claim(
        self, target: str, *, dispatcher: str, limit: int, rules: DispatchRules, ordered: bool
    ) -> Claims:
        """Claim due events for one attempt each; give up those that have none left."""

    def settle(self, dispatcher: str, settlements: Sequence[Settlement]) -> Settled:
        """Write what became of claimed events; tell which were no longer the caller's."""

    def abandon(self, target: str, dispatcher: str) -> int:
        """Give back whatever a dispatcher still holds; return how many events."""


@dataclass(slots=True)
class Batch:
    """What one round carries from phase to phase."""

    #: By the injected monotonic clock, before the claim.
    claimed_at: float
    claims: Sequence[ClaimedEvent] = ()
    #: Given up by the claim itself.
    exhausted: Sequence[Settlement] = ()
    settlements: list[Settlement] = field(default_factory=list)
    #: None until it was written.
    settled: Settled | None = None
    #: Whether it is the one event by which a target that was down is tried.
    probe: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.claims and not self.exhausted


class Dispatcher:
    """Takes due events of one target to its sink; everything is passed in."""

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        *,
        target: str,
        sink: Sink,
        store: DeliveryStore,
        rules: DispatchRules,
        dispatcher_id: str,
        recorder: Recorder,
        random: Callable[[], float],
        monotonic: Callable[[], float],
        batch_size: int,
        ordered: bool = False,
        stop: Callable[[], bool] = lambda: False,
        policies: Policies = NO_POLICIES,
        breaker: Breaker | None = None,
    ) -> None:
        self.target = target
        #: Random for each dispatcher; with the attempt it is what a late result is known by.
        self.dispatcher_id = dispatcher_id
        self._sink = sink
        self._store = store
        self._rules = rules
        self._recorder = recorder
        self._random = random
        self._monotonic = monotonic
        self._batch_size = min(batch_size, max(1, sink.batch_max) * _PIECES_MAX)
        self._ordered = ordered
        self._stop = stop
        self._policies = policies
        #: Shared by all dispatchers of the target; without one it is never left alone.
        self._breaker = breaker
        #: Halved when the time did not suffice for a batch, doubled when it did.
        self._limit = self._batch_size

    def run(self) -> Batch:
        """Take one batch through all phases."""
        batch = self.claim()
        if batch.claims:
            self.send(batch)
            self.settle(batch)
        return batch

    def is_paused(self) -> bool:
        """Tell whether the target is left alone for now, as it is down."""
        return self._breaker is not None and self._breaker.is_paused()

    def is_due(self) -> bool:
        """Tell by reading alone whether there is anything to claim."""
        return self._store.is_due(self.target)

    def claim(self) -> Batch:
        """Claim due events; nobody else sends them until the lease ends."""
        batch = Batch(claimed_at=self._monotonic())
        admission = Admission.ALL if self._breaker is None else self._breaker.admit()
        if admission is Admission.NONE:
            return batch
        batch.probe = admission is Admission.ONE
        given = self._store.claim(
            self.target,
            dispatcher=self.dispatcher_id,
            limit=1 if batch.probe else self._limit,
            rules=self._rules,
            ordered=self._ordered,
        )
        batch.claims, batch.exhausted = given.events, given.exhausted
        dispatch_report.report_exhausted(self._recorder, batch.exhausted)
        if not batch.claims:
            self._learn(batch, ())
        return batch

    def send(self, batch: Batch) -> None:
        """Send in pieces that the sink takes; what there is no time left for is given back."""
        size = max(1, self._sink.batch_max)
        answered: list[tuple[ClaimedEvent, Delivery]] = []
        for first in range(0, len(batch.claims), size):
            if self._stop() or self._late(batch) or self._in_vain(first // size, answered):
                batch.settlements += [release(claimed) for claimed in batch.claims[first:]]
                break
            answered += self._admit_and_deliver(batch.claims[first : first + size])
        settled = [settle(*each, self._rules, self._random) for each in answered]
        lesson = self._learn(batch, answered)
        if batch.probe:
            settled = [put_behind(each, lesson.pause_s) for each in settled]
        batch.settlements = [*settled, *batch.settlements]
        self._pace(batch)

    def settle(self, batch: Batch) -> None:
        """Write what became of each event, in one transaction."""
        batch.settled = self._store.settle(self.dispatcher_id, batch.settlements)
        took_s = self._monotonic() - batch.claimed_at
        dispatch_report.report_settled(self._recorder, batch.settlements, batch.settled, took_s)

    def abandon(self) -> int:
        """Give back what a claim whose answer was lost may have left behind."""
        return self._store.abandon(self.target, self.dispatcher_id)

    def _in_vain(self, sends: int, answered: Sequence[tuple[ClaimedEvent, Delivery]]) -> bool:
        """Tell whether a batch need not be gone on with: its target takes nothing."""
        return (
            self._breaker is not None
            and sends >= _PIECES_IN_VAIN
            and is_down([delivery for _, delivery in answered])
        )

    def _learn(self, batch: Batch, answered: Sequence[tuple[ClaimedEvent, Delivery]]) -> Lesson:
        """Tell the breaker what the target answered, and others once if that changed anything."""
        if self._breaker is None:
            return Lesson()
        # What the gate held back the target has not seen.
        told = [delivery for _, delivery in answered if not _is_held(delivery)]
        lesson = self._breaker.learn(told, probe=batch.probe)
        dispatch_report.report_lesson(self._recorder, self.target, lesson, told)
        return lesson

    def _admit_and_deliver(
        self, piece: Sequence[ClaimedEvent]
    ) -> list[tuple[ClaimedEvent, Delivery]]:
        """Send what the gate lets out; what it holds back stays for a person."""
        refused = [
            (claimed, Undelivered(code=GUARD_REFUSED, message=refusal, permanent=True))
            for claimed, refusal in zip(piece, self._refusals(piece), strict=True)
            if refusal is not None
        ]
        if not refused:
            return list(zip(piece, self._deliver(piece), strict=True))
        held = {claimed.event.outbox_id for claimed, _ in refused}
        sent = [claimed for claimed in piece if claimed.event.outbox_id not in held]
        answered = self._deliver(sent) if sent else ()
        return [*refused, *zip(sent, answered, strict=True)]

    def _refusals(self, piece: Sequence[ClaimedEvent]) -> list[str | None]:
        """Return why each event must not leave; events alike in what the gate sees are asked once.

        Asking for each of a thousand took a fifth of the dispatcher's time.
        """
        found: dict[tuple[str, str, str | None], str | None] = {}
        for claimed in piece:
            event = claimed.event
            seen = (event.dataset_id, event.care_label, event.governance_ref)
            if seen not in found:
                found[seen] = refusal_of(event, self._policies)
        return [
            found[each.event.dataset_id, each.event.care_label, each.event.governance_ref]
            for each in piece
        ]

    def _deliver(self, piece: Sequence[ClaimedEvent]) -> Sequence[Delivery]:
        events = dispatch_report.with_traces(self._recorder, [each.event for each in piece])
        try:
            return answers(len(piece), self._sink.send(events))
        # Whatever a sink does, the others go on: one that ends the program does not end it here.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            message = f"{type(error).__name__}: {text_of(error)}"
            return [Undelivered(code=_code_of(error), message=message)] * len(piece)

    def _late(self, batch: Batch) -> bool:
        return self._monotonic() - batch.claimed_at > self._rules.lease_s * _SENDING_SHARE

    def _pace(self, batch: Batch) -> None:
        """Claim fewer events next time if there was no time for all, else more again."""
        if self._late(batch):
            self._limit = max(1, self._limit // 2)
        else:
            self._limit = min(self._batch_size, self._limit * 2)


def _is_held(delivery: Delivery) -> bool:
    return isinstance(delivery, Undelivered) and delivery.code == GUARD_REFUSED


def _code_of(error: BaseException) -> str:
    """Return the code of what a sink raised; a broken connection shows a target that is down."""
    if isinstance(error, TallgrassError):
        return error.code
    if isinstance(error, TimeoutError):
        return "sink_timeout"
    return "sink_unreachable" if isinstance(error, ConnectionError) else SINK_ERROR

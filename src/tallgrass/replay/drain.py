"""A drain: takes planned letters out of the dead-letter place, batch by batch.

    receive → record → send → confirm → delete

Never the other way round. The ledger knows of a letter before it is sent, and it is deleted only
once its message is known to be in the queue. Killed between any two, the same plan goes on: a
message may be sent twice, which the ledger makes one unit of; none is lost.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tallgrass.errors import GuardRefused, TransientError
from tallgrass.governance.gate import Rule
from tallgrass.governance.switches import SwitchedOff
from tallgrass.intake.message import PoisonMessage
from tallgrass.ledger.vocabulary import Status
from tallgrass.queues.dead_letters import DeadLetterPlace, Met
from tallgrass.queues.protocol import QueueMessage
from tallgrass.replay.dead_letter_plan import DrainRow
from tallgrass.replay.dead_letters import (
    BEYOND,
    MOVED,
    NOT_FOUND,
    NOT_REACHED,
    SENT,
    DrainAction,
    DrainRules,
    Letter,
    LetterFate,
    left,
)
from tallgrass.replay.engine import wait_s
from tallgrass.replay.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenLetter:
    """A letter in hand, with its row of the plan."""

    letter: Letter
    row: DrainRow


class Sender(Protocol):
    """The queue that letters go to."""

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Put messages into the queue; return their ids, in order."""


class PoisonShelf(Protocol):
    """Keeps messages that no unit could be made of."""

    def put(self, messages: Sequence[PoisonMessage]) -> None:
        """Store them."""


class LetterStore(Protocol):
    """What the ledger keeps of a drain; each verb is one transaction."""

    def record(
        self, run: Run, letters: Sequence[TakenLetter], rules: "RunDrainRules"
    ) -> Sequence[tuple[LetterFate, bool]]:
        """Decide and write what becomes of letters; tell of each whether it is to be sent."""

    def sent(self, run: Run, sent_as: Mapping[str, str]) -> None:
        """Note by which message each letter was sent."""

    def removed(self, run: Run, message_ids: Sequence[str]) -> None:
        """Note that letters are gone."""

    def leave(self, run: Run, reasons: Mapping[str, tuple[DrainRow, str]]) -> None:
        """Note why letters stay."""


#: What decides on letters, given the datasets whose replay is switched off.
RunDrainRules = Callable[[SwitchedOff], DrainRules]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPace:
    """How fast and how far a drain may go."""

    batch: int
    letters_per_s: float
    #: Letters sent at most, by this call.
    max_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAround:
    """Time, and what is asked from outside."""

    sleep: Callable[[float], object]
    monotonic: Callable[[], float]
    stop: Callable[[], bool] = lambda: False
    #: Told after each batch: letters looked at.
    progress: Callable[[int], None] = lambda _letters: None
    #: Told of each batch: its letters, and its seconds.
    batched: Callable[[Run, int, float], None] = lambda _run, _letters, _seconds: None
    #: Whether what came of the run so far forbids to go on.
    failed: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class DrainDone:
    """What one call did."""

    sent: int = 0
    stopped: bool = False
    failed: bool = False


def fate_of(row: DrainRow, now: LetterFate, run_id: str) -> LetterFate:
    """Decide on a planned letter as it stands now: no more than was planned is done with it.

    Less may be: what the ledger has finished meanwhile needs no letter, whatever was planned.
    """
    if row.action is DrainAction.LEAVE:
        return left(row.reason or MOVED, now)
    if now.action is DrainAction.LEAVE or now.action is DrainAction.SETTLE or _is_held(now):
        return now
    if row.action is DrainAction.REPLAY and _is_begun(now, row, run_id):
        return LetterFate(action=DrainAction.REPLAY, units=now.units)
    if now.action is not row.action or now.versions != row.units:
        return left(MOVED, now)
    return now


def _is_held(fate: LetterFate) -> bool:
    """Tell whether all that could be sent is in quarantine already."""
    return fate.action is DrainAction.QUARANTINE and all(
        unit.known is not None and unit.known.status is Status.QUARANTINED
        for unit in fate.units
        if unit.action is DrainAction.QUARANTINE
    )


def _is_begun(fate: LetterFate, row: DrainRow, run_id: str) -> bool:
    """Tell whether this run put back what the letter needs, and the rest is as it was planned."""
    waiting = [unit for unit in fate.units if unit.action in SENT]
    ours = [u for u in waiting if u.known is not None and u.known.replay_run_id == run_id]
    return bool(ours) and all(u in ours or (u.wal_id, u.version) in row.units for u in waiting)


class Drain:
    """Carries out one plan, or what is left of it."""

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        place: DeadLetterPlace,
        queue: Sender,
        store: LetterStore,
        poison: PoisonShelf,
        *,
        read: Callable[[QueueMessage], Letter],
        queue_name: str,
        rules: RunDrainRules,
        pace: DrainPace,
        around: DrainAround,
    ) -> None:
        self._place = place
        self._queue = queue
        self._store = store
        self._poison = poison
        self._read = read
        self._queue_name = queue_name
        self._rules = rules
        self._pace = pace
        self._around = around
        self._done = DrainDone()
        #: Receipts of letters in hand; what stays is given back at the end: none comes twice.
        self._held: dict[str, str] = {}

    def run(self, run: Run, rows: Sequence[DrainRow]) -> DrainDone:
        """Take up every letter of the plan that is there."""
        began = self._around.monotonic()
        todo = {row.message_id: row for row in rows}
        try:
            for messages in self._received(todo):
                taken = [
                    TakenLetter(letter=self._read(message), row=todo.pop(message.message_id))
                    for message in messages
                ]
                began_batch = self._around.monotonic()
                self._take(run, taken)
                self._around.batched(run, len(taken), self._around.monotonic() - began_batch)
                self._around.progress(len(rows) - len(todo))
                elapsed_s = self._around.monotonic() - began
                if rest_s := wait_s(self._done.sent, elapsed_s, self._pace.letters_per_s):
                    self._around.sleep(rest_s)
                if self._around.failed():
                    self._done.failed = True
                    break
            if not (self._done.stopped or self._done.failed):
                self._tell_unmet(run, todo)
        finally:
            # If even that fails, they are to be seen again when their hidden time ends.
            with suppress(TransientError):
                self._place.release(list(self._held.values()))
        return self._done

    def _received(self, todo: Mapping[str, DrainRow]) -> Iterator[list[QueueMessage]]:
        """Yield planned letters until all were met, or the place gives nothing out."""
        met = Met(self._place)
        while todo:
            if self._around.stop():
                self._done.stopped = True
                return
            messages = self._place.receive(self._pace.batch)
            if not messages:
                return
            # One whose hidden time ended comes again, under another receipt.
            self._held |= {message.message_id: message.receipt for message in messages}
            fresh = met.fresh(messages)
            planned = {m.message_id: m for m in fresh if m.message_id in todo}
            if planned:
                yield list(planned.values())

    def _tell_unmet(self, run: Run, rows: Mapping[str, DrainRow]) -> None:
        """Note which letters were not met; they are gone only if nobody else holds any."""
        if not rows:
            return
        there = self._place.status()
        others = there.visible + there.in_flight - len(self._held)
        reason = NOT_REACHED if others > 0 else NOT_FOUND
        self._store.leave(run, {name: (row, reason) for name, row in rows.items()})

    def _take(self, run: Run, taken: Sequence[TakenLetter]) -> None:
        """Record, send, confirm, delete one batch."""
        working, beyond = self._within_cap(taken)
        self._keep_poison(working)
        decided = self._store.record(run, working, self._rules)
        pairs = list(zip(working, decided, strict=True))
        sending = [each.letter for each, (_, send) in pairs if send]
        if sending:
            ids = self._queue.send([letter.body for letter in sending])
            names = (letter.message_id for letter in sending)
            self._store.sent(run, dict(zip(names, ids, strict=True)))
            self._done.sent += len(sending)
        gone = {
            each.letter.receipt: each.letter.message_id
            for each, (fate, _) in pairs
            if fate.action is not DrainAction.LEAVE
        }
        stale = set(self._place.delete(list(gone)))
        self._store.removed(run, [name for receipt, name in gone.items() if receipt not in stale])
        self._store.leave(run, {each.letter.message_id: (each.row, BEYOND) for each in beyond})
        for message_id in gone.values():
            del self._held[message_id]

    def _within_cap(
        self, taken: Sequence[TakenLetter]
    ) -> tuple[list[TakenLetter], list[TakenLetter]]:
        """Divide letters into those that may be worked on and those beyond the cap."""
        room = self._pace.max_events - self._done.sent
        working: list[TakenLetter] = []
        beyond: list[TakenLetter] = []
        for each in taken:
            sends = each.row.action in SENT
            (beyond if sends and room <= 0 else working).append(each)
            room -= sends
        return working, beyond

    def _keep_poison(self, taken: Sequence[TakenLetter]) -> None:
        """Store what could not be understood, before its letter may go."""
        self._poison.put(
            [
                PoisonMessage(
                    queue=self._queue_name,
                    body=each.letter.body,
                    message_id=each.letter.message_id,
                    error_code=each.letter.parsed.poison.code,
                    error_message=each.letter.parsed.poison.message,
                )
                for each in taken
                if each.letter.parsed.poison is not None
                and each.row.action is not DrainAction.LEAVE
                and each.letter.body_sha256 == each.row.body_sha256
            ]
        )


def require_documented(
    *, planned: bool, change_ref: str | None, incident_ref: str | None, remediation: str | None
) -> None:
    """Refuse a drain without a plan, a reference and a word on what was mended."""
    if not planned:
        raise GuardRefused(
            "nothing leaves a dead-letter queue without a plan: `tallgrass dlq plan --file FILE`",
            guard=Rule.PLAN_MISSING.value,
        )
    if not (change_ref or "").strip() and not (incident_ref or "").strip():
        raise GuardRefused(
            "say which change or incident it belongs to: --change REF, or --incident REF",
            guard=Rule.REFERENCE_MISSING.value,
        )
    if not (remediation or "").strip():
        raise GuardRefused(
            "say how the cause was mended: --remediation TEXT",
            guard=Rule.REMEDIATION_MISSING.value,
        )

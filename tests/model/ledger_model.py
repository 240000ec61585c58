"""What the ledger should do, in plain Python, written from the contract and not from the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

MAX_ATTEMPTS = 3

#: Code → whether a unit that failed with it is tried again by itself.
CODES = {
    "io_error": True,
    "size_zero": False,
    "governance_hard_fail": False,
    "not_ready": True,
    "handed_back": True,
}
#: Set by the ledger itself.
RETRIED = CODES | {"lease_expired": True}

LEGAL = {
    (None, "pending"),
    ("pending", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "failed"),
    ("failed", "pending"),
    ("pending", "quarantined"),
    ("failed", "quarantined"),
}


@dataclass
class Attempt:
    """One claim of a unit."""

    number: int
    worker: str
    rerun: bool
    has_message: bool
    #: Order of its object; None if its event did not tell.
    order: int | None
    status: str = "pending"


@dataclass
class Unit:
    """One record."""

    dataset: str
    #: Orders of the objects that wait for the next attempt: none, or the last one announced.
    waiting: list[int | None]
    status: str = "pending"
    version: int = 1
    attempts: list[Attempt] = field(default_factory=list)
    budget_from: int = 0
    error: str | None = None
    due: float | None = None
    retry_after: float | None = None
    rerun: bool = False
    expiries: int = 0
    applied: int | None = None
    reason: str = "none"

    @property
    def open(self) -> Attempt | None:
        """The attempt that holds the unit."""
        last = self.attempts[-1] if self.attempts else None
        return last if last and last.status == "pending" else None

    @property
    def known_order(self) -> int | None:
        """Order of the object known: the one that waits, else the last that an attempt told."""
        told = [attempt.order for attempt in self.attempts if attempt.order is not None]
        if self.waiting:
            return self.waiting[0]
        return told[-1] if told else None

    @property
    def next_order(self) -> int | None:
        """Order of the object that the schedule would run."""
        return self.waiting[0] if self.waiting else self.attempts[-1].order

    @property
    def used(self) -> int:
        """Attempts that count against the limit."""
        return len(self.attempts) - self.budget_from

    @property
    def exhausted(self) -> bool:
        """Whether no attempt is left."""
        return self.used >= MAX_ATTEMPTS

    def move(self, status: str) -> None:
        """Take one legal edge."""
        assert (self.status, status) in LEGAL
        self.status = status
        self.version += 1


@dataclass(frozen=True)
class Message:
    """An announcement of a known unit, and how its object stands to the one known."""

    order: int | None
    worker: str
    newer: bool
    older: bool
    same: bool

    @property
    def orders(self) -> bool:
        """Whether it tells the order of an object that is known without one."""
        return self.order is not None and not (self.newer or self.older or self.same)


@dataclass
class Model:
    """All units, workers and switches, and the verbs that change them."""

    #: Ceiling of the first back-off, half of which is drawn; 0 on a database with its own clock.
    backoff_s: float
    now: float = 0.0
    units: dict[int, Unit] = field(default_factory=dict)
    #: Worker → end of its lease.
    leases: dict[str, float] = field(default_factory=dict)
    #: Datasets that are off; `*` is all.
    off: set[str] = field(default_factory=set)

    def is_off(self, dataset: str) -> bool:
        """Whether units of a dataset may not start."""
        return "*" in self.off or dataset in self.off

    def is_lost(self, unit: Unit) -> bool:
        """Whether the unit is held by a worker whose lease has ended."""
        return unit.open is not None and self.leases[unit.open.worker] <= self.now

    def delay(self, used: int) -> float:
        """Half of the ceiling, which doubles up to eight times the first."""
        return 0.5 * self.backoff_s * min(2.0 ** (used - 1), 8.0)

    # --- receipts ---------------------------------------------------------------------------------

    def announce(self, number: int, dataset: str, order: int | None, worker: str) -> str:
        """Receive a message; return the answer."""
        unit = self.units.get(number)
        if unit is None:
            unit = self.units[number] = Unit(dataset, [order])
            if self.is_off(dataset):
                unit.due = self.now
                return "park"
            return self._claim(unit, worker, order, has_message=True)
        message = _message(unit, order, worker)
        if message.older and unit.status != "quarantined":
            return "ignore_older"
        return str(getattr(self, f"_on_{unit.status}")(unit, message))

    def _on_in_progress(self, _unit: Unit, _message: Message) -> str:
        return "wait"

    def _on_quarantined(self, unit: Unit, message: Message) -> str:
        if not message.newer:
            return self._let_go(unit, message, "held")
        unit.waiting = [message.order]
        unit.version += 1
        return "record_newer"

    def _on_pending(self, unit: Unit, message: Message) -> str:
        if self.is_off(unit.dataset) or (message.newer and unit.expiries):
            if not message.newer:
                return self._let_go(unit, message, "park")
            self._adopt(unit, message.order)
            unit.version += 1
            return "park"
        if not message.newer:
            if unit.exhausted:
                self._hold(unit)
                return self._let_go(unit, message, "quarantine")
            if self._scheduled(unit):
                return self._let_go(unit, message, "due")
        return self._claim(
            unit, message.worker, message.order, has_message=True, newer=message.newer
        )

    def _on_failed(self, unit: Unit, message: Message) -> str:
        if not message.newer:
            if unit.exhausted:
                self._hold(unit)
                return self._let_go(unit, message, "quarantine")
            if not RETRIED[unit.error or ""]:
                return "leave_failed"
        if self.is_off(unit.dataset):
            # Its back-off goes on; a newer object does not wait for it.
            due = self.now if message.newer else max(self.now, unit.retry_after or self.now)
            if message.newer:
                self._adopt(unit, message.order)
            elif message.orders:
                unit.waiting = [message.order]
            self._reset(unit, due)
            return "park"
        if not message.newer and unit.retry_after is not None and unit.retry_after > self.now:
            return "wait"
        self._reset(unit, self.now)
        return self._claim(
            unit, message.worker, message.order, has_message=True, newer=message.newer
        )

    def _on_succeeded(self, unit: Unit, message: Message) -> str:
        if message.same:
            return "duplicate"
        if unit.open:
            return "wait"
        if not message.newer:
            if unit.exhausted:
                self._hold(unit)
                return "quarantine"
            if self._scheduled(unit):
                return self._let_go(unit, message, "due")
        if self.is_off(unit.dataset) or unit.expiries:
            if message.newer:
                self._adopt(unit, message.order)
            unit.waiting = [message.order]
            unit.version += 1
            unit.due = self.now if unit.due is None else unit.due
            unit.rerun = True
            return "park"
        return self._claim(
            unit, message.worker, message.order, has_message=True, newer=message.newer
        )

    def _scheduled(self, unit: Unit) -> bool:
        return unit.due is not None and (unit.due > self.now or unit.expiries > 0)

    def _let_go(self, unit: Unit, message: Message, answer: str) -> str:
        """Before a message goes, keep the order that it tells of an object known without."""
        if message.orders:
            unit.waiting = [message.order]
            unit.version += 1
        return answer

    def _adopt(self, unit: Unit, order: int | None) -> None:
        """A newer object starts a new budget."""
        unit.waiting = [order]
        unit.budget_from = len(unit.attempts)

    # --- claims -----------------------------------------------------------------------------------

    def claim_due(self, number: int, worker: str) -> bool:
        """Claim a due unit, or hold it at its limit; tell whether it was claimed."""
        unit = self.units[number]
        if unit.exhausted:
            self._hold(unit)
            return False
        if unit.status == "failed":
            self._reset(unit, self.now)
        self._claim(unit, worker, unit.next_order, has_message=False)
        return True

    def _claim(
        self, unit: Unit, worker: str, order: int | None, *, has_message: bool, newer: bool = False
    ) -> str:
        assert unit.open is None
        if newer:
            unit.budget_from = len(unit.attempts)
        rerun = unit.status == "succeeded"
        if rerun:
            unit.version += 1
        else:
            unit.move("in_progress")
        unit.attempts.append(Attempt(len(unit.attempts) + 1, worker, rerun, has_message, order))
        unit.waiting = []
        unit.due = unit.retry_after = None
        unit.rerun = rerun
        return "claim"

    def _reset(self, unit: Unit, due: float) -> None:
        unit.move("pending")
        unit.due = due
        unit.retry_after = None

    def _hold(self, unit: Unit) -> None:
        """Quarantine at the limit; a succeeded unit is only no longer due."""
        if unit.status == "succeeded":
            unit.version += unit.due is not None
        else:
            unit.move("quarantined")
            unit.error = unit.error or "attempts_exhausted"
            unit.retry_after = None
        unit.due = None

    # --- ends -------------------------------------------------------------------------------------

    def succeed(self, unit: Unit) -> None:
        """The holder reports success."""
        attempt = unit.open
        assert attempt is not None
        attempt.status = "applied"
        if attempt.rerun:
            unit.version += 1
        else:
            unit.move("succeeded")
        unit.error = unit.due = unit.retry_after = None
        unit.applied = unit.budget_from = attempt.number
        unit.expiries, unit.rerun = 0, False

    def fail(self, unit: Unit, code: str) -> None:
        """The holder reports a failure."""
        attempt = unit.open
        assert attempt is not None
        attempt.status = "failed"
        unit.error, unit.expiries = code, 0
        # What is given back has used nothing of the budget.
        unit.budget_from += code == "handed_back"
        hold = code == "governance_hard_fail" or unit.exhausted
        delay = 0.0 if code == "handed_back" else self.delay(unit.used)
        later = self.now + delay
        if attempt.rerun:
            unit.version += 1
            unit.due = unit.retry_after = later if RETRIED[code] and not hold else None
            return
        unit.move("failed")
        unit.retry_after = later
        if hold:
            self._hold(unit)
        elif code in ("not_ready", "handed_back"):
            self._reset(unit, later)
        else:
            unit.due = later if RETRIED[code] and not attempt.has_message else None

    def release(self, worker: str, why: str) -> None:
        """Free what a worker held; only one that vanished or stopped is gone afterwards.

        It vanished, stopped in good order, or goes on after its batch was cut off by a store that
        was locked, or whose connection was lost: for that a unit is blamed if it was alone.
        """
        held = [each for each in self.units.values() if each.open and each.open.worker == worker]
        blamed = why == "vanished" or (why == "lost" and len(held) == 1)
        for unit in held:
            attempt = unit.open
            assert attempt is not None
            attempt.status = "rolled_back" if why == "vanished" else "failed"
            unit.error = "lease_expired" if why == "vanished" else "handed_back"
            unit.expiries += why != "stopped"
            unit.budget_from += not blamed
            if attempt.rerun:
                unit.version += 1
                unit.due = unit.retry_after = self.now
            else:
                unit.move("failed")
                self._reset(unit, self.now)
        if why in ("vanished", "stopped"):
            del self.leases[worker]

    def recover(self) -> set[str]:
        """Fence all whose lease has ended; return them."""
        ended = {worker for worker, end in self.leases.items() if end <= self.now}
        for worker in ended:
            self.release(worker, "vanished")
        return ended

    # --- people -----------------------------------------------------------------------------------

    def put_back(self, unit: Unit) -> bool:
        """A replay; tell whether it is allowed."""
        if unit.status != "failed" or unit.exhausted or not RETRIED[unit.error or ""]:
            return False
        self._reset(unit, self.now)
        unit.reason = "backfill"
        return True

    def quarantine(self, unit: Unit) -> bool:
        """A person holds it; tell whether that is allowed."""
        if unit.status not in ("pending", "failed"):
            return False
        unit.move("quarantined")
        unit.error = unit.error or "quarantined_by_operator"
        unit.due = unit.retry_after = None
        return True


def _message(unit: Unit, order: int | None, worker: str) -> Message:
    known = unit.known_order
    if order is None or known is None:
        return Message(order, worker, newer=False, older=False, same=False)
    return Message(order, worker, newer=order > known, older=order < known, same=order == known)


def exhausted(units: dict[int, Unit]) -> list[int]:
    """Return the units that have no attempt left."""
    return [number for number, found in units.items() if found.exhausted]


def explains(
    schedule: dict[int, tuple[str, int]],
    spent: set[int],
    limit: int,
    claimed: set[int],
    held: set[int],
) -> bool:
    """Tell whether a schedule of (due time, company) can lead to these claims and holds.

    Rounds follow each other until something is claimed: the company of the longest due, its like
    in order of time, at most so many. Ties may fall either way.
    """
    if not schedule:
        return not claimed and not held
    first = min(schedule.values())[0]
    for company in {kind for time, kind in schedule.values() if time == first}:
        alike = [number for number, (_, kind) in schedule.items() if kind == company]
        size = min(len(alike), (limit, min(limit, 16), 1)[company])
        for batch in map(set, combinations(alike, size)):
            rest = {schedule[number][0] for number in alike if number not in batch}
            if rest and max(schedule[number][0] for number in batch) > min(rest):
                continue
            if batch - spent:
                if (batch - spent, batch & spent) == (claimed, held):
                    return True
                continue
            left = {number: when for number, when in schedule.items() if number not in batch}
            if batch <= held and explains(left, spent, limit, claimed, held - batch):
                return True
    return False

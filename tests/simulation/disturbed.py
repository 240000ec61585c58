"""Databases, queues and objects that fail when they are told to; all else is the real thing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallgrass.errors import (
    CommitUnknown,
    DatabaseFull,
    DatabaseLocked,
    DatabaseUnreachable,
    DataRefused,
    TransactionConflict,
)
from tallgrass.evidence.formats import HEAD_BYTES
from tallgrass.evidence.object_store import ObjectBytes
from tallgrass.evidence.reading import ReadFailure
from tests.oracle.at_any_time import effects, open_attempts, wrongly_released
from tests.simulation.onlookers import within, written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from tallgrass.ledger.claim import Claim, CommitResult, Receipt, WorkerLease
    from tallgrass.ledger.outcome import Outcome
    from tallgrass.ledger.unit import IngestUnit
    from tallgrass.operators.effects import Effects
    from tallgrass.queues.embedded import EmbeddedQueue
    from tallgrass.queues.protocol import QueueMessage, QueueStatus
    from tallgrass.storage.ledger import Ledger
    from tests.simulation.onlookers import Onlooker

#: What may befall a transaction, and when.
STORE_FAULTS = (
    "locked",
    "unreachable",
    "full",
    "conflict",
    "unknown, rolled back",
    "unknown, committed",
    "crash before COMMIT",
    "crash after COMMIT",
)
#: Reading may fail with these; each is retried.
READ_FAULTS = ("transient_network_error", "access_denied", "io_error", "missing_object")


class Crashed(BaseException):
    """The process is gone, in the middle of whatever it did."""


@dataclass
class StoreFaults:
    """What will befall a connection: after so many transactions, this."""

    armed: list[tuple[int, str]] = field(default_factory=list)

    def next(self) -> str | None:
        """Count a transaction; return what befalls it."""
        hit = None
        waiting = []
        for countdown, kind in self.armed:
            if countdown == 0 and hit is None:
                hit = kind
            else:
                waiting.append((max(countdown - 1, 0), kind))
        self.armed = waiting
        return hit


def disturb(database: Any, faults: StoreFaults, order: EffectOrder | None = None) -> None:
    """Let the transactions of a connection fail as told; judge the order of their effects."""
    begin = database.transaction
    database.transaction = lambda: DisturbedTransaction(begin, faults, order)


class DisturbedTransaction:
    """A transaction that something may befall before or after its COMMIT."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Any]],
        faults: StoreFaults,
        order: EffectOrder | None,
    ) -> None:
        self._begin = begin
        self._faults = faults
        self._order = order

    def __enter__(self) -> Any:
        """Begin it."""
        self._fault = self._faults.next() if self._faults.armed else None
        if self._fault == "locked":
            raise DatabaseLocked("simulated")
        self._real = self._begin()
        self._opened = self._real.__enter__()
        if self._order is not None:
            self._order.began(self._opened.connection)
        return self._opened

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, as its fault has it."""
        if kind is None:
            try:
                if self._order is not None:
                    self._order.ends(self._opened.connection)
                _fail_before(self._fault)
            except BaseException as fault:
                self._real.__exit__(type(fault), fault, fault.__traceback__)
                raise
        self._real.__exit__(kind, error, trace)
        if kind is None:
            self._after()

    def _after(self) -> None:
        if self._order is not None:
            self._order.ended()
        if self._fault == "unknown, committed":
            raise CommitUnknown("simulated")
        if self._fault == "crash after COMMIT":
            raise Crashed


def _fail_before(fault: str | None) -> None:
    if fault == "unreachable":
        raise DatabaseUnreachable("simulated")
    if fault == "full":
        raise DatabaseFull("simulated")
    if fault == "conflict":
        raise TransactionConflict("simulated")
    if fault == "unknown, rolled back":
        raise CommitUnknown("simulated")
    if fault == "crash before COMMIT":
        raise Crashed


class Objects:
    """Objects in memory."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[bytes, str]] = {}
        #: What the next reads of an object meet.
        self.faults: dict[str, list[str]] = {}

    def put(self, uri: str, content: bytes) -> None:
        """Write an object, perhaps over an older one."""
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        self._contents[uri] = (content, digest)

    def listed(self) -> list[tuple[str, int, str]]:
        """Return address, size and etag of all objects, in the order of their addresses."""
        held = sorted(self._contents.items())
        return [(uri, len(content), etag) for uri, (content, etag) in held]

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
        """Return the object, or what is wrong today."""
        if waiting := self.faults.get(object_uri):
            code = waiting.pop()
            return _failed(code, f"{object_uri}: simulated")
        if object_uri not in self._contents:
            return _failed("missing_object", f"{object_uri} is not there")
        content, etag = self._contents[object_uri]
        return ObjectBytes(
            head=content[:HEAD_BYTES],
            tail=content[-tail_bytes:],
            size=len(content),
            etag=etag,
        )


def _failed(code: str, message: str) -> ReadFailure:
    """Fail as stores do: what is not there may come."""
    return ReadFailure(code=code, message=message, may_come=code == "missing_object")


class WatchedQueue:
    """A worker's view of the queue: acknowledgements may be lost, and each is judged."""

    system = "tallgrass"

    def __init__(
        self,
        queue: EmbeddedQueue,
        *,
        ledger: Onlooker,
        messages: Any,
        buckets: Collection[str],
        violations: list[str],
    ) -> None:
        self._queue = queue
        self._ledger = ledger
        self._messages = messages
        self._buckets = buckets
        self._violations = violations
        self.name = queue.name
        self.max_receive_count = queue.max_receive_count
        self.lose_acknowledgements = 0

    def receive(self, limit: int, *, wait: bool = True) -> Sequence[QueueMessage]:
        """Take messages."""
        return self._queue.receive(limit, wait=wait)

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Delete messages, or lose the request; judge whether those that went were free to go."""
        if receipts and self.lose_acknowledgements:
            self.lose_acknowledgements -= 1
            return ()
        reasons = {
            position: wrongly_released(self._ledger, self._messages, position, self._buckets)
            for position in (int(receipt.partition(".")[0]) for receipt in receipts)
        }
        try:
            return self._queue.delete(receipts)
        finally:
            for position, found in reasons.items():
                if found and not self._is_there(position):
                    self._violations.extend(found)

    def _is_there(self, position: int) -> bool:
        query = "SELECT 1 FROM messages WHERE position = ?"
        return self._messages.execute(query, (position,)).fetchone() is not None

    def change_visibility(self, changes: Sequence[tuple[str, float]]) -> Sequence[str]:
        """Keep messages, or lose the request."""
        if changes and self.lose_acknowledgements:
            self.lose_acknowledgements -= 1
            return ()
        return self._queue.change_visibility(changes)

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Send."""
        return self._queue.send(bodies)

    def status(self) -> QueueStatus:
        """Count."""
        return self._queue.status()


class RefusingLedger:
    """A ledger that refuses some batches of several units, as for a bad row among them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.refuse = 0

    def record_and_claim(
        self, worker: WorkerLease, units: Sequence[IngestUnit]
    ) -> Sequence[Receipt]:
        """Record and claim."""
        return self._ledger.record_and_claim(worker, units)

    def claim_due(self, worker: WorkerLease, limit: int) -> Sequence[Claim]:
        """Claim what is due."""
        return self._ledger.claim_due(worker, limit)

    def commit(
        self,
        worker: WorkerLease,
        outcomes: Sequence[tuple[Claim, Outcome]],
        effects: Mapping[str, Effects],
    ) -> CommitResult:
        """Commit, or refuse a batch; a unit alone is never refused."""
        if self.refuse and len(outcomes) > 1:
            self.refuse -= 1
            raise DataRefused("simulated")
        return self._ledger.commit(worker, outcomes, effects)


class EffectOrder:
    """Judges writing transactions: every effect must have had its attempt committed before."""

    def __init__(self, violations: list[str]) -> None:
        self._violations = violations
        self._written: object = None
        self._effects: set[tuple[str, int]] = set()
        self._coming: set[tuple[str, int]] = set()
        self._open: set[tuple[str, int]] = set()

    def began(self, connection: Any) -> None:
        """Note what is committed when a transaction begins: nobody else writes until its end."""
        self._written = written(connection)
        self._open = open_attempts(within(connection))

    def ends(self, connection: Any) -> None:
        """Judge what is about to be committed."""
        if written(connection) != self._written:
            self._coming = effects(within(connection))
            self._violations += [
                f"effect of {wal_id} attempt {attempt_no}, which was not open before"
                for wal_id, attempt_no in sorted(self._coming - self._effects - self._open)
            ]

    def ended(self) -> None:
        """Note that what was judged is committed."""
        self._effects = self._coming

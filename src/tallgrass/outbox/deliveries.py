"""What the outbox tells of deliveries: lists, counts, and the ledger of attempts."""

from dataclasses import dataclass
from datetime import datetime

from tallgrass.outbox.dispatch_rules import AttemptOutcome, DeliveryState
from tallgrass.outbox.event import OutboxEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries are wanted; all that is given must hold."""

    target: str | None = None
    dataset: str | None = None
    event_name: str | None = None
    error_code: str | None = None
    state: DeliveryState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDelivery:
    """How far one event for one target has come."""

    outbox_id: str
    target: str
    pipeline_id: str
    event_name: str
    dataset_id: str
    state: DeliveryState
    #: Of the record: pending, dispatched or failed.
    status: str
    attempt: int
    #: When it is tried (again), or until when it is claimed.
    due_at: datetime | None
    error_code: str | None
    last_error: str | None
    created_at: datetime
    #: Of the last change of status.
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryAttempt:
    """One attempt that ended."""

    attempt: int
    dispatcher: str
    outcome: AttemptOutcome
    duplicate: bool
    error_code: str | None
    error: str | None
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDelivery:
    """A delivery with its event and everything that was tried."""

    delivery: StoredDelivery
    event: OutboxEvent
    attempts: tuple[DeliveryAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCounts:
    """How many events of a target stand where."""

    target: str
    pending: int = 0
    in_flight: int = 0
    retrying: int = 0
    exhausted: int = 0
    #: None where it was not counted: that takes longer the more there are.
    dispatched: int | None = None
    #: When the oldest event was made that is not delivered.
    oldest_at: datetime | None = None

    @property
    def undelivered(self) -> int:
        """Events that their target does not have yet, as far as is known."""
        return self.pending + self.in_flight + self.retrying + self.exhausted


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """Why events of a target are tried again, by the last of them to be."""

    error_code: str | None
    last_error: str | None
    next_try_at: datetime
    #: Events that are due and that nobody has claimed.
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionWait:
    """Events of an ordered target that wait for a transaction that began before theirs."""

    events: int
    #: Of the oldest such; None if its start is not for us to see.
    open_s: float | None
    #: Its server process; None if unknown, or if it is prepared.
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One attempt for the governance ledger and the telemetry."""

    outbox_id: str
    pipeline_id: str
    event_name: str
    dataset_id: str
    target: str
    care_label: str
    attempt: int
    outcome: AttemptOutcome
    duplicate: bool
    error_code: str | None
    error: str | None
    created_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """What became of a wish to try events again."""

    #: In the order of their ids.
    requeued: tuple[str, ...]
    #: Named ones that are not exhausted, by where they stand; None if there is no such event.
    left_out: dict[str, DeliveryState | None]

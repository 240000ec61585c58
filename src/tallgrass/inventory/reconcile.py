"""Bucket, ledger and catalog against each other: what is not as it should be. Pure.

Three streams are compared. Listed objects are looked up in the ledger by their URI. The ledger's
entries come in order of wal_id and meet the ids of the listed ones in that order. Items without an
entry are found by the reader. Nothing is held but what one unit needs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from tallgrass.clock import format_instant
from tallgrass.inventory.listed import ListedObject
from tallgrass.ledger.object_order import ObjectOrder, compare_objects
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import Status


class Kind(StrEnum):
    """What can be wrong with a unit."""

    NEVER_NOTIFIED = "never_notified"  # the bucket has it, the ledger does not
    STUCK = "stuck"  # nothing will move it by itself, or nothing has for long
    STALE = "stale"  # its item is behind: a later re-run failed
    FAILED = "failed"
    QUARANTINED = "quarantined"
    LEDGER_WITHOUT_ITEM = "ledger_without_item"
    ITEM_WITHOUT_LEDGER = "item_without_ledger"
    OBJECT_GONE = "object_gone"  # the ledger has it, the bucket does not
    OBJECT_CHANGED = "object_changed"  # the bucket has another version than the ledger
    GAP = "gap"  # neither has what the cadence asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    dataset: str
    detail: str
    wal_id: str | None = None
    object_uri: str | None = None
    #: Start of the data.
    start: datetime | None = None
    #: Of the unit's last error.
    error_code: str | None = None
    #: The object, as far as a listing tells of it, where a backfill can mend it.
    listed: ListedObject | None = None

    def document(self) -> dict[str, object]:
        """Return it as a JSON value; what does not apply is left out."""
        told = {
            "kind": self.kind.value,
            "dataset": self.dataset,
            "wal_id": self.wal_id,
            "object_uri": self.object_uri,
            "start": None if self.start is None else format_instant(self.start),
            "error_code": self.error_code,
            "detail": self.detail,
        }
        return {name: value for name, value in told.items() if value is not None}


class LedgerEntry(NamedTuple):
    """A record of the window, with what belongs to it."""

    wal_id: str
    object_uri: str
    #: A word of `Status`.
    status: str
    start: datetime
    created_at: datetime
    updated_at: datetime
    due_at: datetime | None
    replay_run_id: str | None
    last_error_code: str | None
    #: Whether the catalog has the very item that the record names.
    has_item: bool
    #: When the lease of its open attempt's holder ends or ended; None if none is open.
    held_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What judges an entry beside its own state."""

    dataset: str
    now: datetime
    #: What is younger is left alone: it may still be on its way.
    grace: timedelta
    #: Whether the dataset's ingest, and its replay, are switched off: its due units are parked.
    ingest_off: bool = False
    replay_off: bool = False
    #: When the listing began. A unit that was recorded later may have come behind it.
    listed_at: datetime | None = None


def changed_since(listed: ListedObject, known: ObjectReference) -> str | None:
    """Return how a listed object differs from the version that the ledger knows, or None.

    Without an etag on either side the size alone is compared.
    """
    order = compare_objects(ObjectReference(etag=listed.etag, size=listed.size), known)
    if order is ObjectOrder.SAME:
        return None
    if order is ObjectOrder.NEWER:
        return f"etag {listed.etag}, the ledger knows {known.etag}"
    if listed.size is None or known.size is None or listed.size == known.size:
        return None
    return f"{listed.size:,} bytes, the ledger knows {known.size:,}"


def is_recent(listed: ListedObject, judging: Judging) -> bool:
    """Tell whether the object's notification may still be on its way."""
    return listed.modified is not None and listed.modified > judging.now - judging.grace


class HasId(Protocol):
    """Anything that belongs to a unit."""

    @property
    def wal_id(self) -> str:
        """The unit's id."""


_Entry = TypeVar("_Entry", bound=HasId)


def with_listed(
    entries: Iterable[_Entry], listed_ids: Iterable[str]
) -> Iterator[tuple[_Entry, bool]]:
    """Yield entries with whether they were listed; both come in order of wal_id."""
    ids = iter(listed_ids)
    current = next(ids, None)
    for entry in entries:
        while current is not None and current < entry.wal_id:
            current = next(ids, None)
        yield entry, current == entry.wal_id


def judge(entry: LedgerEntry, judging: Judging, *, listed: bool | None) -> Iterator[Finding]:
    """Yield what is wrong with an entry; `listed` is None where the bucket was not asked."""

    def found(kind: Kind, detail: str) -> Finding:
        return Finding(
            kind=kind,
            dataset=judging.dataset,
            detail=detail,
            wal_id=entry.wal_id,
            object_uri=entry.object_uri,
            start=entry.start,
            error_code=entry.last_error_code,
        )

    stuck = _stuck(entry, judging)
    if stuck is not None:
        finding = found(Kind.STUCK, stuck)
        # What waits for a message can be announced by a list instead.
        yield replace(finding, listed=_unlisted(entry)) if _waits(entry) else finding
    match entry.status:
        case Status.FAILED:
            yield found(Kind.FAILED, f"{entry.last_error_code}, since {_told(entry.updated_at)}")
        case Status.QUARANTINED:
            detail = f"{entry.last_error_code}, since {_told(entry.updated_at)}"
            yield found(Kind.QUARANTINED, detail)
        case Status.SUCCEEDED:
            if entry.last_error_code is not None:
                yield found(Kind.STALE, f"its last re-run ended with {entry.last_error_code}")
            if not entry.has_item:
                yield found(Kind.LEDGER_WITHOUT_ITEM, "succeeded, but the catalog lacks its item")
    if listed is False and _is_missed(entry, judging):
        yield found(Kind.OBJECT_GONE, f"{entry.status}, but the bucket does not list its object")


def _is_missed(entry: LedgerEntry, judging: Judging) -> bool:
    """Tell whether a unit's object should have been listed: neither too new for it nor young."""
    known = judging.listed_at is None or entry.created_at < judging.listed_at
    return known and entry.created_at <= judging.now - judging.grace


def _stuck(entry: LedgerEntry, judging: Judging) -> str | None:
    """Say why nothing moves a unit that should move, or None."""
    if entry.held_until is not None:
        if entry.held_until > judging.now:
            return None
        return "its worker lost the lease; the next worker recovers it"
    if entry.status == Status.IN_PROGRESS:
        return "in progress, but nobody has an attempt open"
    patience = judging.now - judging.grace
    if entry.due_at is None:
        if not _waits(entry) or entry.updated_at > patience:
            return None
        return f"waits since {_told(entry.updated_at)} for a message"
    off = judging.ingest_off or (judging.replay_off and entry.replay_run_id is not None)
    # What failed is told as failed or stale; its next try is not a finding of its own.
    retried = entry.status == Status.FAILED or (
        entry.status == Status.SUCCEEDED and entry.last_error_code is not None
    )
    if off or retried or entry.due_at > patience:
        return None
    return f"due since {_told(entry.due_at)}, and nobody claims it"


def _waits(entry: LedgerEntry) -> bool:
    """Tell whether only a message can move the unit."""
    return entry.status == Status.PENDING and entry.due_at is None and entry.held_until is None


def _unlisted(entry: LedgerEntry) -> ListedObject:
    return ListedObject(entry.object_uri, None, None, None)


def _told(instant: datetime) -> str:
    return format_instant(instant)[:19] + "Z"

"""Which units a replay is about.

All conditions hold together. Every span is half open: its start belongs to it, its end does not,
so that two spans that meet share no unit. A selection says nothing about what becomes of a unit;
that is the plan's business.
"""

import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from tallgrass.clock import format_instant
from tallgrass.error_codes import CodeScope, is_unit_code, nearest
from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.vocabulary import Intent, Status

#: Units and messages that a selection may name one by one; more are chosen by dataset and time.
NAMES_MAX = 10_000
#: The largest number of attempts that a record can have: PostgreSQL's integers have 32 bits.
NUMBER_MAX = 2**31 - 1
#: Of a long list, in a message.
_SHOWN = 5

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9][A-Za-z0-9._-]*(/.*)?", re.DOTALL)

_Bound = TypeVar("_Bound", datetime, str)
_Word = TypeVar("_Word", bound=str)


class Purpose(StrEnum):
    """What a replay is for."""

    FAILED_ONLY = "failed-only"  # bring failed units through
    REPAIR = "repair-and-replace"  # run succeeded units again too, with mended code or settings
    BACKFILL = "backfill"  # the same, to fill what was left out before

    @property
    def intent(self) -> Intent:
        """Why the attempts of such a replay are opened."""
        return _INTENTS[self]


_INTENTS = {
    Purpose.FAILED_ONLY: Intent.INGEST,
    Purpose.REPAIR: Intent.REPAIR,
    Purpose.BACKFILL: Intent.BACKFILL,
}


@dataclass(frozen=True, slots=True)
class Span:
    """Instants from `start` on and before `end`; None leaves a side open."""

    start: datetime | None = None
    end: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it leaves out nothing."""
        return self.start is None and self.end is None

    def within(self, other: "Span") -> "Span":
        """Return what both hold."""
        return Span(_later(self.start, other.start), _earlier(self.end, other.end))


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids from `start` on and before `end`; None leaves a side open."""

    start: str | None = None
    end: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it leaves out nothing."""
        return self.start is None and self.end is None

    def within(self, other: "IdRange") -> "IdRange":
        """Return what both hold."""
        return IdRange(_later(self.start, other.start), _earlier(self.end, other.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions that hold together; one that is not given leaves out nothing.

    Lists are sorted and hold nothing twice, so that equal selections are equal values.
    """

    datasets: tuple[str, ...] = ()
    datasets_exclude: tuple[str, ...] = ()
    #: How the object's URI begins: `s3://BUCKET/PATH`.
    bucket_prefix: str | None = None
    #: When the data start.
    data_time: Span = field(default_factory=Span)
    #: What the data cover: a unit that has any of it.
    time_range_overlap: Span = field(default_factory=Span)
    #: When the source announced the object first.
    event_time: Span = field(default_factory=Span)
    #: When the ledger recorded the unit.
    created_at: Span = field(default_factory=Span)
    wal_ids: tuple[str, ...] = ()
    wal_id_range: IdRange = field(default_factory=IdRange)
    #: Of SNS or SQS, from any attempt.
    message_ids: tuple[str, ...] = ()
    #: None given: any, of units that are named; else `failed`, and `succeeded` if included.
    statuses: tuple[Status, ...] = ()
    error_codes: tuple[str, ...] = ()
    #: Of the record's total; both ends belong to it.
    attempts_min: int | None = None
    attempts_max: int | None = None
    purpose: Purpose = Purpose.FAILED_ONLY
    #: At most so many units are replayed.
    max_records: int | None = None

    def __post_init__(self) -> None:
        """Bring lists into one order; refuse what is malformed or selects nothing by itself."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):
                object.__setattr__(self, item.name, tuple(sorted(set(value))))
        _require_words(self)
        _require_spans(self)
        _require_numbers(self)
        _require_no_contradiction(self)

    @property
    def is_empty(self) -> bool:
        """Whether no condition chooses anything: purpose and limit do not choose."""
        return not (
            self.datasets or self.bucket_prefix or self.names_units or self.statuses
            or self.error_codes or self.has_time or self.attempts_min is not None
            or self.attempts_max is not None
        )  # fmt: skip

    @property
    def names_units(self) -> bool:
        """Whether it lists units or messages one by one."""
        return bool(self.wal_ids or self.message_ids)

    @property
    def has_time(self) -> bool:
        """Whether any time, or an id range, which is a data time, bounds it."""
        spans = (self.data_time, self.time_range_overlap, self.event_time, self.created_at)
        return not (self.wal_id_range.is_open and all(span.is_open for span in spans))

    @property
    def has_start(self) -> bool:
        """Whether it reaches back only so far."""
        spans = (self.data_time, self.time_range_overlap, self.event_time, self.created_at)
        return self.wal_id_range.start is not None or any(span.start for span in spans)

    @property
    def includes_succeeded(self) -> bool:
        """Whether succeeded units are run again."""
        return self.purpose is not Purpose.FAILED_ONLY

    @property
    def wanted_statuses(self) -> tuple[Status, ...]:
        """The statuses that candidates may have."""
        if self.statuses:
            return self.statuses
        if self.names_units:
            return tuple(Status)
        return (Status.FAILED, Status.SUCCEEDED) if self.includes_succeeded else (Status.FAILED,)

    @property
    def mode(self) -> ReplayMode:
        """Single, if it names one unit or one message."""
        named = len(self.wal_ids) + len(self.message_ids)
        return ReplayMode.SINGLE if named == 1 else ReplayMode.RANGE

    def narrowed(self, flags: "Selection") -> "Selection":
        """Return this selection, made smaller by flags; flags that would widen it are refused."""
        return Selection(
            datasets=_subset("dataset", self.datasets, flags.datasets),
            datasets_exclude=self.datasets_exclude + flags.datasets_exclude,
            bucket_prefix=_longer(self.bucket_prefix, flags.bucket_prefix),
            data_time=self.data_time.within(flags.data_time),
            time_range_overlap=self.time_range_overlap.within(flags.time_range_overlap),
            event_time=self.event_time.within(flags.event_time),
            created_at=self.created_at.within(flags.created_at),
            wal_ids=_subset("wal_id", self.wal_ids, flags.wal_ids),
            wal_id_range=self.wal_id_range.within(flags.wal_id_range),
            message_ids=_subset("message id", self.message_ids, flags.message_ids),
            statuses=_subset("status", self.statuses, flags.statuses),
            error_codes=_subset("error code", self.error_codes, flags.error_codes),
            attempts_min=_most(self.attempts_min, flags.attempts_min),
            attempts_max=_least(self.attempts_max, flags.attempts_max),
            purpose=_no_wider(self.purpose, flags.purpose),
            max_records=_least(self.max_records, flags.max_records),
        )


def _require_words(selection: Selection) -> None:
    for wal_id in (*selection.wal_ids, selection.wal_id_range.start, selection.wal_id_range.end):
        if wal_id is not None and not _UUID.fullmatch(wal_id):
            raise _invalid(f"{wal_id!r} is not a wal_id")
    for code in selection.error_codes:
        if not is_unit_code(code):
            near = nearest(code, scope=CodeScope.UNIT)
            raise _invalid(f"no unit can have the code {code!r}{near}")
    prefix = selection.bucket_prefix
    if prefix is not None and not _PREFIX.fullmatch(prefix):
        raise _invalid(f"a bucket prefix is like s3://noaa-goes19/GLM-L2-LCFA/, not {prefix!r}")
    for name in ("datasets", "datasets_exclude", "message_ids"):
        if not all(getattr(selection, name)):
            raise _invalid(f"an empty name among {name}")
    if len(selection.wal_ids) > NAMES_MAX or len(selection.message_ids) > NAMES_MAX:
        raise _invalid(f"more than {NAMES_MAX:,} ids; choose by dataset and time")


def _require_spans(selection: Selection) -> None:
    for name in ("data_time", "time_range_overlap", "event_time", "created_at"):
        span: Span = getattr(selection, name)
        if span.start is not None and span.end is not None and span.start >= span.end:
            start, end = format_instant(span.start), format_instant(span.end)
            raise _invalid(f"{name} is empty: its start {start} is not before its end {end}")
    ids = selection.wal_id_range
    if ids.start is not None and ids.end is not None and ids.start >= ids.end:
        raise _invalid(f"wal_id_range is empty: {ids.start} is not before {ids.end}")


def _require_numbers(selection: Selection) -> None:
    low, high = selection.attempts_min, selection.attempts_max
    for name in ("attempts_min", "attempts_max"):
        value = getattr(selection, name)
        if value is not None and value < 0:
            raise _invalid(f"{name} is below 0")
    for name in ("attempts_min", "attempts_max", "max_records"):
        if (getattr(selection, name) or 0) > NUMBER_MAX:
            raise _invalid(f"{name} is above {NUMBER_MAX}")
    if low is not None and high is not None and low > high:
        raise _invalid(f"no number of attempts is at least {low} and at most {high}")
    if selection.max_records is not None and selection.max_records < 1:
        raise _invalid("a limit of records below 1 selects nothing")


def _require_no_contradiction(selection: Selection) -> None:
    if selection.datasets and not set(selection.datasets) - set(selection.datasets_exclude):
        raise _invalid("each dataset that is selected is excluded too")
    statuses = selection.statuses
    if selection.includes_succeeded and statuses and Status.SUCCEEDED not in statuses:
        raise _invalid(
            f"succeeded units are to be included, but only {', '.join(statuses)} are selected"
        )


def _subset(what: str, saved: tuple[_Word, ...], given: tuple[_Word, ...]) -> tuple[_Word, ...]:
    further = sorted(set(given) - set(saved))
    if saved and further:
        raise _invalid(
            f"{what} {', '.join(further)} is not in the selection file, "
            f"which has {', '.join(saved[:_SHOWN])}{' …' * (len(saved) > _SHOWN)}: "
            "flags can only narrow it"
        )
    return given or saved


def _longer(saved: str | None, given: str | None) -> str | None:
    if saved and given and not given.startswith(saved):
        raise _invalid(f"{given!r} does not lie below the selection file's prefix {saved!r}")
    return given or saved


def _no_wider(saved: Purpose, given: Purpose) -> Purpose:
    if given is not Purpose.FAILED_ONLY and saved is Purpose.FAILED_ONLY:
        raise _invalid(
            "the selection file is for failed units only: flags cannot include succeeded ones"
        )
    return saved


def _later(one: _Bound | None, other: _Bound | None) -> _Bound | None:
    return other if one is None else one if other is None else max(one, other)


def _earlier(one: _Bound | None, other: _Bound | None) -> _Bound | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="selection_invalid")

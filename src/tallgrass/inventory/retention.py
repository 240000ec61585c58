"""What may leave the database, and when: ages, archives and the pace at which rows go.

Only what is closed and old leaves: attempts that no unit needs any more, delivered events, sealed
audit entries. A record, an item and its provenance stay for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)

#: Rows of one archive at most: a file that is searched in seconds and rewritten without regret.
ARCHIVE_ROWS_MAX = 100_000
#: Audit entries leave in one transaction, so that the chain never begins within an archive.
AUDIT_ROWS_MAX = 10_000


class ArchiveKind(Enum):
    """What an archive holds."""

    ATTEMPTS = "attempts"
    EVENTS = "events"
    AUDIT = "audit"


class ArchiveFormat(Enum):
    """How an archive is written."""

    #: JSON Lines, compressed by gzip.
    NDJSON = "ndjson"
    PARQUET = "parquet"


#: The column by which a row of each kind is old.
TIME_OF = {
    ArchiveKind.ATTEMPTS: "closed_at",
    ArchiveKind.EVENTS: "updated_at",
    ArchiveKind.AUDIT: "occurred_at",
}
#: The column by which rows of each kind are found and ordered.
KEY_OF = {
    ArchiveKind.ATTEMPTS: "wal_id",
    ArchiveKind.EVENTS: "outbox_id",
    ArchiveKind.AUDIT: "entry_id",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """For how many days each kind is kept; 0 is for ever."""

    days: Mapping[ArchiveKind, int]

    def older_than(self, kind: ArchiveKind, now: datetime) -> datetime | None:
        """Return the time before which rows may leave; None if none ever may."""
        days = self.days.get(kind, 0)
        return now - days * _DAY if days > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFile:
    """A file that was written whole."""

    kind: ArchiveKind
    format: ArchiveFormat
    #: The folder or bucket, and the file's name in it.
    place: str
    name: str
    sha256: str
    bytes: int
    rows: int
    older_than: datetime
    first_key: str
    last_key: str
    first_at: datetime
    last_at: datetime
    #: Of audit entries: places in the chain, the link before them and their last.
    first_position: int | None = None
    last_position: int | None = None
    before_hash: str | None = None
    head_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A file as the database knows it."""

    archive_id: int
    file: ArchiveFile
    actor: str
    recorded_at: datetime
    #: When it was read back and found to be what was written.
    verified_at: datetime | None
    removed: int
    #: When the last of its rows had left.
    removed_at: datetime | None
    abandoned_at: datetime | None

    def may_hold(self, wanted: "ArchiveSearch") -> bool:
        """Tell whether a row that is looked for can be in it, by what is known of the file."""
        file = self.file
        if self.abandoned_at is not None or (wanted.kind is not None and wanted.kind != file.kind):
            return False
        key = wanted.key
        if key is not None and not (file.first_key <= key <= file.last_key):
            return False
        return (wanted.since is None or file.last_at >= wanted.since) and (
            wanted.until is None or file.first_at < wanted.until
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSearch:
    """Which archived rows are looked for; all that is given holds together."""

    kind: ArchiveKind | None = None
    #: A unit or an event.
    key: str | None = None
    since: datetime | None = None
    #: Not included.
    until: datetime | None = None

    def fits(self, kind: ArchiveKind, row: Mapping[str, object]) -> bool:
        """Tell whether an archived row is one of them."""
        at = datetime.fromisoformat(str(row[TIME_OF[kind]]))
        return (
            (self.key is None or row[KEY_OF[kind]] == self.key)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What of one kind may leave now."""

    kind: ArchiveKind
    #: None: kept for ever.
    older_than: datetime | None
    rows: int = 0
    #: As lines of JSON, before compression.
    bytes: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    #: An archive that was begun, and what of it has yet to leave.
    open_archive: int | None = None
    open_rows: int = 0


def first_outbox_id(at: datetime) -> str:
    """Return the smallest id that an event of this time can have: ids begin with the time."""
    millis = max(0, (at - _EPOCH) // timedelta(milliseconds=1))
    digits = f"{millis:012x}"
    return f"{digits[:8]}-{digits[8:12]}-0000-0000-000000000000"


def pause_s(rows: int, rows_per_s: float | None, elapsed_s: float) -> float:
    """Return for how long to rest after so many rows, so that the rate is kept."""
    return 0.0 if rows_per_s is None else max(0.0, rows / rows_per_s - elapsed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskForecast:
    """How the database grows, and for how long the disk lasts."""

    database_bytes: int
    #: By the units recorded in the last days; None while there are none to go by.
    bytes_per_day: float | None
    #: None where the disk is another machine's.
    free_bytes: int | None

    @property
    def days_left(self) -> float | None:
        """Days until the disk is full if all goes on as it does; None if nobody can tell."""
        if self.free_bytes is None or not self.bytes_per_day:
            return None
        return round(self.free_bytes / self.bytes_per_day, 1)


def forecast(
    *, database_bytes: int, units: int, recent_units: int, recent_days: float, free: int | None
) -> DiskForecast:
    """Reckon with what a unit takes on average, and with as many a day as came lately."""
    per_day = None
    if units > 0 and recent_units > 0 and recent_days > 0:
        per_day = round(database_bytes / units * recent_units / recent_days, 1)
    return DiskForecast(database_bytes=database_bytes, bytes_per_day=per_day, free_bytes=free)


def kinds_named(names: Sequence[str]) -> tuple[ArchiveKind, ...]:
    """Return the kinds in their order; all of them if none is named."""
    wanted = {ArchiveKind(name) for name in names}
    return tuple(kind for kind in ArchiveKind if not wanted or kind in wanted)

"""Findings, and the facts that they are decided from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tallgrass.config import Config
from tallgrass.error_codes import lookup
from tallgrass.queues.queue_facts import SqsFacts
from tallgrass.sqlite_address import sqlite_file


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's answer."""

    name: str
    verdict: Verdict
    seen: str
    #: What to do; only where something is to be done.
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Facts that could not be gathered, and the error that says why."""

    code: str
    message: str

    @property
    def remedy(self) -> str:
        """What the registry says to do."""
        return lookup(self.code).remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked:
    """Facts that nobody gathered, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where something of the pipeline is kept on this machine."""

    #: The setting that names it.
    setting: str
    path: str
    exists: bool
    #: Whether work writes there; else it reads.
    written: bool
    #: Whether this account has the rights for that.
    usable: bool
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The database, as it was found by reading."""

    place: str
    version: str
    schema: str
    problem: str | None
    writable: bool
    #: SQLite's; None on PostgreSQL.
    file_system: str | None
    #: None where database and worker share one clock.
    clock_ahead_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the database holds that somebody should look at."""

    #: `scope:dataset` of the switches that are on.
    switches: tuple[str, ...]
    poison_open: int
    audit_entries: bool
    #: Heads in the anchor file; None if there is no such file.
    anchors: int | Trouble | None
    #: Changes that wait for the copy in pgstac, and how long the oldest did; None without a copy.
    unprojected: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedQueue:
    """The queue in a file; None if it was not made yet."""

    waiting: int | None
    dead: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the checks look at."""

    config: Config
    #: As attempts name it; None where the datasets cannot be read.
    config_version: str | None
    #: How many there are, the folder of one's own included.
    datasets: int | Trouble
    #: Ids of the datasets of whose files attributes of HDF5 are read.
    with_attributes: Sequence[str]
    #: Optional package → whether it is installed.
    packages: Mapping[str, bool]
    folders: Sequence[Folder]
    database: DatabaseFacts | Trouble | NotAsked
    ledger: LedgerFacts | Trouble | NotAsked
    queue: EmbeddedQueue | SqsFacts | Trouble | NotAsked
    #: Where credentials come from; None for nowhere.
    credentials: str | Trouble | NotAsked | None

    @property
    def reads_objects(self) -> bool:
        """Whether workers read objects, and do not only believe events."""
        return self.config.text("objects.url") != "event"

    @property
    def on_sqs(self) -> bool:
        """Whether messages come from SQS."""
        return sqlite_file(self.config.text("queue.url")) is None

    @property
    def on_postgres(self) -> bool:
        """Whether the database is a server."""
        return sqlite_file(self.config.text("database.url")) is None


def ok(name: str, seen: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(name=name, verdict=Verdict.OK, seen=seen)


def skipped(name: str, reason: str) -> Finding:
    """Return a check that does not apply, or could not be made, and why."""
    return Finding(name=name, verdict=Verdict.SKIPPED, seen=reason)


def warning(name: str, seen: str, fix: str) -> Finding:
    """Return what works but should be mended."""
    return Finding(name=name, verdict=Verdict.WARNING, seen=seen, fix=fix)


def problem(name: str, seen: str, fix: str) -> Finding:
    """Return what must be mended before work begins."""
    return Finding(name=name, verdict=Verdict.PROBLEM, seen=seen, fix=fix)

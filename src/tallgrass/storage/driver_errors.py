"""Drivers' errors in Tallgrass's words; the only place that knows their codes."""

import sqlite3

from tallgrass.errors import (
    ApprovalInvalid,
    CommitUnknown,
    DatabaseFull,
    DatabaseLocked,
    DatabaseUnreachable,
    DatabaseUnusable,
    DataRefused,
    IllegalTransition,
    InvalidInput,
    Refused,
    TallgrassError,
    TransactionConflict,
    VersionConflict,
    WorkerFenced,
)

#: What our triggers say before the colon, and the error that it stands for.
_TRIGGER_ERRORS: dict[str, type[TallgrassError]] = {
    "illegal_transition": IllegalTransition,
    "version_conflict": VersionConflict,
    "worker_fenced": WorkerFenced,
    "append_only": Refused,
    "approval_invalid": ApprovalInvalid,
}


#: Further refusals of our triggers that have a code of their own.
_TRIGGER_CODES = frozenset({"last_approver", "unaudited"})

#: Beginning of a SQLSTATE → error and code; the first that fits counts.
_SQLSTATES: dict[str, tuple[type[TallgrassError], str | None]] = {
    "40001": (TransactionConflict, None),  # serialization failure
    "40P01": (TransactionConflict, None),  # deadlock
    "53100": (DatabaseFull, None),  # disk full
    "53200": (DatabaseFull, None),  # out of memory
    "55P03": (DatabaseLocked, None),  # lock timeout
    "57014": (DatabaseLocked, None),  # statement timeout
    "25006": (DatabaseUnusable, "database_read_only"),  # read-only transaction
    "42501": (DatabaseUnusable, "database_denied"),  # role without the right
    "22": (DataRefused, None),  # a value that the type does not take
    "54": (DataRefused, None),  # more than a row or an index takes
    "08": (DatabaseUnreachable, None),  # connection
    "28": (DatabaseUnreachable, None),  # authentication
    "3D": (DatabaseUnreachable, None),  # no such database
    "53": (DatabaseUnreachable, None),  # too many connections
    "57": (DatabaseUnreachable, None),  # shutting down, starting up, crashed
}


#: Unique keys that a publication finds free and another transaction takes before it commits.
_RACES = frozenset({"idempotency_keys_pkey", "artifact_versions_pkey"})


def from_constraint(text: str) -> TallgrassError:
    """Translate the message of a violated constraint or of one of our triggers."""
    code, _, rest = text.partition(":")
    if error := _TRIGGER_ERRORS.get(code):
        return error(rest.strip() if code != "append_only" else f"{rest.strip()} is append-only")
    if code in _TRIGGER_CODES:
        return Refused(f"{code}: {rest.strip()}", code=code)
    if code == "unknown_replay_reason":
        return InvalidInput(f"replay reason {rest.strip()}", code=code)
    return DataRefused(f"the database refused a row: {text.splitlines()[0]}")


def from_sqlite(exc: sqlite3.Error, place: str, *, committing: bool = False) -> TallgrassError:
    """Translate an error of SQLite by its primary result code."""
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_CONSTRAINT:
        return from_constraint(str(exc))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLocked(f"{place} is locked by another process")
    if code == sqlite3.SQLITE_FULL:
        return DatabaseFull(f"no room left for {place}")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return DatabaseUnusable(f"{place} can only be read", code="database_read_only")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseUnusable(f"{place} is damaged or no database", code="database_corrupt")
    if code == sqlite3.SQLITE_IOERR and committing:
        return CommitUnknown(f"writing {place} failed during COMMIT: {exc}")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        return DatabaseUnreachable(f"cannot use {place}: {exc}")
    if "no such table" in str(exc):  # SQLite has no code of its own for it
        return schema_missing(place)
    return DatabaseUnusable(f"{place}: {exc}")


def from_postgres(
    exc: Exception, sqlstate: str | None, place: str, *, connected: bool, committing: bool
) -> TallgrassError:
    """Translate an error of PostgreSQL by its SQLSTATE; without one the connection is gone."""
    text = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    if not connected and committing:
        return CommitUnknown(f"the connection to {place} broke during COMMIT")
    if sqlstate is None or not connected:
        return DatabaseUnreachable(f"{place}: {text}")
    if sqlstate.startswith("23"):
        if getattr(getattr(exc, "diag", None), "constraint_name", None) in _RACES:
            return TransactionConflict(f"{place}: the same was published by another transaction")
        return from_constraint(text)
    if sqlstate == "42P01":
        return schema_missing(place)
    error, code = next(
        (found for prefix, found in _SQLSTATES.items() if sqlstate.startswith(prefix)),
        (DatabaseUnusable, None),
    )
    return error(f"{place}: {text}", code=code)


def schema_missing(place: str) -> DatabaseUnusable:
    """Return the error for a database that has no tables of ours."""
    return DatabaseUnusable(f"{place} has no Tallgrass tables", code="schema_missing")

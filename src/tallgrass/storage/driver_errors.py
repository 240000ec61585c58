"""Drivers' errors in Tallgrass's words; the only place that knows their codes."""

import sqlite3

from tallgrass.errors import (
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
}


def from_constraint(text: str) -> TallgrassError:
    """Translate the message of a violated constraint or of one of our triggers."""
    code, _, rest = text.partition(":")
    if error := _TRIGGER_ERRORS.get(code):
        return error(rest.strip() if code != "append_only" else f"{rest.strip()} is append-only")
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
    text = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
    if not connected and committing:
        return CommitUnknown(f"the connection to {place} broke during COMMIT")
    if sqlstate is None or not connected or sqlstate[:2] in ("08", "28", "3D"):
        return DatabaseUnreachable(f"{place}: {text}")
    if sqlstate in ("40001", "40P01"):
        return TransactionConflict(f"{place}: {text}")
    if sqlstate[:2] == "23":
        return from_constraint(text)
    if sqlstate in ("53100", "53200"):
        return DatabaseFull(f"{place}: {text}")
    if sqlstate in ("55P03", "57014"):
        return DatabaseLocked(f"{place}: {text}")
    if sqlstate[:2] in ("53", "57"):
        return DatabaseUnreachable(f"{place}: {text}")
    if sqlstate in ("25006", "42501"):
        return DatabaseUnusable(f"{place}: {text}", code="database_read_only")
    if sqlstate == "42P01":
        return schema_missing(place)
    if sqlstate[:2] == "22":
        return DataRefused(f"the database refused a value: {text}")
    return DatabaseUnusable(f"{place}: {text}")


def schema_missing(place: str) -> DatabaseUnusable:
    """Return the error for a database that has no tables of ours."""
    return DatabaseUnusable(f"{place} has no Tallgrass tables", code="schema_missing")

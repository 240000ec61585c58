"""SQLite: one file, one machine, any number of processes."""

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import orjson

from tallgrass.clock import Clock, format_instant
from tallgrass.errors import DatabaseUnreachable, DatabaseUnusable
from tallgrass.storage.driver_errors import from_sqlite
from tallgrass.storage.file_lock import FileLock
from tallgrass.storage.named_queries import Query, load_queries
from tallgrass.storage.unit_of_work import Row

#: A write waits this long for the writers before it.
LOCK_TIMEOUT_S = 30.0

#: How often a new file's switch to its journal is tried: SQLite itself does not wait there.
_SWITCH_EVERY_S = 0.01

#: FULL: a commit survives power loss. The larger checkpoint measured 12 % faster than the default.
#: What a statement with triggers could have to undo is kept in memory: in files, as is usual, an
#: event took 60 µs instead of 25.
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA temp_store = MEMORY",
)
#: An index of a large table is sorted in files.
_MIGRATION_PRAGMA = "PRAGMA temp_store = FILE"

#: File systems whose locks do not hold between hosts.
_NETWORK_FILESYSTEMS = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|ncpfs|afs|ceph|lustre|glusterfs|gpfs|fuse\.(sshfs|s3fs|gcsfuse|rclone"
    r"|blobfuse\w*|glusterfs|ceph\w*)"
)

#: How the kernel writes blanks and backslashes in mount points.
_OCTAL = re.compile(r"\\([0-7]{3})")

_CREATE_MIGRATIONS = """CREATE TABLE IF NOT EXISTS schema_migrations (
  number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL,
  applied_at TEXT NOT NULL) STRICT"""


class SqliteDatabase:
    """One connection to a SQLite file. Use it from one thread at a time."""

    dialect = "sqlite"

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock,
        read_only: bool = False,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        schema: str = "sqlite",
    ) -> None:
        self.schema = schema
        self._path = Path(path)
        self._clock = clock
        self._read_only = read_only
        self._lock_timeout_s = lock_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._lock = writers_lock(self._path)
        self.place = str(self._path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator["SqliteTransaction"]:
        """Begin as the only writer; commit at the end, roll back on any error."""
        connection = self._connect()
        self._acquire_lock()
        try:
            with self._translated():
                connection.execute("BEGIN IMMEDIATE")
            yield SqliteTransaction(connection, self._clock, self.place, self.schema)
            with self._translated(committing=True):
                connection.execute("COMMIT")
        finally:
            self._roll_back_if_open(connection)
            self._lock.release()

    @contextlib.contextmanager
    def reading(self) -> Iterator["SqliteTransaction"]:
        """Begin a consistent view that waits for nobody and blocks nobody."""
        connection = self._connect()
        with self._translated():
            connection.execute("BEGIN")
        try:
            yield SqliteTransaction(connection, self._clock, self.place, self.schema)
        finally:
            self._roll_back_if_open(connection)

    @contextlib.contextmanager
    def migrating(self) -> Iterator["SqliteMigration"]:
        """Begin a transaction for schema changes; the writer's lock excludes a second one."""
        connection = self._connect()
        try:
            with self._translated():
                connection.execute(_MIGRATION_PRAGMA)
            with self.transaction() as transaction, self._translated():
                yield SqliteMigration(transaction, self._clock)
        finally:
            self.close()  # the next connection has the usual settings

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            refuse_network_filesystem(self._path)
            try:
                self._require_place()
                with self._translated():
                    self._connection = self._open()
            except OSError as exc:  # a folder that may not be looked into, a name that is too long
                raise DatabaseUnreachable(f"cannot use {self.place}: {exc.strerror}") from exc
            self._file = _identity(self._path)
        self._require_same_file()
        return self._connection

    def _require_place(self) -> None:
        """Refuse a path that no file can be at; the setting that names it is told."""
        setting = "queue.url" if self.schema == "sqlite_queue" else "database.url"
        if self._path.is_dir():
            raise DatabaseUnreachable(f"{self.place} is a folder; {setting} must name a file")
        # SQLite would wait for ever for the other end of a pipe.
        if self._path.exists() and not self._path.is_file():
            raise DatabaseUnreachable(
                f"{self.place} is a pipe, a socket or a device; {setting} must name a file"
            )
        if not self._path.parent.is_dir():
            raise DatabaseUnreachable(
                f"{self._path.parent} is not there; make the folder or correct {setting}"
            )

    def _require_same_file(self) -> None:
        """Refuse a file that was deleted or replaced: SQLite would go on writing into nowhere."""
        if _identity(self._path) != self._file:
            self.close()
            message = f"{self.place} was deleted or replaced while it was in use"
            raise DatabaseUnreachable(message)

    def _open(self) -> sqlite3.Connection:
        mode = self._mode()
        quoted = (
            str(self._path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        )
        connection = sqlite3.connect(
            f"file:{quoted}?{mode}",
            uri=True,
            isolation_level=None,
            timeout=self._lock_timeout_s,
            check_same_thread=False,
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
            if mode == "mode=rwc":
                self._switch_to_journal(connection)
                for pragma in _PRAGMAS:
                    connection.execute(pragma)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _switch_to_journal(self, connection: sqlite3.Connection) -> None:
        """Turn the write-ahead journal on; wait for others who do the same to a new file."""
        deadline = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as exc:
                busy = exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(_SWITCH_EVERY_S)
            else:
                return

    def _mode(self) -> str:
        """Choose how to open: a reader must not need rights to write."""
        if not self._read_only:
            return "mode=rwc"
        if not self._path.exists():
            raise DatabaseUnreachable(f"there is no database {self.place}")
        return reading_mode(self._path)

    def _acquire_lock(self) -> None:
        try:
            self._lock.acquire(self._lock_timeout_s)
        except OSError as exc:
            raise DatabaseUnusable(
                f"cannot lock {self.place}: {exc.strerror}", code="database_read_only"
            ) from exc
        try:
            self._require_same_file()  # whoever had the lock before may have removed it
        except DatabaseUnreachable:
            self._lock.release()
            raise

    def _roll_back_if_open(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the error that brought us here is raised
                connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _translated(self, *, committing: bool = False) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise from_sqlite(exc, self.place, committing=committing) from exc


class SqliteTransaction:
    """An open transaction on SQLite."""

    def __init__(
        self, connection: sqlite3.Connection, clock: Clock, place: str, schema: str
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._place = place
        self._queries = load_queries(schema)

    def now(self) -> datetime:
        """Return the injected clock's time."""
        return self._clock()

    def select(self, name: str, **params: object) -> Sequence[Row]:
        """Run a named query."""
        query = self._queries[name]
        try:
            return self.connection.execute(query.sql, given_once(query, params)).fetchall()
        except sqlite3.Error as exc:
            raise from_sqlite(exc, self._place) from exc

    def lock(self, name: str, rows: Sequence[object]) -> None:
        """Do nothing: a writing transaction on SQLite excludes all others."""

    def write(self, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        """Run a named statement for every row."""
        if not rows:
            return 0
        query = self._queries[name]
        once = given_once(query, params)
        try:
            cursor = self.connection.executemany(query.sql, [(*once, *row) for row in rows])
        except sqlite3.Error as exc:
            raise from_sqlite(exc, self._place) from exc
        return cursor.rowcount

    def execute(self, name: str, **params: object) -> int:
        """Run a named statement once."""
        query = self._queries[name]
        try:
            return self.connection.execute(query.sql, given_once(query, params)).rowcount
        except sqlite3.Error as exc:
            raise from_sqlite(exc, self._place) from exc


class SqliteMigration:
    """A transaction for the schema."""

    def __init__(self, transaction: SqliteTransaction, clock: Clock) -> None:
        self._connection = transaction.connection
        self._clock = clock
        self._connection.execute(_CREATE_MIGRATIONS)

    def applied(self) -> Sequence[tuple[int, str, str]]:
        """Return what ran here."""
        rows = self._connection.execute(
            "SELECT number, name, sha256 FROM schema_migrations ORDER BY number"
        )
        return [tuple(row) for row in rows]

    def apply(self, number: int, name: str, sha256: str, statements: str) -> None:
        """Run a migration and record it."""
        for statement in split_statements(statements):
            self._connection.execute(statement)
        self._connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, ?, ?)",
            (number, name, sha256, format_instant(self._clock())),
        )


def writers_lock(path: Path) -> FileLock:
    """Return the lock that each writer of the file holds."""
    return FileLock(Path(f"{path}.lock"))


def reading_mode(path: Path) -> str:
    """Return how a file is opened by who only reads it, perhaps on a disk that is only read.

    Without its journal and without rights to make one, the file cannot change under us.
    """
    unused = not Path(f"{path}-wal").exists() and not os.access(path.absolute().parent, os.W_OK)
    return "immutable=1" if unused else "mode=ro"


def split_statements(script: str) -> Iterator[str]:
    """Yield a script's statements, triggers whole; `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def refuse_network_filesystem(path: Path, mounts: str | None = None) -> None:
    """Refuse a file whose file system cannot lock between hosts; `mounts` as in mountinfo."""
    point, kind = filesystem_of(path, mounts)
    if _NETWORK_FILESYSTEMS.fullmatch(kind):
        raise DatabaseUnusable(
            f"{path} lies on {point}, a network file system ({kind})",
            code="database_on_network_filesystem",
        )


def filesystem_of(path: Path, mounts: str | None = None) -> tuple[str, str]:
    """Return where the file's file system is mounted, and its kind; empty if nobody knows."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:  # not Linux: nothing to go by
            return "", ""
    target = str(path.absolute().parent.resolve() / path.name)
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), left.split()[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return best, kind


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells one file from another of the same name; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked twice a transaction: half the cost of Path's
    except OSError:
        return None
    return status.st_dev, status.st_ino


def given_once(query: Query, params: dict[str, object]) -> tuple[object, ...]:
    """Put the parameters that are given once in the statement's order, as SQLite stores them."""
    return tuple([_stored(params[name]) for name in query.once])


def _stored(value: object) -> object:
    if isinstance(value, str | int | None):  # most are
        return value
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, list):
        return orjson.dumps(value).decode()
    return value

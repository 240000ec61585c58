"""Databases in memory for simulated worlds: real statements, no file, and one step back to empty.

Most worlds are played here: connections and prepared statements outlive a world, so that a seed
costs what happens in it. One thread plays, so at most one transaction writes at a time, as the
writer's lock has it on files. Every so many worlds is played on files, with a connection each.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

from tallgrass.bootstrap import queues, stores
from tallgrass.storage.sqlite import SqliteMigration, SqliteTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from tallgrass.clock import Clock

#: More than there are statements: none is prepared twice.
_STATEMENTS_MAX = 2000
_numbers = count(1)


class MemoryFile:
    """What would be one database file; `reset` undoes all that a world did to it."""

    def __init__(self, file: Path) -> None:
        # Shared, so that an oracle looks at it over a connection with views of its own.
        self._name = f"file:simulated-{next(_numbers)}?mode=memory&cache=shared"
        self.connection = self._connect()
        source = sqlite3.connect(file)
        source.backup(self.connection)
        source.close()
        self.connection.row_factory = sqlite3.Row
        self.connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA recursive_triggers = ON")
        self.is_written = False
        self.readers = 0
        self.connection.execute("BEGIN")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._name, uri=True, isolation_level=None, cached_statements=_STATEMENTS_MAX
        )

    def onlooker(self) -> sqlite3.Connection:
        """Open a connection that sees everything and waits for nobody."""
        connection = self._connect()
        connection.execute("PRAGMA read_uncommitted = ON")
        return connection

    def reset(self) -> None:
        """Make it as it was at first; what was prepared stays so."""
        self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN")
        self.is_written = False
        self.readers = 0

    def close(self) -> None:
        """Forget it."""
        self.connection.close()


class RawFile:
    """A look at a file in memory by raw SQL, with plain rows."""

    def __init__(self, file: MemoryFile) -> None:
        self._connection = file.connection

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, parameters)

    def close(self) -> None:
        """Nothing is open: the file outlives the world."""


class MemoryTransaction:
    """A writing transaction: all of it or nothing."""

    def __init__(self, file: MemoryFile, transaction: SqliteTransaction) -> None:
        self._file = file
        self._transaction = transaction

    def __enter__(self) -> SqliteTransaction:
        """Begin as the only writer."""
        file = self._file
        if file.is_written or file.readers:
            raise AssertionError("two transactions at a time")
        file.is_written = True
        file.connection.execute("SAVEPOINT one")
        return self._transaction

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or undo it all."""
        if kind is not None:
            self._file.connection.execute("ROLLBACK TO one")
        self._file.connection.execute("RELEASE one")
        self._file.is_written = False


class MemoryView:
    """A consistent view: nobody may write while it is open."""

    def __init__(self, file: MemoryFile, transaction: SqliteTransaction) -> None:
        self._file = file
        self._transaction = transaction

    def __enter__(self) -> SqliteTransaction:
        """Look."""
        self._file.readers += 1
        return self._transaction

    def __exit__(self, *_error: object) -> None:
        """Look away."""
        self._file.readers -= 1


class MemoryDatabase:
    """A database of the pipeline whose file is in memory."""

    dialect = "sqlite"

    def __init__(self, file: MemoryFile, path: Path, *, clock: Clock, schema: str) -> None:
        self.place = str(path)
        self.schema = schema
        self._clock = clock
        self._memory = file
        self._opened = SqliteTransaction(file.connection, clock, self.place, schema)

    def transaction(self) -> AbstractContextManager[SqliteTransaction]:
        """Begin as the only writer."""
        return MemoryTransaction(self._memory, self._opened)

    def reading(self) -> AbstractContextManager[SqliteTransaction]:
        """Begin a view."""
        return MemoryView(self._memory, self._opened)

    @contextmanager
    def migrating(self) -> Iterator[SqliteMigration]:
        """Begin a transaction for schema changes; there are none to make."""
        with self.transaction() as transaction:
            yield SqliteMigration(transaction, self._clock)

    def close(self) -> None:
        """Nothing is open: the file outlives the world."""


class MemoryFiles:
    """The files of one world after another."""

    def __init__(self, *sources: Path) -> None:
        self._files = {source.name: MemoryFile(source) for source in sources}
        self._patches: list[Any] = []

    def __getitem__(self, name: str) -> MemoryFile:
        """Return the file of that name."""
        return self._files[name]

    def lend(self, folder: Path) -> Self:
        """Let whoever opens a database of these names get it, until it is given back."""
        if self._patches:
            raise AssertionError("one world at a time")
        for name in self._files:
            (folder / name).touch()  # some look whether there is a file
        self._patches = [
            mock.patch.object(module, "SqliteDatabase", self._open) for module in (stores, queues)
        ]
        for patch in self._patches:
            patch.start()
        return self

    def give_back(self) -> None:
        """End a world: all is as it was before."""
        for patch in self._patches:
            patch.stop()
        self._patches = []
        for file in self._files.values():
            file.reset()

    def close(self) -> None:
        """Forget all."""
        for file in self._files.values():
            file.close()

    def _open(
        self, path: Path, *, clock: Clock, schema: str = "sqlite", **_options: Any
    ) -> MemoryDatabase:
        return MemoryDatabase(self._files[path.name], path, clock=clock, schema=schema)

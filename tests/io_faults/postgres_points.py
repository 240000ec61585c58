"""Play the pipeline's life on PostgreSQL, and break its connection at the n-th statement.

A statement counts that the package sends: BEGIN and COMMIT too. The connection breaks before the
server gets it, or when the server has done it and before the client hears of it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tallgrass.errors import TallgrassError
from tallgrass.storage.postgres import PostgresDatabase
from tests.io_faults.faulty_vfs import How
from tests.io_faults.lives import Life, Tally, judge
from tests.io_faults.sqlite_lives import QUEUE, pipeline, prepare, read_state
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tests.io_faults.lives import State, Step

_TABLES = """SELECT c.table_name, c.column_name FROM information_schema.columns AS c
  JOIN information_schema.tables AS t USING (table_schema, table_name)
  WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
    AND NOT starts_with(c.data_type, 'timestamp') AND c.data_type <> 'xid8'
    AND c.column_name <> 'outbox_id'
  ORDER BY c.table_name, c.ordinal_position"""


@dataclass(slots=True)
class Line:
    """Counts statements, and breaks the connection at one."""

    fails_at: int | None = None
    how: How = How.BEFORE
    seen: int = 0
    struck: str | None = None
    #: Connections that were broken; each once.
    broken: list[Any] = field(default_factory=list)

    def execute(self, system: Callable[..., Any], connection: Any, query: Any, *more: Any,
                **keywords: Any) -> Any:  # fmt: skip
        """Run a statement, or break the line around it."""
        number, self.seen = self.seen, self.seen + 1
        if number != self.fails_at:
            return system(query, *more, **keywords)
        self.struck = query if query in {"BEGIN", "COMMIT"} else "statement"
        if self.how is How.AFTER:
            system(query, *more, **keywords)
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        return system(query, *more, **keywords)


@contextlib.contextmanager
def broken_by(line: Line) -> Iterator[Line]:
    """Let the statements of all new connections be counted."""
    connect = PostgresDatabase._connect

    def connected(database: PostgresDatabase) -> Any:
        connection: Any = connect(database)
        if "execute" not in vars(connection):
            connection.execute = partial(line.execute, connection.execute, connection)
        return connection

    with patch.object(PostgresDatabase, "_connect", connected):
        yield line


def state_of(backend: Backend, folder: Path) -> State:
    """Return all rows, and the queue's: what times and ids of the server's own are is left out."""
    found = read_state(folder, QUEUE)
    columns: dict[str, list[str]] = {}
    for table, column in backend.sql(_TABLES):
        columns.setdefault(table, []).append(column)
    for table, names in columns.items():
        rows = backend.sql(f"SELECT {', '.join(names)} FROM {table}")
        found[table] = sorted((_without_times(row) for row in rows), key=repr)
    return found


def _without_times(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out bodies: what runs at another time says so in them."""
    return tuple(bool(value) if isinstance(value, bytes) else value for value in row)


@contextlib.contextmanager
def _steps(folder: Path, backend: Backend) -> Iterator[Sequence[Step]]:
    def expire() -> None:
        backend.sql("UPDATE workers SET expires_at = '2000-01-01T00:00:00Z'")

    with pipeline(folder, units=2, url=backend.url, expire=expire) as steps:
        yield steps


class Servers:
    """Makes databases that were prepared; `create` copies a template, `drop` removes a copy."""

    def __init__(
        self,
        folder: Path,
        template: str,
        create: Callable[[], str],
        drop: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._create = create
        self._drop = drop
        (folder / "first").mkdir(parents=True)
        prepare(folder / "first", template)
        self._numbers = iter(range(1_000_000))

    @contextlib.contextmanager
    def fresh(self) -> Iterator[tuple[Backend, Path]]:
        """Return a database of its own, and a folder with an empty queue."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        backend = Backend("postgres", self._create())
        try:
            yield backend, folder
        finally:
            backend.close()
            self._drop(backend.url)


def every_statement(servers: Servers, hows: Iterable[How], *, every: int = 1) -> Tally:
    """Break the connection at each statement in turn, until the life completes untouched."""
    tally, life = Tally(), Life(name="postgres", prepare=prepare, steps=None, state=None)  # type: ignore[arg-type]
    states: list[State] = []
    with servers.fresh() as (backend, folder), _steps(folder, backend) as steps:
        states.append(state_of(backend, folder))
        for step in steps:
            step()
            states.append(state_of(backend, folder))
    for how in hows:
        number = 0
        while True:
            line = Line(fails_at=number, how=how)
            with servers.fresh() as (backend, folder):
                reported, error = _play(folder, backend, line)
                wrong = judge(life, states, reported, state_of(backend, folder))
            if line.struck is None:
                break
            tally.points[f"{line.struck} {how.value}"] += 1
            place = f"postgres, {how.value} statement {number} ({line.struck})"
            tally.violations += [f"{place}: {text}" for text in (wrong, error) if text]
            number += every
    return tally


def _play(folder: Path, backend: Backend, line: Line) -> tuple[int, str | None]:
    reported = 0
    with broken_by(line):
        try:
            with _steps(folder, backend) as steps:
                for step in steps:
                    step()
                    reported += 1
        except TallgrassError:
            pass
        except Exception as error:  # noqa: BLE001 - what is not ours to raise is a finding
            return reported, f"raised {type(error).__name__}: {error}"
    return reported, None

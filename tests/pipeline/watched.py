"""Databases, queues and readers that tell what is done to them, or break off in the middle."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Crashed(BaseException):
    """The process ends here: nothing of it catches this."""


class CrashAt:
    """Counts steps and ends the process before the given one."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps = 0
        self.name = ""

    def __call__(self, name: str) -> None:
        """Take a step."""
        if self.steps == self.at:
            self.name = name
            raise Crashed(name)
        self.steps += 1


class WatchedDatabase:
    """A database that calls `watch` before each statement and around each COMMIT."""

    def __init__(self, database: Any, watch: Callable[[str], None]) -> None:
        self._database = database
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin a transaction as the database does."""
        self._watch("begin")
        with self._database.transaction() as transaction:
            yield WatchedTransaction(transaction, self._watch)
            self._watch("commit")
        self._watch("committed")


class WatchedTransaction:
    """A transaction that calls `watch` before each statement that does anything."""

    def __init__(self, transaction: Any, watch: Callable[[str], None]) -> None:
        self._transaction = transaction
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def select(self, name: str, **params: object) -> Any:
        """Run a named query."""
        self._watch(name)
        return self._transaction.select(name, **params)

    def write(self, name: str, rows: Sequence[Any], **params: object) -> Any:
        """Run a named statement for every row."""
        if rows:
            self._watch(name)
        return self._transaction.write(name, rows, **params)

    def execute(self, name: str, **params: object) -> Any:
        """Run a named statement once."""
        self._watch(name)
        return self._transaction.execute(name, **params)


class Watched:
    """Anything else, watched before and after the named calls."""

    def __init__(self, inner: Any, watch: Callable[[str], None], *names: str) -> None:
        self._inner = inner
        self._watch = watch
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._watch(name)
            answer = found(*args, **kwargs)
            self._watch(f"{name} done")
            return answer

        return watched

"""A ledger's database that can be watched and twisted: answers changed once, COMMITs lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tallgrass.errors import CommitUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.contract.scene import Scene
    from tests.support.outbox import Outbox

#: What may become of a COMMIT whose answer never came.
LANDED, UNDONE = "landed", "undone"


class _UndoneError(Exception):
    """Rolls a transaction back."""


class Twisted:
    """Stands before the database of a scene's stores."""

    def __init__(
        self,
        scene: Scene | Outbox,
        *,
        statement: str = "",
        change: Callable[[Any], Any] = lambda answer: answer,
        commits: Sequence[str] = (),
    ) -> None:
        """Change the first answer to a statement; let the first transactions end as told."""
        self._real: Any = scene.stores.runner.database
        self._statement = statement
        self._change = change
        self._commits = list(commits)
        self.begun = 0
        #: Names of all statements, in order.
        self.called: list[str] = []
        #: What was locked last, by the statement's name.
        self.locked: dict[str, list[Any]] = {}
        scene.stores.runner.database = self  # type: ignore[assignment]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[TwistedTransaction]:
        """Begin one, and end it as told."""
        self.begun += 1
        fate = self._commits.pop(0) if self._commits else None
        with contextlib.suppress(_UndoneError), self._real.transaction() as transaction:
            yield TwistedTransaction(transaction, self)
            if fate == UNDONE:
                raise _UndoneError
        if fate is not None:
            raise CommitUnknown("the connection broke during COMMIT")

    def answer(self, name: str, given: Any) -> Any:
        """Note a statement; return its answer, or what it is changed into."""
        self.called.append(name)
        if name != self._statement:
            return given
        self._statement = ""
        return self._change(given)


class TwistedTransaction:
    """A transaction whose statements are noted."""

    def __init__(self, transaction: Any, database: Twisted) -> None:
        self._real = transaction
        self._database = database

    def now(self) -> Any:
        """Tell the time."""
        return self._real.now()

    def lock(self, name: str, rows: Sequence[Any]) -> None:
        """Lock rows."""
        self._database.locked[name] = list(rows)
        self._database.answer(name, self._real.lock(name, rows))

    def select(self, name: str, **params: Any) -> Any:
        """Run a query."""
        return self._database.answer(name, self._real.select(name, **params))

    def write(self, name: str, rows: Any, **params: Any) -> Any:
        """Run a statement for every row."""
        return self._database.answer(name, self._real.write(name, rows, **params))

    def execute(self, name: str, **params: Any) -> Any:
        """Run a statement once."""
        return self._database.answer(name, self._real.execute(name, **params))

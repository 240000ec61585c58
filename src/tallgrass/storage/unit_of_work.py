"""The seam between the stores and a database: transactions that run named statements."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from tallgrass.errors import VersionConflict

Row = Mapping[str, Any]


class Transaction(Protocol):
    """One open transaction. Leaving it without an error commits; with one, rolls back."""

    def now(self) -> datetime:
        """Return the time that leases are judged by: the server's, or the injected clock's."""

    def select(self, name: str, **params: object) -> Sequence[Row]:
        """Run a named query. A list given as `rows` reaches SQL as one JSON array."""

    def lock(self, name: str, rows: Sequence[object]) -> None:
        """Lock rows in id order; nothing where the transaction already excludes all writers."""

    def write(self, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        """Run a named statement for every row, as one statement where the database can.

        Return how many rows changed in all.
        """

    def execute(self, name: str, **params: object) -> int:
        """Run a named statement once; return how many rows changed."""


class Database(Protocol):
    """One connection to a database, opened when it is first needed."""

    #: `sqlite` or `postgres`.
    dialect: str
    #: Names the folders of queries and migrations: that of the dialect for the ledger.
    schema: str
    #: Address without credentials, for messages.
    place: str

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that may write."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that only reads; a role with read rights suffices."""

    def migrating(self) -> AbstractContextManager["MigratingTransaction"]:
        """Begin a transaction for schema changes; only one is open in a database at a time."""

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""


class MigratingTransaction(Protocol):
    """A transaction for the schema itself, on a database that may still be empty."""

    def applied(self) -> Sequence[tuple[int, str, str]]:
        """Return (number, name, sha256) of the migrations that ran here, in order."""

    def apply(self, number: int, name: str, sha256: str, statements: str) -> None:
        """Run a migration and record it; both commit together."""


def write_all(
    tx: Transaction, name: str, rows: Sequence[Sequence[object]], **params: object
) -> None:
    """Run a guarded statement for every row; if one is not as it was read, undo the whole batch."""
    changed = tx.write(name, rows, **params)
    if changed != len(rows):
        raise VersionConflict(
            f"{len(rows) - changed} of {len(rows)} records were changed by somebody else"
        )

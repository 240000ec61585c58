"""Fail each statement of each verb in turn: the ledger stays as it was."""

from __future__ import annotations

import contextlib
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import CommitUnknown, DatabaseUnreachable
from tests.support.builders import failure, success, units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.ledger.claim import Claim, WorkerLease
    from tests.support.backends import Backend

    Verb = Callable[[Stores, WorkerLease, list[Claim]], object]

TABLES = ("wal_records", "wal_attempts", "wal_transitions", "workers", "audit_log")
STATEMENTS = frozenset({"select", "lock", "write", "execute", "now"})


class FailingDatabase:
    """A database whose n-th statement breaks the connection, before or after it ran."""

    def __init__(self, database: Any, fails_at: int, *, after: bool) -> None:
        self._database = database
        self._left = fails_at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[FailingTransaction]:
        """Begin a transaction whose statements are counted."""
        with self._database.transaction() as transaction:
            yield FailingTransaction(transaction, self)

    def run(self, statement: Callable[..., Any], *arguments: Any, **params: Any) -> Any:
        """Run a statement, or fail in its place."""
        self._left -= 1
        result = statement(*arguments, **params) if self._left or self._after else None
        if not self._left:
            raise DatabaseUnreachable("the connection broke")
        return result


class FailingTransaction:
    """Counts the statements of a transaction."""

    def __init__(self, transaction: Any, database: FailingDatabase) -> None:
        self._transaction = transaction
        self._database = database

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._transaction, name)
        if name not in STATEMENTS:
            return found
        return lambda *arguments, **params: self._database.run(found, *arguments, **params)


def state(backend: Backend) -> list[list[tuple[Any, ...]]]:
    """Return everything that the verbs may write."""
    return [sorted(backend.sql(f"SELECT * FROM {table}"), key=str) for table in TABLES]


def announce(stores: Stores, worker: WorkerLease, claims: list[Claim]) -> object:
    """Announce units 4 to 9: four are held, two are new."""
    return stores.ledger.record_and_claim(worker, units(6, first=4))


def close(stores: Stores, worker: WorkerLease, claims: list[Claim]) -> object:
    """Report every kind of outcome at once."""
    reports = [
        success(claims[0]),
        success(claims[1]),
        failure(claims[2]),
        failure(claims[3], "handed_back"),
        failure(claims[4], "governance_hard_fail"),
    ]
    return stores.ledger.commit(worker, reports)


def recover(stores: Stores, worker: WorkerLease, claims: list[Claim]) -> object:
    """Free what expired workers held."""
    return stores.leases.recover()


def stop(stores: Stores, worker: WorkerLease, claims: list[Claim]) -> object:
    """End the worker in good order."""
    return stores.leases.stop(worker)


def take_due(stores: Stores, worker: WorkerLease, claims: list[Claim]) -> object:
    """Claim what is due."""
    return stores.ledger.claim_due(worker, 10)


#: Each verb with the number of units that it leaves in each status, counted by hand.
VERBS: dict[str, tuple[Verb, dict[str, int]]] = {
    "record_and_claim": (announce, {"in_progress": 10, "pending": 3}),
    "claim_due": (take_due, {"in_progress": 11}),
    "commit": (
        close,
        {"succeeded": 2, "failed": 1, "pending": 4, "quarantined": 1, "in_progress": 3},
    ),
    "recover": (recover, {"pending": 11}),
    "stop": (stop, {"pending": 11}),
}


def scene(backend: Backend, verb: str) -> tuple[Stores, WorkerLease, list[Claim]]:
    """Eight units held by one worker, and three more that are due."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)
    receipts = stores.ledger.record_and_claim(worker, [*units(8), *units(3, first=100)])
    claims = [receipt.claim for receipt in receipts if receipt.claim]
    stores.ledger.commit(worker, [failure(claim, "handed_back") for claim in claims[8:]])
    if verb == "recover":
        backend.expire(worker)
    return stores, worker, claims


@pytest.mark.conformance("SM-2.2c")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_at_any_statement_tears_nothing(backend: Backend, verb: str, moment: str) -> None:
    """Whichever statement of a verb fails, nothing of it is written; without one, all of it."""
    act, expected = VERBS[verb]
    stores, worker, claims = scene(backend, verb)
    before = state(backend)
    database = stores.database
    for fails_at in count(1):
        assert fails_at < 100
        failing = FailingDatabase(database, fails_at, after=moment == "after")
        stores.runner.database = failing
        try:
            act(stores, worker, claims)
        except DatabaseUnreachable:
            assert state(backend) == before, f"statement {fails_at} left something"
        else:
            break
    # A verb has at least its fence, its reads and its writes.
    assert fails_at >= 6
    found = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status")
    assert dict(found) == expected


class Undone(Exception):
    """Rolls a transaction back."""


class LosingDatabase:
    """A database that loses every other COMMIT with its connection: never landed, never known."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._begun = 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin; of the first, third and so on nothing lands."""
        self._begun += 1
        loses = self._begun % 2 == 1
        with contextlib.suppress(Undone), self._database.transaction() as transaction:
            yield transaction
            if loses:
                raise Undone
        if loses:
            raise CommitUnknown("the connection broke during COMMIT")


def test_a_commit_that_is_lost_each_time_ends_with_its_name(backend: Backend) -> None:
    """A batch that never lands is not tried for ever: the caller gets the error, not a crash."""
    stores, worker, claims = scene(backend, "commit")
    before = state(backend)
    stores.runner.database = LosingDatabase(stores.database)  # type: ignore[assignment]
    stores.runner._sleep = lambda _: None
    with pytest.raises(CommitUnknown) as caught:
        close(stores, worker, claims)
    assert caught.value.code == "commit_unknown"
    assert state(backend) == before

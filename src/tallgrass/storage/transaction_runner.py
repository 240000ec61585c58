"""Runs a unit of work until it is known to be in the database, or known not to be."""

import time
from collections.abc import Callable
from typing import TypeVar

from tallgrass.errors import (
    CommitUnknown,
    DatabaseLocked,
    DatabaseUnreachable,
    TransactionConflict,
)
from tallgrass.retry import Backoff
from tallgrass.storage.unit_of_work import Database, Transaction

Result = TypeVar("Result")

#: Deadlocks and races are rare and short; whoever loses this often meets something else.
CONFLICT_TRIES = 10
#: A database that restarts is back within seconds.
SETTLE_TRIES = 12

_CONFLICT_BACKOFF = Backoff(base_s=0.01, cap_s=0.5)
_SETTLE_BACKOFF = Backoff(base_s=0.2, cap_s=5.0)


class TransactionRunner:
    """Runs work in one transaction: the whole of it, again after a conflict, never half of it."""

    def __init__(
        self,
        database: Database,
        *,
        random: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.database = database
        self._random = random
        self._sleep = sleep

    def run(
        self,
        work: Callable[[Transaction], Result],
        landed: Callable[[Transaction, Result], bool] | None = None,
    ) -> Result:
        """Run `work` and commit it.

        If the connection breaks during COMMIT, `landed` asks the database whether the work is in
        it; without `landed` the work must be harmless to repeat and the error is raised.
        """
        for failures in range(1, CONFLICT_TRIES + 1):
            result: Result | None = None
            try:
                with self.database.transaction() as transaction:
                    result = work(transaction)
            except TransactionConflict:
                if failures == CONFLICT_TRIES:
                    raise
                self._sleep(_CONFLICT_BACKOFF.delay_s(failures, self._random))
            except CommitUnknown as unknown:
                if landed is None or result is None:
                    raise
                if self._settle(landed, result, unknown):
                    return result
                if failures == CONFLICT_TRIES:
                    raise
            else:
                return result
        raise AssertionError  # the loop returns or raises

    def _settle(
        self,
        landed: Callable[[Transaction, Result], bool],
        result: Result,
        unknown: CommitUnknown,
    ) -> bool:
        """Ask until the database answers; after the last try the question stays open."""
        for failures in range(1, SETTLE_TRIES + 1):
            self._sleep(_SETTLE_BACKOFF.delay_s(failures, self._random))
            try:
                # One that may lock: the lost COMMIT may still be under way on the server.
                with self.database.transaction() as transaction:
                    answer = landed(transaction, result)
            except (CommitUnknown, DatabaseLocked, DatabaseUnreachable):
                continue
            return answer
        raise unknown

"""What the child processes of tests do: `python -m tests.support.process_roles ROLE ARGUMENTS`.

A role that many play at once forks its players, so that the modules are loaded once.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.errors import TallgrassError
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata
from tallgrass.storage.migrations import migrate
from tests.support.backends import NO_BACKOFF, Backend
from tests.support.builders import EVENT_TIME, failure, success, unit, units, verdicts
from tests.support.outbox_roles import OUTBOX_ROLES
from tests.support.processes import MEETING_S_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.ledger.claim import Claim, WorkerLease
    from tallgrass.ledger.unit import IngestUnit
    from tallgrass.storage.unit_of_work import Transaction


class PausingDatabase:
    """A database that stops to ask right before each COMMIT."""

    def __init__(self, database: Any, before_commit: Callable[[], None]) -> None:
        self._database = database
        self._before_commit = before_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction as the database does, and pause when its work is done."""
        with self._database.transaction() as transaction:
            yield transaction
            self._before_commit()


def announce(**values: object) -> None:
    """Tell the test something."""
    print(json.dumps(values), flush=True)  # noqa: T201 - stdout is how a child talks


def numbered(unit_: IngestUnit) -> int:
    """Return the number that `builders.unit` was given."""
    return int(unit_.object_uri[-9:-3])


def _open(name: str, url: str, max_attempts: int = 8) -> Stores:
    return Backend(name, url).open(LedgerRules(backoff=NO_BACKOFF, max_attempts=max_attempts))


def _claims(stores: Stores, worker: WorkerLease, batch: Sequence[IngestUnit]) -> list[Claim]:
    receipts = stores.ledger.record_and_claim(worker, batch)
    return [receipt.claim for receipt in receipts if receipt.claim]


def _crowd(count: int, player: Callable[[int], None]) -> None:
    """Play in `count` forked processes; each must end well."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=player, args=(index,)) for index in range(count)]
    for process in processes:
        process.start()
    running: dict[Any, Any] = {process.sentinel: process for process in processes}
    while running:
        for sentinel in multiprocessing.connection.wait(list(running)):
            ended = running.pop(sentinel)
            ended.join()
            if ended.exitcode:
                # The others would wait for what the dead one holds.
                for other in running.values():
                    other.kill()
                raise SystemExit(f"a process ended with {ended.exitcode}")


def pausing(labels: Sequence[str]) -> Callable[[str], None]:
    """Return what says that a step is reached and waits, the first time at each of these."""
    left = set(labels)

    def step(label: str) -> None:
        if label in left:
            left.remove(label)
            announce(step=label)
            sys.stdin.readline()

    return step


def _writer(log: str, index: int) -> Any:
    return (Path(log) / f"{index}.jsonl").open("w", encoding="utf-8")


def _note(file: Any, **values: object) -> None:
    file.write(json.dumps(values, separators=(",", ":")) + "\n")


# --- roles ----------------------------------------------------------------------------------------


def step_by_step(
    *, name: str, url: str, count: int, pause_at: Sequence[str], worker_id: str, lease_s: float
) -> None:
    """Take units from the announcement to the outcome, and pause where the test wants to act."""
    step = pausing(pause_at)
    stores = _open(name, url)
    worker = stores.leases.register(worker_id, ingest_run_id="run", lease_s=lease_s)
    announce(step="began", incarnation=worker.incarnation)
    step("registered")
    here = {"label": "inside_claim"}
    stores.runner.database = PausingDatabase(stores.database, lambda: step(here["label"]))
    try:
        claims = _claims(stores, worker, units(count))
        step("claimed")
        here["label"] = "inside_commit"
        result = stores.ledger.commit(worker, [success(claim) for claim in claims])
        step("committed")
    except TallgrassError as error:
        announce(error=error.code)
    else:
        announce(applied=len(result.closed), lost=len(result.lost))


def meets_killer(*, name: str, url: str, count: int, killer: int, max_attempts: int) -> None:
    """Work as long as units are due; the unit `killer` ends the process that works on it."""
    stores = _open(name, url, max_attempts)
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    announce(step="began", incarnation=worker.incarnation)
    stores.leases.recover()
    claims = _claims(stores, worker, units(count)) or list(stores.ledger.claim_due(worker, count))
    while claims:
        if any(numbered(claim.unit) == killer for claim in claims):
            os.kill(os.getpid(), signal.SIGKILL)
        stores.ledger.commit(worker, [success(claim) for claim in claims])
        claims = list(stores.ledger.claim_due(worker, count))


def migrates(*, name: str, url: str, processes: int) -> None:
    """Migrate one database from several processes at the same moment."""
    barrier = multiprocessing.get_context("fork").Barrier(processes)

    def player(_: int) -> None:
        stores = _open(name, url)
        barrier.wait(MEETING_S_MAX)
        migrate(stores.database)

    _crowd(processes, player)


def holds_lock(*, path: str) -> None:
    """Hold the write lock of a SQLite file as another program would, until told to go on."""
    import sqlite3  # noqa: PLC0415 - this role alone is a stranger to the package

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    announce(step="locked")
    sys.stdin.readline()


def swarm(*, name: str, url: str, log: str, processes: int, unit_count: int, batch: int) -> None:
    """Let processes fight over the same units until each unit is done.

    Unit n needs 1 + n mod 3 attempts: the earlier ones fail. Even units have no message, so the
    ledger itself retries them; the others come by announcement again.
    """
    done = multiprocessing.get_context("fork").RawArray("b", unit_count)

    def player(index: int) -> None:
        with _writer(log, index) as file:
            _Fighter(_open(name, url), index, file, done, batch).run()

    _crowd(processes, player)


class _Fighter:
    """One process of the swarm. It holds one batch while it claims the next: holders overlap."""

    def __init__(self, stores: Stores, index: int, file: Any, done: Any, batch: int) -> None:
        self._stores = stores
        self._worker = stores.leases.register(f"w{index}", ingest_run_id="run", lease_s=600)
        self._file = file
        #: Flags of all units, shared by all processes: nobody announces a unit that is done.
        self._done = done
        self._batch = batch
        self._random = random.Random(index)
        self._first = 0

    def run(self) -> None:
        """Claim, then close what was claimed before, until all is done."""
        held: list[tuple[Claim, int]] = []
        while window := self._window():
            claims = self._due() if self._random.random() < 0.3 else self._announced(window)
            instant = time.monotonic_ns()
            self._close(held)
            held = [(claim, instant) for claim in claims]
        self._close(held)

    def _window(self) -> list[int]:
        """Return the first units that are not done: all processes fight over these."""
        while self._first < len(self._done) and self._done[self._first]:
            self._first += 1
        last = min(len(self._done), self._first + 24 * self._batch)
        return [number for number in range(self._first, last) if not self._done[number]]

    def _announced(self, window: list[int]) -> list[Claim]:
        wanted = self._random.sample(window, min(len(window), self._batch))
        return _claims(self._stores, self._worker, [swarm_unit(number) for number in wanted])

    def _due(self) -> list[Claim]:
        return list(self._stores.ledger.claim_due(self._worker, self._batch))

    def _close(self, held: list[tuple[Claim, int]]) -> None:
        if not held:
            return
        outcomes = [
            success(claim) if claim.attempt_no > numbered(claim.unit) % 3 else failure(claim)
            for claim, _ in held
        ]
        instant = time.monotonic_ns()
        made = verdicts(self._stores.ledger.commit(self._worker, outcomes))
        for claim, claimed in held:
            _note(
                self._file,
                wal_id=claim.wal_id,
                attempt_no=claim.attempt_no,
                claimed=claimed,
                closed=instant,
                verdict=made.get(claim.wal_id, "lost"),
            )
            # Never taken back: another process may have done the unit since this attempt failed.
            if made.get(claim.wal_id) == "succeeded":
                self._done[numbered(claim.unit)] = True


def swarm_unit(number: int) -> IngestUnit:
    """Return a unit of the swarm; an even one has no queue message behind it."""
    message = f"sqs-{number}" if number % 2 else None
    return unit(number, event=EventMetadata(event_time=EVENT_TIME, sqs_message_id=message))


def double_claim(*, name: str, url: str, log: str, processes: int, rounds: int) -> None:
    """Let processes announce the same unit at the same moment, round after round.

    A third of the units is new to the ledger, a third is pending and due, a third failed.
    """
    stores = _open(name, url)
    worker = stores.leases.register("before", ingest_run_id="run", lease_s=600)
    known = [unit(number) for number in range(rounds) if number % 3]
    outcomes = [
        failure(claim, "handed_back" if numbered(claim.unit) % 3 == 1 else "io_error")
        for claim in _claims(stores, worker, known)
    ]
    stores.ledger.commit(worker, outcomes)
    stores.close()
    barrier = multiprocessing.get_context("fork").Barrier(processes)

    def player(index: int) -> None:
        mine = _open(name, url)
        me = mine.leases.register(f"w{index}", ingest_run_id="run", lease_s=600)
        with _writer(log, index) as file:
            for number in range(rounds):
                barrier.wait(MEETING_S_MAX)
                claims = _claims(mine, me, [unit(number)])
                _note(file, round=number, won=len(claims), player=index)

    _crowd(processes, player)


def rescue_race(*, name: str, url: str, log: str, rounds: int, rival: str) -> None:
    """Let a rescuer meet a rival over one expired worker: another rescuer, or the worker itself."""
    barrier = multiprocessing.get_context("fork").Barrier(2)

    def rescuer() -> None:
        stores = _open(name, url)
        with _writer(log, 1) as file:
            for number in range(rounds):
                barrier.wait(MEETING_S_MAX)
                _note(file, round=number, won=len(stores.leases.recover().units), rescuer=True)
                barrier.wait(MEETING_S_MAX)

    def holder() -> None:
        stores = _open(name, url)
        backend = Backend(name, url)
        with _writer(log, 0) as file:
            for number in range(rounds):
                worker = stores.leases.register("w", ingest_run_id="run", lease_s=600)
                claims = _claims(stores, worker, [unit(number)])
                backend.expire(worker)
                barrier.wait(MEETING_S_MAX)
                won = _RIVALS[rival](stores, worker, claims)
                _note(file, round=number, won=won, rescuer=False)
                barrier.wait(MEETING_S_MAX)

    _crowd(2, lambda index: rescuer() if index else holder())


def _commits(stores: Stores, worker: WorkerLease, claims: Sequence[Claim]) -> int:
    try:
        return len(stores.ledger.commit(worker, [success(claim) for claim in claims]).closed)
    except TallgrassError as error:
        return _refused(error)


def _renews(stores: Stores, worker: WorkerLease, claims: Sequence[Claim]) -> int:
    try:
        stores.leases.renew(worker)
    except TallgrassError as error:
        return _refused(error)
    return 1


def _refused(error: TallgrassError) -> int:
    if error.code != "worker_fenced":
        raise error
    return 0


_RIVALS: dict[str, Callable[[Stores, WorkerLease, Sequence[Claim]], int]] = {
    "commit": _commits,
    "heartbeat": _renews,
    "rescuer": lambda stores, _worker, _claims: len(stores.leases.recover().units),
}

_ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role
    for role in (
        double_claim,
        holds_lock,
        meets_killer,
        migrates,
        rescue_race,
        step_by_step,
        swarm,
    )
} | {role.__name__: role for role in OUTBOX_ROLES}

if __name__ == "__main__":
    _ROLES[sys.argv[1]](**json.loads(sys.argv[2]))

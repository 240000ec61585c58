"""Bugs that somebody might write, to be planted one at a time: the simulator must find each.

Each says what is wrong and which finding tells of it. `seed` is one that finds it;
`make simulate-bugs` looks for another, from a random seed on.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from tallgrass import worker
from tallgrass.bootstrap import replay_preparing
from tallgrass.governance import gate
from tallgrass.ledger import receipt
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.rules import LedgerRules
from tallgrass.queues import acknowledgement
from tallgrass.replay.drain import Drain
from tallgrass.storage import interventions, leases, ledger, switch_store
from tallgrass.storage.closing import Closing
from tallgrass.storage.drain_store import DrainStore
from tallgrass.storage.ledger import Ledger
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.poison_store import PoisonStore
from tallgrass.storage.postgres import PostgresTransaction
from tallgrass.storage.sqlite import SqliteTransaction
from tallgrass.storage.transaction_runner import TransactionRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tallgrass.storage.unit_of_work import Row


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug, how it is planted, and what is said where it was found."""

    name: str
    #: Part of what the simulator says of it.
    found_as: str
    plant: Callable[[], AbstractContextManager[Any]]
    #: A seed that finds it.
    seed: int


# --- how bugs are planted ------------------------------------------------------------------------


@contextmanager
def sql(name: str, find: str, instead: str, schema: str = "sqlite") -> Iterator[None]:
    """Let a named statement say something else."""
    queries = load_queries(schema)
    real = queries[name]
    if find not in real.sql:
        raise AssertionError(f"{name} does not say {find!r}")
    with mock.patch.dict(queries, {name: replace(real, sql=real.sql.replace(find, instead))}):
        yield


@contextmanager
def unwritten(*names: str) -> Iterator[None]:
    """Let statements be forgotten; whoever counts rows is told that all is well."""
    with ExitStack() as patches:
        for transaction in (SqliteTransaction, PostgresTransaction):
            instead = _forgetful(transaction.write, names)
            patches.enter_context(mock.patch.object(transaction, "write", instead))
        yield


def _forgetful(real: Callable[..., int], names: Sequence[str]) -> Callable[..., int]:
    def write(self: Any, name: str, rows: Sequence[Sequence[object]], **params: object) -> int:
        return len(rows) if name in names else real(self, name, rows, **params)

    return write


def code(where: Any, name: str, instead: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Let a function do something else."""
    return partial(mock.patch.object, where, name, instead)


# --- what is wrong -------------------------------------------------------------------------------

_record_and_claim = worker.Worker.record_and_claim
_write = Closing.write
_take = Drain._take
_select = SqliteTransaction.select
_sort_out = interventions._sort_out


def _acknowledges_before_the_commit(self: Any, batch: Any) -> None:
    _record_and_claim(self, batch)
    if self._queue is not None:
        self._queue.delete([message.receipt for message in batch.messages])


def _effects_first(self: Any, worker: Any, outcomes: Any, effects: Any) -> Any:
    """Write effects in a transaction of their own, then the outcomes."""
    closing = Closing(
        outcomes, self._rules, self._random, commit_id="x", effects=effects, catalog=self._catalog
    )
    self._runner.run(lambda tx: self._catalog.write(tx, closing._staged(closing._closes), tx.now()))
    return _commit(self, worker, outcomes, {})


def _effects_afterwards(self: Any, worker: Any, outcomes: Any, effects: Any) -> Any:
    """Write the outcomes, then effects in a transaction of their own."""
    closing = Closing(
        outcomes, self._rules, self._random, commit_id="x", effects=effects, catalog=self._catalog
    )
    result = _commit(self, worker, outcomes, {})
    self._runner.run(lambda tx: self._catalog.write(tx, closing._staged(closing._closes), tx.now()))
    return result


_commit = Ledger.commit


def _polls_by_id(self: SqliteTransaction, name: str, **params: object) -> Sequence[Row]:
    """Look only for events with a greater id than the last that was taken."""
    rows = _select(self, name, **params)
    if name not in {"due_deliveries", "due_heads"}:
        return rows
    cursor = _cursors.get(self._clock, "")
    rows = [row for row in rows if row["outbox_id"] > cursor]
    _cursors[self._clock] = max([cursor, *(row["outbox_id"] for row in rows)])
    return rows


_cursors: dict[Any, str] = {}


@contextmanager
def _polling_by_id() -> Iterator[None]:
    _cursors.clear()
    with mock.patch.object(SqliteTransaction, "select", _polls_by_id):
        yield


def _deletes_letters_first(self: Any, run: Any, taken: Any) -> None:
    """Delete letters, then send their messages."""
    self._place.delete([each.letter.receipt for each in taken])
    _take(self, run, taken)


def _lets_a_failure_go(claim: Any, closed: Any) -> float | None:
    """Let a message go whose unit failed."""
    if closed is not None and closed.verdict is Verdict.FAILED:
        return None
    return _wish_of_claim(claim, closed)


_wish_of_claim = acknowledgement.wish_of_claim
_wish_of_decision = acknowledgement.wish_of_decision


def _does_not_wait(decision: Any) -> float | None:
    """Let a message go whose unit somebody else works on."""
    if decision.action is receipt.Action.WAIT:
        return None
    return _wish_of_decision(decision)


def _never(*_given: Any, **_named: Any) -> None:
    """Forget to do it."""


def _believes(*_given: Any, **_named: Any) -> bool:
    return True


def _zero(*_given: Any, **_named: Any) -> int:
    return 0


@contextmanager
def _needing_no_approval() -> Iterator[None]:
    """Let neither the order nor the gate ask for one."""
    with (
        mock.patch.object(replay_preparing, "approvals_needed", _zero),
        mock.patch.object(gate, "approvals_needed", _zero),
    ):
        yield


def _whatever_version(versions: dict[str, int], found: dict[str, Any]) -> Any:
    told = {wal_id: known.version for wal_id, known in found.items()}
    return _sort_out({**versions, **told}, found)


BUGS = (
    Bug(
        name="a message is acknowledged before the commit",
        found_as="leaves, but",
        plant=code(worker.Worker, "record_and_claim", _acknowledges_before_the_commit),
        seed=1,
    ),
    Bug(
        name="effects are written before the outcome, in a transaction of their own",
        found_as="an item without a success",
        plant=code(Ledger, "commit", _effects_first),
        seed=15,
    ),
    Bug(
        name="the outcome is written before its effects, in a transaction of its own",
        found_as="which was not open before",
        plant=code(Ledger, "commit", _effects_afterwards),
        seed=1,
    ),
    Bug(
        name="events are polled by id, not by when they are due",
        found_as="not at its end",
        plant=_polling_by_id,
        seed=2,
    ),
    Bug(
        name="a fenced worker goes on claiming",
        found_as="an open attempt of a worker that is gone",
        plant=code(ledger, "require_unfenced", _never),
        seed=16,
    ),
    Bug(
        name="a lost worker is never fenced",
        found_as="is open since",
        plant=partial(sql, "fence_expired", "expires_at <= ?1", "expires_at <= ?1 AND 0"),
        seed=7,
    ),
    Bug(
        name="units of a lost worker are not freed",
        found_as="an open attempt of a worker that is gone",
        plant=partial(sql, "abandoned_attempts", "a.status = 'pending'", "a.status = 'x'"),
        seed=7,
    ),
    Bug(
        name="a worker that stops keeps what it holds",
        found_as="is open since",
        plant=code(leases.Leases, "_hand_back", lambda *_given: ()),
        seed=23,
    ),
    Bug(
        name="what a failed batch held is not handed back",
        found_as="is open since",
        plant=code(leases.Leases, "hand_back", lambda *_given, **_told: ()),
        seed=23,
    ),
    Bug(
        name="a unit has no limit of attempts",
        found_as="not at its end",
        plant=code(LedgerRules, "max_attempts_of", lambda *_given: 10**9),
        seed=3,
    ),
    Bug(
        name="finished units are replayed without an approval",
        found_as="without an approval",
        plant=_needing_no_approval,
        seed=16,
    ),
    Bug(
        name="a dead letter is removed before its message is sent",
        found_as="dead_letters_are_failures",
        plant=code(Drain, "_take", _deletes_letters_first),
        seed=1,
    ),
    Bug(
        name="a unit that was seen before is not recognised",
        found_as="a record is never replaced",
        plant=partial(
            sql,
            "known_objects",
            "LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id;",
            "LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id WHERE r.status <> 'succeeded';",
        ),
        seed=1,
    ),
    Bug(
        name="the result of a late dispatcher overwrites another's",
        found_as="outbox_attempts is append-only",
        plant=partial(
            sql, "deliver_rows", " AND attempt = ?3 AND claimed_by = ?2", " AND ?3 AND ?2 <> ''"
        ),
        seed=5,
    ),
    Bug(
        name="retention takes events that were not delivered",
        found_as="the retainer died of",
        plant=partial(sql, "archivable_events", "d.status = 'dispatched' AND", ""),
        seed=22,
    ),
    Bug(
        name="retention takes the last attempt of a unit",
        found_as="the retainer died of",
        plant=partial(
            sql,
            "archivable_attempts",
            "AND a.attempt_no < r.attempts AND a.attempt_no IS NOT r.applied_attempt",
            "",
        ),
        seed=21,
    ),
    Bug(
        name="poison is not stored",
        found_as="is poison and was not stored",
        plant=code(PoisonStore, "put", _never),
        seed=2,
    ),
    Bug(
        name="the message of a failed unit is deleted",
        found_as="leaves, but",
        plant=code(acknowledgement, "wish_of_claim", _lets_a_failure_go),
        seed=1,
    ),
    Bug(
        name="the message of a unit that somebody else works on is deleted",
        found_as="units_met_their_fate",
        plant=code(acknowledgement, "wish_of_decision", _does_not_wait),
        seed=32,
    ),
    Bug(
        name="recovery is not journaled",
        found_as="a version that history does not tell",
        plant=partial(unwritten, "insert_transitions"),
        seed=1,
    ),
    Bug(
        name="a parked unit is never due",
        found_as="pending and never due",
        plant=partial(sql, "reset_records", "due_at = ?6", "due_at = NULL"),
        seed=3,
    ),
    Bug(
        name="a delivery's attempt is not written down",
        found_as="attempts of a delivery miscounted",
        plant=partial(unwritten, "insert_delivery_attempts"),
        seed=1,
    ),
    Bug(
        name="an attempt of a lost dispatcher is not written down",
        found_as="attempts of a delivery miscounted",
        plant=partial(unwritten, "insert_lost_attempts"),
        seed=2,
    ),
    Bug(
        name="a commit whose answer was lost counts as undone",
        found_as="VersionConflict",
        plant=code(TransactionRunner, "_settle", lambda *_given: False),
        seed=15,
    ),
    Bug(
        name="a re-run's provenance is forgotten",
        found_as="an applied attempt without provenance",
        plant=partial(unwritten, "insert_provenance"),
        seed=1,
    ),
    Bug(
        name="an event is not written with its item",
        found_as="effects_are_complete",
        plant=partial(unwritten, "insert_events"),
        seed=1,
    ),
    Bug(
        name="an item stays as it was when its object was overwritten",
        found_as="items_are_owned",
        plant=partial(unwritten, "update_items"),
        seed=5,
    ),
    Bug(
        name="an event that is asked for again counts its attempts anew",
        found_as="the operator died of",
        plant=partial(
            sql, "requeue_deliveries", "budget_from = attempt", "budget_from = 0, attempt = 0"
        ),
        seed=50,
    ),
    Bug(
        name="a message that was received too often is thrown away",
        found_as="dead_letters_are_failures",
        plant=partial(sql, "insert_dead_letters", "m.position = ?2", "?2 < 0", "sqlite_queue"),
        seed=1,
    ),
    Bug(
        name="an object that arrives late and older replaces the newer",
        found_as="units_met_their_fate",
        plant=code(ledger, "compare_objects", lambda *_given: ObjectOrder.NEWER),
        seed=3,
    ),
    Bug(
        name="a drain does not write down what it does with letters",
        found_as="died of",
        plant=code(DrainStore, "record", lambda *_given: []),
        seed=1,
    ),
    Bug(
        name="somebody who was let go still has a say",
        found_as="was let go, and turned a switch",
        plant=code(switch_store, "require_acting", lambda *_given: {}),
        seed=5,
    ),
    Bug(
        name="a commit whose answer was lost counts as done",
        found_as="leaves, but",
        plant=code(TransactionRunner, "_settle", _believes),
        seed=24,
    ),
    Bug(
        name="a unit that is let out of quarantine is never due",
        found_as="pending and never due",
        plant=partial(sql, "release_records", "due_at = ?1", "due_at = NULL"),
        seed=2,
    ),
    Bug(
        name="an operator holds a unit that has moved on",
        found_as="late) ended as",
        plant=code(interventions, "_sort_out", _whatever_version),
        seed=34,
    ),
)

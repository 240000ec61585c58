"""The whole machine against a model: random verbs, and after each one the tables themselves."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tallgrass.errors import WorkerFenced
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit, ObjectReference
from tallgrass.retry import Backoff
from tests.model.ledger_model import CODES, LEGAL, MAX_ATTEMPTS, Model, Unit, exhausted, explains
from tests.support.backends import NO_BACKOFF, Backend, ManualClock, prepare, read_rows
from tests.support.builders import failure, success, unit
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.ledger.claim import Claim, WorkerLease
    from tests.plugins.postgres import Databases

LEASE_S = 60.0
BACKOFF_S = 8.0
EPOCH = ManualClock().instant
DATASETS = ("goes-glm", "goes-glm", "mrms", "mrms")

numbers = st.integers(0, len(DATASETS) - 1)
workers = st.sampled_from(["a", "b"])
objects = st.sampled_from(["same", "newer", "older", "incomparable"])
outcomes = st.sampled_from(["success", "success", *CODES])

STATES = (
    "SELECT wal_id, status, version, attempts, budget_from, last_error_code, due_at, retry_after,"
    " rerun_intent, lease_expiries, applied_attempt, replay_reason, stac_status,"
    " provenance_status, integrity_status, metadata_status FROM wal_records"
)


def announced(number: int, order: int | None) -> IngestUnit:
    """Return the unit with an object of a given order; without one nothing can be compared."""
    sequencer = None if order is None else f"{order:018X}"
    return unit(number, dataset=DATASETS[number], object_ref=ObjectReference(sequencer=sequencer))


IDS = {number: announced(number, None).wal_id for number in range(len(DATASETS))}


class LedgerMachine(RuleBasedStateMachine):
    """Two logical workers, four units, one clock."""

    def __init__(self, make: Callable[[], Backend], dispose: Callable[[Backend], None]) -> None:
        super().__init__()
        self.backend = make()
        self.dispose = dispose
        self.own_clock = self.backend.name == "sqlite"
        self.clock = ManualClock()
        backoff = Backoff(base_s=BACKOFF_S, cap_s=BACKOFF_S * 8) if self.own_clock else NO_BACKOFF
        self.stores = self.backend.open(
            LedgerRules(max_attempts=MAX_ATTEMPTS, backoff=backoff),
            clock=self.clock,
            draw=lambda: 0.5 if self.own_clock else 0.0,
        )
        self.raw = self.backend.connect()
        self.model = Model(backoff_s=BACKOFF_S if self.own_clock else 0.0)
        self.order = 1000
        self.workers: dict[str, WorkerLease] = {}
        self.claims: dict[str, tuple[WorkerLease, Claim]] = {}
        self.dead: list[tuple[WorkerLease, Claim]] = []
        self.applied: dict[tuple[str, int], dict[str, Any]] = {}
        self.terminal: dict[str, str] = {}
        for name in ("a", "b"):
            self.start(name)

    def teardown(self) -> None:
        """Give the database back."""
        self.stores.close()
        self.dispose(self.backend)

    def start(self, name: str) -> None:
        """Begin a new process of a logical name."""
        lease_s = LEASE_S if self.own_clock else 3600.0
        worker = self.stores.leases.register(name, ingest_run_id="run", lease_s=lease_s)
        self.workers[name] = worker
        self.model.leases[worker.incarnation] = self.model.now + LEASE_S

    def rows(self, statement: str, *params: object) -> list[dict[str, Any]]:
        """Ask the tables, past the stores."""
        return read_rows(self.raw, statement, *params)

    def bury(self, ended: set[str]) -> None:
        """Forget processes that ended; their claims are zombies from now on."""
        for wal_id, (worker, claim) in list(self.claims.items()):
            if worker.incarnation in ended:
                del self.claims[wal_id]
                self.dead.append((worker, claim))
        for name, worker in list(self.workers.items()):
            if worker.incarnation in ended:
                self.start(name)

    # --- messages ---------------------------------------------------------------------------------

    @rule(batch=st.dictionaries(numbers, objects, min_size=1, max_size=len(DATASETS)), name=workers)
    def announce(self, batch: dict[int, str], name: str) -> None:
        """Messages arrive: new, duplicate, overwritten, older or incomparable objects."""
        worker = self.workers[name]
        orders = {number: self.order_of(number, kind) for number, kind in batch.items()}
        known = self.model.units
        lost = [n for n in orders if n in known and self.model.is_lost(known[n])]
        answers = {n: self.receive(n, orders[n], worker) for n in orders if n not in lost}
        ended = self.model.recover() if lost else set()
        units = [announced(number, order) for number, order in orders.items()]
        if worker.incarnation in ended:
            # Whoever finds out that it is lost itself is told to stop.
            with pytest.raises(WorkerFenced):
                self.stores.ledger.record_and_claim(worker, units)
        else:
            answers |= {n: self.receive(n, orders[n], worker) for n in lost}
            receipts = self.stores.ledger.record_and_claim(worker, units)
            told = [receipt.decision.action.value for receipt in receipts]
            assert told == [answers[number] for number in orders]
            for receipt in receipts:
                self.note(worker, receipt.claim, ended)
        self.bury(ended)

    def order_of(self, number: int, kind: str) -> int | None:
        """Return the order of an object that stands so to the one known."""
        known = self.model.units.get(number)
        base = known.known_order if known else None
        base = self.order if base is None else base
        if kind == "newer":
            self.order += 1
        return {"same": base, "newer": self.order, "older": base - 1}.get(kind)

    def receive(self, number: int, order: int | None, worker: WorkerLease) -> str:
        """Let the model answer."""
        return self.model.announce(number, DATASETS[number], order, worker.incarnation)

    def note(self, worker: WorkerLease, claim: Claim | None, ended: set[str] | None = None) -> None:
        """Remember an open claim; only one that was lost just now may stand in its place."""
        if claim is not None:
            before = self.claims.get(claim.wal_id)
            if before is not None:
                assert before[0].incarnation in (ended or set())
                self.dead.append(before)
            self.claims[claim.wal_id] = (worker, claim)

    # --- the schedule -----------------------------------------------------------------------------

    @rule(name=workers, limit=st.sampled_from([1, 50]))
    def claim_due(self, name: str, limit: int) -> None:
        """A worker asks for what is due; ties of the schedule may fall either way."""
        worker = self.workers[name]
        due = {
            number: found
            for number, found in self.model.units.items()
            if found.due is not None
            and found.due <= self.model.now
            and not self.model.is_off(found.dataset)
        }
        times = {row["wal_id"]: row["due_at"] for row in self.rows(STATES)}
        before = {row["wal_id"]: row["version"] for row in self.rows(STATES)}
        claims = self.stores.ledger.claim_due(worker, limit)
        after = {row["wal_id"]: row["version"] for row in self.rows(STATES)}
        moved = {n for n in self.model.units if before[IDS[n]] != after[IDS[n]]}
        held = {n for n in moved if self.model.units[n].exhausted}
        schedule = {n: (times[IDS[n]], min(found.expiries, 2)) for n, found in due.items()}
        assert explains(schedule, set(exhausted(due)), limit, moved - held, held)
        for number in moved:
            assert self.model.claim_due(number, worker.incarnation) == (number not in held)
        assert {claim.wal_id for claim in claims} == {IDS[n] for n in moved - held}
        for claim in claims:
            assert not claim.has_message
            self.note(worker, claim)

    # --- outcomes ---------------------------------------------------------------------------------

    @rule(name=workers, results=st.lists(outcomes, min_size=4, max_size=4))
    def work(self, name: str, results: list[str]) -> None:
        """A worker takes what is due and reports on it."""
        self.claim_due(name, 50)
        self.commit(name, results)

    @precondition(lambda self: self.claims)
    @rule(name=workers, results=st.lists(outcomes, min_size=4, max_size=4))
    def commit(self, name: str, results: list[str]) -> None:
        """A worker reports on all that it holds, in one batch."""
        worker = self.workers[name]
        mine = {w: c for w, (holder, c) in self.claims.items() if holder == worker}
        batch = []
        for (wal_id, claim), result in zip(sorted(mine.items()), results, strict=False):
            good = result == "success"
            batch.append(success(claim, read_etag=None) if good else failure(claim, result))
            found = self.unit_of(wal_id)
            if good:
                self.model.succeed(found)
            else:
                self.model.fail(found, result)
            del self.claims[wal_id]
        done = self.stores.ledger.commit(worker, batch)
        assert set(done.closed) == set(mine)
        assert done.lost == ()

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), name=workers, result=outcomes)
    def zombie(self, data: st.DataObject, name: str, result: str) -> None:
        """A process that lost its lease comes back, or lends its claim to another: in vain."""
        worker, claim = data.draw(st.sampled_from(self.dead))
        good = result == "success"
        report = success(claim) if good else failure(claim, result)
        with pytest.raises(WorkerFenced):
            self.stores.ledger.commit(worker, [report])
        assert self.stores.ledger.commit(self.workers[name], [report]).lost == (claim.wal_id,)

    # --- workers ----------------------------------------------------------------------------------

    @rule(
        name=workers,
        event=st.sampled_from(["crash", "expire", "stop", "renew", "recover", "locked", "lost"]),
    )
    def worker_event(self, name: str, event: str) -> None:
        """Something happens to a worker."""
        getattr(self, event)(name)

    def crash(self, name: str) -> None:
        """A worker vanishes and is recovered."""
        self.expire(name)
        self.recover(name)

    def expire(self, name: str) -> None:
        """A worker's lease ends; nobody has noticed yet, and it may still commit."""
        worker = self.workers[name]
        self.backend.expire(worker)
        self.model.leases[worker.incarnation] = float("-inf")

    def recover(self, _name: str) -> None:
        """The sweep."""
        ended = self.model.recover()
        assert self.stores.leases.recover().workers == len(ended)
        self.bury(ended)

    def stop(self, name: str) -> None:
        """A worker ends in good order."""
        worker = self.workers[name]
        self.model.release(worker.incarnation, "stopped")
        self.stores.leases.stop(worker)
        self.bury({worker.incarnation})

    def locked(self, name: str) -> None:
        """A worker's batch is cut off by a store that takes no commits."""
        self.cut_off(name, "locked")

    def lost(self, name: str) -> None:
        """A worker's batch is cut off by a store whose connection is lost."""
        self.cut_off(name, "lost")

    def cut_off(self, name: str, why: str) -> None:
        """A worker gives back what it holds and goes on under its lease."""
        worker = self.workers[name]
        self.model.release(worker.incarnation, why)
        self.stores.leases.hand_back(worker, store_lost=why == "lost")
        for wal_id, held in list(self.claims.items()):
            if held[0] == worker:
                del self.claims[wal_id]

    def renew(self, name: str) -> None:
        """A worker renews its lease, late or not, as long as nobody fenced it."""
        worker = self.workers[name]
        self.stores.leases.renew(worker)
        self.model.leases[worker.incarnation] = self.model.now + LEASE_S

    @precondition(lambda self: self.own_clock)
    @rule(seconds=st.sampled_from([1, 5, 20, 59, 60, 61]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.clock.advance(seconds)
        self.model.now += seconds

    # --- people -----------------------------------------------------------------------------------

    @rule(
        number=numbers,
        verb=st.sampled_from(["put_back", "put_back", "put_back", "quarantine"]),
        late=st.sampled_from([0, 0, 0, 1]),
    )
    def intervene(self, number: int, verb: str, late: int) -> None:
        """Somebody replays or holds a unit, having read its version, or an older one."""
        found = self.model.units.get(number)
        if found is None:
            return
        selection = [(IDS[number], found.version - late)]
        allowed = not late and getattr(self.model, verb)(found)
        if verb == "put_back":
            done = put_back(self.stores, selection)[IDS[number]] is None
        else:
            moved = self.stores.interventions.quarantine(selection, reason="why", actor="ann")
            done = moved.done == (IDS[number],)
        assert done == allowed

    @rule(dataset=st.sampled_from(["*", "goes-glm", "mrms"]), is_on=st.sampled_from([0, 0, 1]))
    def switch(self, dataset: str, is_on: int) -> None:
        """A kill switch is turned."""
        (self.model.off.add if is_on else self.model.off.discard)(dataset)
        self.stores.switches.set(
            SwitchScope.INGEST, dataset, is_on=bool(is_on), actor="ann", reason="why"
        )

    # --- what must hold after every step ----------------------------------------------------------

    def unit_of(self, wal_id: str) -> Unit:
        """Return the model's unit of an id."""
        return self.model.units[next(n for n, known in IDS.items() if known == wal_id)]

    def instant(self, seconds: float | None) -> str | bool | None:
        """Write a time of the model as the table has it; without a clock only that it is set."""
        if seconds is None or not self.own_clock:
            return None if seconds is None else True
        at = EPOCH + timedelta(seconds=seconds)
        return at.isoformat(timespec="microseconds")[:26] + "Z"

    @invariant()
    def tables_equal_the_model(self) -> None:
        """Every unit stands where the model says, with one record each."""
        rows = {row["wal_id"]: row for row in self.rows(STATES)}
        assert set(rows) == {IDS[number] for number in self.model.units}
        assert self.rows("SELECT count(*) AS found FROM wal_records")[0]["found"] == len(rows)
        for number, found in self.model.units.items():
            row = rows[IDS[number]]
            for name in ("due_at", "retry_after"):
                row[name] = row[name] if self.own_clock else row[name] and True
            assert row == row | {
                "status": found.status,
                "version": found.version,
                "attempts": len(found.attempts),
                "budget_from": found.budget_from,
                "last_error_code": found.error,
                "due_at": self.instant(found.due),
                "retry_after": self.instant(found.retry_after),
                "rerun_intent": "reingest" if found.rerun else None,
                "lease_expiries": found.expiries,
                "applied_attempt": found.applied,
                "replay_reason": found.reason,
            }

    @invariant()
    def attempts_equal_the_model(self) -> None:
        """Attempt by attempt; at most one is open, held by whom the model says."""
        rows = self.rows("SELECT * FROM wal_attempts ORDER BY wal_id, attempt_no")
        told = [
            (row["wal_id"], row["attempt_no"], row["status"], row["worker_incarnation"])
            for row in rows
        ]
        expected = [
            (IDS[number], attempt.number, attempt.status, attempt.worker)
            for number, found in self.model.units.items()
            for attempt in found.attempts
        ]
        assert told == sorted(expected)
        held = [row["wal_id"] for row in rows if row["status"] == "pending"]
        assert len(held) == len(set(held))
        assert set(held) == set(self.claims)
        for row in rows:
            if row["status"] == "applied":
                key = (row["wal_id"], row["attempt_no"])
                assert self.applied.setdefault(key, row) == row

    @invariant()
    def states_keep_their_promises(self) -> None:
        """Success tuple, limit, schedule, and terminal states that nothing leaves."""
        held = self.rows("SELECT wal_id, claimed_from FROM wal_attempts WHERE status = 'pending'")
        first_runs = {row["wal_id"] for row in held if row["claimed_from"] == "pending"}
        for row in self.rows(STATES):
            status = row["status"]
            assert (status == "in_progress") == (row["wal_id"] in first_runs)
            assert row["attempts"] - row["budget_from"] <= MAX_ATTEMPTS
            if status == "pending":
                assert row["due_at"] is not None
            if status == "succeeded":
                assert row["stac_status"] in ("created", "updated", "no-op")
                assert row["provenance_status"] in ("ok", "partial")
                assert row["integrity_status"] in ("ok", "suspect")
                assert row["metadata_status"] in ("ok", "suspect")
            assert self.terminal.get(row["wal_id"], status) == status
            if status in ("succeeded", "quarantined"):
                self.terminal[row["wal_id"]] = status

    @invariant()
    def history_is_whole(self) -> None:
        """Versions without a gap, joined by legal edges."""
        last: dict[str, tuple[int, str | None]] = {}
        for event in self.rows("SELECT * FROM wal_history ORDER BY wal_id, version"):
            version, status = last.get(event["wal_id"], (0, None))
            assert event["version"] == version + 1
            assert event["from_status"] == status
            edge = (event["from_status"], event["to_status"])
            assert edge in LEGAL or edge[0] == edge[1]
            last[event["wal_id"]] = (event["version"], event["to_status"])
        for number, found in self.model.units.items():
            assert last[IDS[number]] == (found.version, found.status)


PROVED = pytest.mark.conformance(
    "WAL-3.1", "WAL-3.6", "WAL-3.15", "WAL-4.6", "WAL-4.3", "SM-2.2c", "SM-3.2", "SM-4.4a",
    "SM-4.5c", "SM-5.2b", "SM-9.1", "SM-9.2", "RP-3.10", "RP-3.11", "C-01", "C-04", "C-09", "C-11",
)  # fmt: skip


def settings_of(examples: int, steps: int, *, shrink: bool) -> settings:
    """Return how long to search; shrinking a failure takes minutes, so a quick run does not."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    return settings(max_examples=examples, stateful_step_count=steps, phases=phases)


@PROVED
@pytest.mark.slow
def test_the_ledger_does_what_the_model_does_on_sqlite(
    tmp_path: Path, *, full_counts: bool
) -> None:
    """Any sequence of verbs, faults and waits leaves the tables as the model says."""
    prepare("sqlite", f"sqlite:///{tmp_path / 'empty.db'}").close()
    made = 0

    def make() -> Backend:
        nonlocal made
        made += 1
        path = tmp_path / f"{made}.db"
        shutil.copy(tmp_path / "empty.db", path)
        return Backend("sqlite", f"sqlite:///{path}")

    def dispose(backend: Backend) -> None:
        backend.close()
        for path in tmp_path.glob(f"{backend.path.name}*"):
            path.unlink()

    run_state_machine_as_test(
        lambda: LedgerMachine(make, dispose),  # type: ignore[arg-type]
        settings=settings_of(1000 if full_counts else 80, 50, shrink=full_counts),
    )


@PROVED
@pytest.mark.slow
def test_the_ledger_does_what_the_model_does_on_postgres(
    postgres_databases: Databases, *, full_counts: bool
) -> None:
    """The same on PostgreSQL, whose clock nobody turns: no back-off, leases ended by hand."""
    template = postgres_databases.template("ledger", lambda url: prepare("postgres", url).close())

    def make() -> Backend:
        return Backend("postgres", postgres_databases.create(template))

    def dispose(backend: Backend) -> None:
        backend.close()
        postgres_databases.drop(backend.url)

    run_state_machine_as_test(
        lambda: LedgerMachine(make, dispose),  # type: ignore[arg-type]
        settings=settings_of(
            100 if full_counts else 10, 40 if full_counts else 25, shrink=full_counts
        ),
    )

"""Worker leases: one row a process. Who does not renew is fenced, and its units are freed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from tallgrass.clock import format_instant
from tallgrass.errors import WorkerFenced
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.budget import after_a_hand_back
from tallgrass.ledger.claim import WorkerLease
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.fence import require_unfenced
from tallgrass.storage.journal import transition_row
from tallgrass.storage.record_rows import failed_rerun_row, reset_row
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction, write_all
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each

#: Attempts freed in one transaction; a larger backlog takes several.
RECOVERY_BATCH = 2000

#: Who recovers: the sweep, not the worker that happens to run it.
RECOVERER = "recovery"


class _Why(StrEnum):
    """Why a worker hands back, as its attempts tell."""

    STOPPED = "the worker was asked to stop"
    CUT_OFF = "the store failed before the batch ended"
    LOST = "the connection to the store was lost before the batch ended"
    LOST_ALONE = "the connection to the store was lost while it had this unit alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a recovery did."""

    workers: int
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """Why open attempts are closed by somebody else than their outcome."""

    error_code: str
    message: str
    kind: str
    actor: str
    #: Recovery proved that nothing is left of the attempt; a hand-back reported its own end.
    rolled_back: bool
    #: The unit may be the cause: next time it is claimed in smaller company.
    suspects: bool
    #: The attempt counts against the unit's limit.
    counts: bool


class Leases:
    """Registers, renews, stops and fences workers."""

    def __init__(
        self, runner: TransactionRunner, *, ids: Callable[[], UUID], recorder: Recorder = NOBODY
    ) -> None:
        self._runner = runner
        self._ids = ids
        self._recorder = recorder

    def register(self, worker_id: str, *, ingest_run_id: str, lease_s: float) -> WorkerLease:
        """Give a process its own lease, whatever its logical name."""
        worker = WorkerLease(
            incarnation=str(self._ids()),
            worker_id=worker_id,
            ingest_run_id=ingest_run_id,
            lease_s=lease_s,
        )

        def work(tx: Transaction) -> None:
            now = tx.now()
            tx.execute(
                "insert_worker",
                now=now,
                incarnation=worker.incarnation,
                worker_id=worker_id,
                expires_at=now + timedelta(seconds=lease_s),
            )

        self._runner.run(work)
        return worker

    def renew(self, worker: WorkerLease) -> datetime:
        """Extend the lease; return its new end. A fenced worker is told to stop."""

        def work(tx: Transaction) -> datetime:
            expires_at = tx.now() + timedelta(seconds=worker.lease_s)
            if not tx.execute("renew_lease", incarnation=worker.incarnation, expires_at=expires_at):
                raise WorkerFenced(
                    f"worker {worker.worker_id} ({worker.incarnation}) lost its lease"
                )
            return expires_at

        return self._runner.run(work)

    def stop(self, worker: WorkerLease) -> tuple[str, ...]:
        """End a worker in good order: units that it still holds go back as due at once."""

        def work(tx: Transaction) -> Sequence[Row]:
            now = tx.now()
            if not tx.execute("stop_worker", now=now, incarnation=worker.incarnation):
                raise WorkerFenced(
                    f"worker {worker.worker_id} ({worker.incarnation}) lost its lease"
                )
            return self._hand_back(tx, now, worker, _Why.STOPPED)

        return self._released(self._runner.run(work))

    def hand_back(self, worker: WorkerLease, *, store_lost: bool = False) -> tuple[str, ...]:
        """Give back what a worker still holds after a batch that the store cut off.

        That costs the units nothing, but their company: one of them may be why. Only a unit that
        was alone when the connection to the store was lost has used an attempt: its own data may
        bring the server down each time.
        """

        def work(tx: Transaction) -> Sequence[Row]:
            require_unfenced(tx, worker)
            why = _Why.LOST if store_lost else _Why.CUT_OFF
            return self._hand_back(tx, tx.now(), worker, why)

        return self._released(self._runner.run(work))

    def _hand_back(
        self, tx: Transaction, now: datetime, worker: WorkerLease, why: _Why
    ) -> Sequence[Row]:
        held = _held(
            tx,
            tx.select("attempts_of_worker", incarnation=worker.incarnation),
            lambda row: row["worker_incarnation"] == worker.incarnation,
        )
        if why is _Why.LOST and len(held) == 1:
            why = _Why.LOST_ALONE
        release = _Release(
            error_code="handed_back",
            message=why.value,
            kind="hand_back",
            actor=worker.worker_id,
            rolled_back=False,
            suspects=why is not _Why.STOPPED,
            counts=why is _Why.LOST_ALONE,
        )
        return self._release(tx, now, held, release)

    def recover(self) -> Recovered:
        """Fence every worker whose lease has ended and free what it held.

        Fence and release are one transaction, judged by the database's clock: a worker that renewed
        in time is left alone, one that comes back late finds its attempts closed.
        """
        release = _Release(
            error_code="lease_expired",
            message="the worker stopped renewing its lease",
            kind="recovery",
            actor=RECOVERER,
            rolled_back=True,
            suspects=True,
            counts=True,
        )

        def work(tx: Transaction) -> tuple[int, Sequence[Row]]:
            now = tx.now()
            fenced = tx.execute("fence_expired", now=now)
            found = tx.select("abandoned_attempts", size=RECOVERY_BATCH)
            abandoned = _held(tx, found, lambda row: bool(row["is_abandoned"]))
            rows = self._release(tx, now, abandoned, release)
            if rows:
                write_audit(tx, now, [_recovery_entry(fenced, rows)])
            return fenced, rows

        workers = 0
        units: tuple[str, ...] = ()
        while True:
            fenced, rows = self._runner.run(work)
            freed = self._released(rows)
            if fenced or freed:
                self._recorder.event(names.UNITS_RECOVERED, workers=fenced, count=len(freed))
            workers, units = workers + fenced, units + freed
            if len(freed) < RECOVERY_BATCH:
                return Recovered(workers=workers, units=units)

    def _release(
        self, tx: Transaction, now: datetime, rows: Sequence[Row], release: _Release
    ) -> Sequence[Row]:
        """Close open attempts and make their units due: in_progress → failed → pending.

        Return the attempts with their records as they were before.
        """
        if not rows:
            return ()
        self._close_attempts(tx, now, rows, release)
        due_at = format_instant(now)
        suspected = 1 if release.suspects else 0
        first_runs = [row for row in rows if row["status"] == "in_progress"]
        records = [
            (row["wal_id"], row["version"], release.error_code, release.message)
            for row in first_runs
        ]
        write_all(tx, "abandon_records", records, now=now)
        resets = [
            reset_row(
                row["wal_id"],
                row["version"] + 1,
                due_at=due_at,
                budget_from=_budget_from(row, release),
                lease_expiries=row["lease_expiries"] + suspected,
            )
            for row in first_runs
        ]
        write_all(tx, "reset_records", resets, now=now)
        transitions = [
            transition_row(
                row["wal_id"],
                release.kind,
                source=Status.FAILED,
                target=Status.PENDING,
                version=row["version"] + 1,
                actor=release.actor,
                reason=release.error_code,
            )
            for row in first_runs
        ]
        tx.write("insert_transitions", transitions, now=now)
        reruns = [
            failed_rerun_row(
                row["wal_id"],
                row["version"],
                error_code=release.error_code,
                error_message=release.message,
                due_at=due_at,
                budget_from=_budget_from(row, release),
                lease_expiries=row["lease_expiries"] + suspected,
            )
            for row in rows
            if row["status"] == "succeeded"
        ]
        write_all(tx, "fail_reruns", reruns, now=now)
        return rows

    def _released(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """Count the statuses that released units entered; return their ids."""
        first_runs = [row for row in rows if row["status"] == Status.IN_PROGRESS.value]
        count_each(
            self._recorder,
            names.WAL_RECORDS,
            (
                (row["dataset"], status.value)
                for row in first_runs
                for status in (Status.FAILED, Status.PENDING)
            ),
        )
        put_back = ((row["dataset"], row["replay_reason"]) for row in first_runs)
        count_each(self._recorder, names.WAL_REPLAYS, put_back)
        return tuple(row["wal_id"] for row in rows)

    def _close_attempts(
        self, tx: Transaction, now: datetime, rows: Sequence[Row], release: _Release
    ) -> None:
        closes = [
            (
                row["wal_id"],
                row["attempt_no"],
                row["version"] + 1,
                release.error_code,
                release.message,
            )
            for row in rows
        ]
        commit_id = str(self._ids())
        write_all(tx, "abandon_attempts", closes, now=now, commit_id=commit_id)
        if release.rolled_back:
            numbers = [(row["wal_id"], row["attempt_no"]) for row in rows]
            write_all(tx, "roll_back_attempts", numbers)


def _held(tx: Transaction, found: Sequence[Row], is_freed: Callable[[Row], bool]) -> Sequence[Row]:
    """Lock units that were found held; return the open attempts that may be closed.

    They are read after the lock, with their holders: while it was awaited, another process may
    have closed an attempt, and a live worker may have claimed the unit anew.
    """
    if not found:
        return ()
    wal_ids = [row["wal_id"] for row in found]
    tx.lock("lock_units", wal_ids)
    return [row for row in tx.select("open_attempts", rows=wal_ids) if is_freed(row)]


def _budget_from(row: Row, release: _Release) -> int:
    budget_from: int = row["budget_from"]
    return budget_from if release.counts else after_a_hand_back(budget_from)


def _recovery_entry(fenced: int, rows: Sequence[Row]) -> AuditEntry:
    return AuditEntry(
        actor=RECOVERER,
        action="recover_units",
        subject=f"{len(rows)} units",
        reason="lease_expired",
        detail={"workers_fenced": fenced, "first": rows[0]["wal_id"], "last": rows[-1]["wal_id"]},
    )

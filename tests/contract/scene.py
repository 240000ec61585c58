"""One worker on one ledger, with short words for what the contract's tests do often."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg

from tallgrass.governance.switches import SwitchScope
from tests.support.builders import failure, success, unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.ledger.claim import Claim, CommitResult, Receipt, WorkerLease
    from tallgrass.ledger.outcome import Outcome
    from tallgrass.ledger.rules import LedgerRules
    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

#: What either driver raises when the database itself refuses.
RAW_ERRORS = (sqlite3.Error, psycopg.Error)

STATUSES = ("pending", "in_progress", "succeeded", "failed", "quarantined")

#: A row of wal_records as raw SQL would create it, before its ids.
NEW_RECORD: dict[str, Any] = {
    "dataset": "goes-glm",
    "provider": "aws",
    "queue": "q",
    "event_time": "2026-01-01T00:00:00.000000Z",
    "time_range_start": "2026-01-01T00:00:00.000000Z",
    "time_range_end": "2026-01-01T00:00:20.000000Z",
    "status": "pending",
    "attempts": 0,
    "integrity_status": "unknown",
    "metadata_status": "unknown",
    "stac_status": "unknown",
    "provenance_status": "unknown",
    "ingest_run_id": "run",
    "worker_id": "w",
    "replay_reason": "none",
    "created_at": "2026-01-01T00:00:00.000000Z",
    "updated_at": "2026-01-01T00:00:00.000000Z",
    "version": 1,
    "recorded_by": "w",
    "budget_from": 0,
    "lease_expiries": 0,
}


class Scene:
    """A ledger with a worker of its own."""

    def __init__(self, backend: Backend, rules: LedgerRules | None = None, **injected: Any) -> None:
        self.backend = backend
        self.stores = backend.open(rules, **injected)
        self.ledger = self.stores.ledger
        self.worker = self.register("w")

    def register(self, worker_id: str = "w", *, lease_s: float = 60) -> WorkerLease:
        """Add a process."""
        return self.stores.leases.register(worker_id, ingest_run_id="run", lease_s=lease_s)

    def announce(self, *units: IngestUnit, worker: WorkerLease | None = None) -> list[Receipt]:
        """Receive units as one batch."""
        return list(self.ledger.record_and_claim(worker or self.worker, units))

    def claim(self, announced: IngestUnit | int = 0, worker: WorkerLease | None = None) -> Claim:
        """Receive one unit, which must be claimed."""
        wanted = unit(announced) if isinstance(announced, int) else announced
        claim = self.announce(wanted, worker=worker)[0].claim
        assert claim is not None
        return claim

    def due(self, limit: int = 500, worker: WorkerLease | None = None) -> list[Claim]:
        """Claim what is due."""
        return list(self.ledger.claim_due(worker or self.worker, limit))

    def commit(
        self, *outcomes: tuple[Claim, Outcome], worker: WorkerLease | None = None
    ) -> CommitResult:
        """Close claims as one batch."""
        return self.ledger.commit(worker or self.worker, outcomes)

    def succeed(self, number: int = 0) -> str:
        """Bring a new unit to succeeded."""
        claim = self.claim(number)
        self.commit(success(claim))
        return claim.wal_id

    def fail(self, number: int = 0, code: str = "io_error", **changes: Any) -> str:
        """Bring a new unit to failed."""
        claim = self.claim(unit(number, **changes))
        self.commit(failure(claim, code))
        return claim.wal_id

    def park(self, number: int = 0, **changes: Any) -> str:
        """Record a new unit as pending, by a switch that is off again afterwards."""
        self.switch(is_on=True)
        self.announce(parked := unit(number, **changes))
        self.switch(is_on=False)
        return parked.wal_id

    def switch(self, *, is_on: bool, dataset: str = "*") -> None:
        """Turn the kill switch of ingest."""
        self.stores.switches.set(
            SwitchScope.INGEST, dataset, is_on=is_on, actor="ann", reason="test"
        )

    def crash(self, worker: WorkerLease | None = None) -> tuple[str, ...]:
        """Let a worker vanish, recover what it held, and go on with a new one."""
        self.backend.expire(worker or self.worker)
        freed = self.stores.leases.recover().units
        if worker is None:
            self.worker = self.register("w")
        return freed

    def quarantine(self, *wal_ids: str) -> None:
        """Hold units, on a person's word."""
        selection = [(wal_id, self.row(wal_id)["version"]) for wal_id in wal_ids]
        self.stores.interventions.quarantine(selection, reason="looks wrong", actor="ann")

    def at(self, status: str, number: int = 0) -> str:
        """Bring a new unit to a status by the ledger's own verbs; return its id."""
        match status:
            case "pending":
                return self.park(number)
            case "in_progress":
                return self.claim(number).wal_id
            case "succeeded":
                return self.succeed(number)
            case "failed":
                return self.fail(number)
            case _:
                wal_id = self.park(number)
                self.quarantine(wal_id)
                return wal_id

    def row(self, wal_id: str) -> dict[str, Any]:
        """Return the record as the table holds it."""
        return self.backend.rows("SELECT * FROM wal_records WHERE wal_id = ?", wal_id)[0]

    def attempts(self, wal_id: str) -> list[dict[str, Any]]:
        """Return the attempts as the table holds them."""
        return self.backend.rows(
            "SELECT * FROM wal_attempts WHERE wal_id = ? ORDER BY attempt_no", wal_id
        )

    def history(self, wal_id: str) -> list[tuple[Any, ...]]:
        """Return (version, from, to) of each edge, in order."""
        return self.backend.sql(
            "SELECT version, from_status, to_status FROM wal_history WHERE wal_id = ?"
            " ORDER BY version",
            wal_id,
        )

    def audit(self, subject: str) -> list[tuple[Any, ...]]:
        """Return (actor, action, reason) of the audit entries on a subject."""
        return self.backend.sql(
            "SELECT actor, action, reason FROM audit_log WHERE subject = ? ORDER BY entry_id",
            subject,
        )

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return everything that a refused call must leave as it is."""
        order = {"wal_records": "1", "wal_attempts": "1, 2", "wal_transitions": "1"}
        return {
            name: self.backend.rows(f"SELECT * FROM {name} ORDER BY {keys}")
            for name, keys in order.items()
        }


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Return the names of the columns that differ."""
    return {name for name in before if before[name] != after[name]}


@contextlib.contextmanager
def undone(connection: Any) -> Iterator[None]:
    """Run raw statements in a transaction that never stays."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # After an error PostgreSQL still waits for it; SQLite may have rolled back already.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("ROLLBACK")


def run(connection: Any, statement: str, *params: object) -> Any:
    """Execute raw SQL, with `?` for parameters on both databases."""
    if isinstance(connection, psycopg.Connection):
        return connection.execute(statement.replace("?", "%s"), params)
    return connection.execute(statement, params)


def accepts(connection: Any, statement: str, *params: object) -> bool:
    """Try raw SQL and undo it; tell whether the database took it and changed one row."""
    with undone(connection):
        try:
            return bool(run(connection, statement, *params).rowcount == 1)
        except RAW_ERRORS:
            return False


def insert_statement(table: str, row: dict[str, Any], verb: str = "INSERT") -> str:
    """Return an INSERT for the row's columns."""
    places = ", ".join("?" for _ in row)
    return f"{verb} INTO {table} ({', '.join(row)}) VALUES ({places})"

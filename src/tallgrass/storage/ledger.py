"""The ledger's three verbs: record and claim, claim what is due, commit.

Each is one transaction, whatever the size of the batch: facts are read under lock, decided by the
pure rules of ``tallgrass.ledger``, and written by a constant number of statements, each of which
compares what was read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from tallgrass.governance.switches import SwitchedOff, SwitchScope
from tallgrass.ledger.budget import company_limit
from tallgrass.ledger.claim import Claim, CommitResult, Receipt, WorkerLease
from tallgrass.ledger.object_order import (
    ObjectOrder,
    announced_and_listed,
    compare_objects,
    orders_listed,
)
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.receipt import (
    NEW_UNIT,
    NEW_UNIT_PARKED,
    Action,
    Decision,
    Known,
    decide_due,
    decide_receipt,
    keeping_the_order,
)
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Status
from tallgrass.operators.effects import Effects
from tallgrass.storage.catalog_writes import CatalogWrites
from tallgrass.storage.claim_writes import ClaimWrites
from tallgrass.storage.closing import Closing
from tallgrass.storage.fence import await_ended, require_unfenced
from tallgrass.storage.leases import Leases
from tallgrass.storage.rows import due_from, due_unit_from, known_from, known_object
from tallgrass.storage.switch_store import switched_off
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each
from tallgrass.telemetry.unit_events import held_replay_fields, report_unit

NO_EFFECTS: Mapping[str, Effects] = {}

_IGNORED = Decision(action=Action.IGNORE_OLDER)
_LOOK_AGAIN = Decision(action=Action.WAIT, wait_s=1.0)
_REPLAYS = SwitchScope.REPLAY.value
_NOTHING_OFF = SwitchedOff(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopped:
    """The datasets of which nothing may start, and those of which no replay may."""

    ingest: SwitchedOff
    replays: SwitchedOff

    def stops(self, dataset: str, replay_run_id: str | None) -> bool:
        """Tell whether a unit may not start; one that a replay asked for heeds both switches."""
        return self.ingest.stops(dataset) or (
            replay_run_id is not None and self.replays.stops(dataset)
        )


class Ledger:
    """The write-ahead ledger in a database."""

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        runner: TransactionRunner,
        leases: Leases,
        catalog: CatalogWrites,
        rules: LedgerRules,
        *,
        ids: Callable[[], UUID],
        random: Callable[[], float],
        code_version: str,
        config_version: str,
        recorder: Recorder = NOBODY,
        replay_run_id: str | None = None,
    ) -> None:
        self._runner = runner
        self._leases = leases
        self._catalog = catalog
        self._rules = rules
        self._ids = ids
        self._random = random
        self._code_version = code_version
        self._config_version = config_version
        self._recorder = recorder
        #: The run whose replay queue the messages come from.
        self._replay_run_id = replay_run_id

    def record_and_claim(
        self, worker: WorkerLease, units: Sequence[IngestUnit]
    ) -> Sequence[Receipt]:
        """Record announced units and claim those that may be worked on now.

        Return one receipt for each unit, in the order given. A unit that is announced twice in one
        batch is taken once, with its newest object; both receipts then carry the same claim.
        """
        for unit in units:
            if unit.extensions:
                self._rules.require_extensions(unit.dataset, unit.extensions)
        receipts = self._receive(worker, units)
        lost = [i for i, receipt in enumerate(receipts) if _is_lost(receipt)]
        if lost:
            self._leases.recover()
            again = self._receive(worker, [units[i] for i in lost])
            for i, receipt in zip(lost, again, strict=True):
                receipts[i] = (
                    replace(receipt, decision=_LOOK_AGAIN) if _is_lost(receipt) else receipt
                )
        return receipts

    def claim_due(self, worker: WorkerLease, limit: int) -> Sequence[Claim]:
        """Claim units whose time has come: parked, recovered, to be retried or run again.

        Units that lost their worker before are claimed in small company, then alone. An empty
        answer means that nothing is due: units at their limit are held on the way to the others.
        """
        while True:
            claims, held = self._claim_due_once(worker, limit)
            if claims or not held:
                return claims

    def has_due(self) -> bool:
        """Tell whether a claim of due units would find any, by reading only."""
        with self._runner.database.reading() as tx:
            off = switched_off(tx, SwitchScope.INGEST)
            if off.everything:
                return False
            now = tx.now()
            paused = _paused(tx)
            found = tx.select("due_company", now=now, rows=off.datasets, replay_off=paused)
            return bool(found)

    def commit(
        self,
        worker: WorkerLease,
        outcomes: Sequence[tuple[Claim, Outcome]],
        effects: Mapping[str, Effects] = NO_EFFECTS,
    ) -> CommitResult:
        """Close claims with their outcomes: all that this worker still holds, or nothing.

        `effects` holds, by wal_id, what a success writes beside the ledger; it is written in the
        same transaction. A worker that was fenced is refused. A claim that it no longer holds is
        reported as lost, and nothing of it is written.
        """
        closing = Closing(
            outcomes,
            self._rules,
            self._random,
            commit_id=str(self._ids()),
            effects=effects,
            catalog=self._catalog,
        )

        def work(tx: Transaction) -> CommitResult:
            require_unfenced(tx, worker)
            return closing.write(tx, worker)

        def landed(tx: Transaction, result: CommitResult) -> bool:
            await_ended(tx, worker)
            return closing.landed(tx, result)

        result = self._runner.run(work, landed)
        count_each(self._recorder, names.WAL_RECORDS, closing.entered(result))
        count_each(self._recorder, names.WAL_REPLAYS, closing.put_back(result))
        count_each(self._recorder, names.REPLAYS, closing.replays.executed)
        count_each(self._recorder, names.REPLAY_MISMATCHES, closing.replays.mismatched)
        count_each(self._recorder, names.DLQ_REPROCESSED, closing.replays.reprocessed)
        return result

    def _receive(self, worker: WorkerLease, units: Sequence[IngestUnit]) -> list[Receipt]:
        """Handle each object once, with its newest announcement."""
        newest = newest_by_object(units)
        claim_id = str(self._ids())
        by_object, writes = self._runner.run(
            lambda tx: self._record_and_claim(tx, worker, newest, claim_id),
            lambda tx, done: _claim_landed(
                tx, worker, claim_id, [r.claim for r in done[0].values() if r.claim]
            ),
        )
        self._report(writes)
        return [_receipt_of(unit, newest, by_object) for unit in units]

    def _record_and_claim(
        self,
        tx: Transaction,
        worker: WorkerLease,
        newest: dict[str, IngestUnit],
        claim_id: str,
    ) -> tuple[dict[str, Receipt], ClaimWrites]:
        require_unfenced(tx, worker)
        if self._replay_run_id is not None:
            # Before any unit, as a drain does: two that lock the other way round would meet.
            tx.lock("lock_run", [self._replay_run_id])
        objects = list(newest)
        tx.lock("lock_objects", objects)
        known = {row["object_uri"]: row for row in tx.select("known_objects", rows=objects)}
        # Read when nothing is awaited any more: a switch that is turned meanwhile counts.
        off = self._stopped(tx, known.values())
        now = tx.now()
        writes = ClaimWrites(
            worker, claim_id, now, known.values(), replay_run_id=self._replay_run_id
        )
        receipts: dict[str, Receipt] = {}
        # In id order: rows are locked and inserted the same way round by every worker.
        for unit in sorted(newest.values(), key=lambda unit: unit.wal_id):
            row = known.get(unit.object_uri)
            if row is not None:
                receipts[unit.object_uri] = self._receive_known(unit, row, now, off, writes)
                continue
            parked = off.stops(unit.dataset, self._replay_run_id)
            writes.insert(unit, parked=parked)
            receipts[unit.object_uri] = Receipt(
                unit=unit,
                decision=NEW_UNIT_PARKED if parked else NEW_UNIT,
                claim=None if parked else writes.claim_new(unit),
            )
        writes.write(tx, self._code_version, self._config_version)
        return receipts, writes

    def _stopped(self, tx: Transaction, known: Iterable[Row]) -> _Stopped:
        """Return what may not start now; replays are asked for only where one is met."""
        replayed = self._replay_run_id or any(row["replay_run_id"] for row in known)
        return _Stopped(
            ingest=switched_off(tx, SwitchScope.INGEST),
            replays=switched_off(tx, SwitchScope.REPLAY) if replayed else _NOTHING_OFF,
        )

    def _receive_known(
        self, unit: IngestUnit, row: Row, now: datetime, off: _Stopped, writes: ClaimWrites
    ) -> Receipt:
        known = known_from(row)
        if unit.wal_id != known.wal_id:
            # Recorded under an older grammar: an object keeps its record, id and dataset, so that
            # it is judged, and told of, as when it comes from the schedule or a replay.
            unit = replace(unit, wal_id=known.wal_id, dataset=known.dataset)
        before = known_object(row)
        order = compare_objects(unit.object_ref, before)
        is_off = off.stops(known.dataset, known.replay_run_id)
        decision = decide_receipt(known, order, now=now, switched_off=is_off, rules=self._rules)
        if orders_listed(unit.object_ref, before):
            decision = keeping_the_order(decision)
            if row["next_object"] is not None:
                unit = replace(unit, object_ref=announced_and_listed(unit.object_ref, before))
        claim = None
        if decision.action is Action.CLAIM:
            claim = writes.claim_known(unit, known, decision, row)
        else:
            _write_answer(writes, unit, known, decision, row)
        return Receipt(unit=unit, decision=decision, claim=claim)

    def _claim_due_once(self, worker: WorkerLease, limit: int) -> tuple[list[Claim], int]:
        claim_id = str(self._ids())
        claims, writes = self._runner.run(
            lambda tx: self._claim_due(tx, worker, limit, claim_id),
            lambda tx, done: _claim_landed(tx, worker, claim_id, done[0]),
        )
        self._report(writes)
        return claims, len(writes.known) - len(claims)

    def _claim_due(
        self, tx: Transaction, worker: WorkerLease, limit: int, claim_id: str
    ) -> tuple[list[Claim], ClaimWrites]:
        """Return the claims, and all that was written: some units are held at their limit."""
        require_unfenced(tx, worker)
        off = switched_off(tx, SwitchScope.INGEST)
        now = tx.now()
        writes = ClaimWrites(worker, claim_id, now)
        if off.everything:
            return [], writes
        paused = _paused(tx)
        first = tx.select("due_company", now=now, rows=off.datasets, replay_off=paused)
        if not first:
            return [], writes
        company = first[0]["company"]
        found = tx.select(
            "due_ids",
            now=now,
            company=company,
            size=company_limit(company, limit),
            rows=off.datasets,
            replay_off=paused,
        )
        writes.known = tx.select("due_units", rows=[row["wal_id"] for row in found])
        claims = []
        for row in writes.known:
            known = due_from(row)
            decision = decide_due(known, self._rules)
            if decision.action is Action.CLAIM:
                claims.append(writes.claim_known(due_unit_from(row), known, decision, row))
            else:
                writes.hold_at_limit(due_unit_from(row), known, decision)
        writes.write(tx, self._code_version, self._config_version)
        return claims, writes

    def _report(self, writes: ClaimWrites) -> None:
        """Tell what a claim transaction did, once it is committed."""
        if not self._recorder.enabled:
            return
        count_each(self._recorder, names.WAL_RECORDS, writes.entered())
        count_each(self._recorder, names.WAL_REPLAYS, writes.put_back)
        for unit, known in writes.held:
            report_unit(
                self._recorder,
                names.UNIT_QUARANTINED,
                wal_id=known.wal_id,
                dataset=known.dataset,
                object_uri=unit.object_uri,
                attempt=known.attempts,
                status=Status.QUARANTINED.value,
                error_code=known.last_error_code or "attempts_exhausted",
                message=f"held after {known.attempts} attempts",
                replay=held_replay_fields(known.replay_run_id, known.replay_reason),
            )


def _write_answer(
    writes: ClaimWrites, unit: IngestUnit, known: Known, decision: Decision, row: Row
) -> None:
    """Write what an answer other than a claim leaves behind."""
    match decision.action:
        case Action.PARK:
            writes.park(unit, known, decision, row)
        case Action.DUE if decision.adopts_object:
            writes.park(unit, known, decision, row)
        case Action.QUARANTINE:
            writes.hold_at_limit(unit, known, decision)
        case Action.RECORD_NEWER:
            writes.record_newer(unit, known)
        case Action.HELD:
            writes.hold_still(unit, known, decision)
        case Action.DUPLICATE if decision.orders_object:
            writes.note_place(unit, known)


def _paused(tx: Transaction) -> list[str]:
    """Return the datasets whose replays are off: what a replay asked for does not start then."""
    return [row["dataset"] for row in tx.select("switched_off", scope=_REPLAYS)]


def newest_by_object(units: Sequence[IngestUnit]) -> dict[str, IngestUnit]:
    """Return one unit an object: of several announcements the newest, or the last of equals."""
    newest: dict[str, IngestUnit] = {}
    for unit in units:
        earlier = newest.get(unit.object_uri)
        if (
            earlier is None
            or compare_objects(unit.object_ref, earlier.object_ref) is not ObjectOrder.OLDER
        ):
            newest[unit.object_uri] = unit
    return newest


def _receipt_of(
    unit: IngestUnit, newest: dict[str, IngestUnit], by_object: dict[str, Receipt]
) -> Receipt:
    """Return a unit's own receipt; an older announcement than its neighbour's is ignored."""
    receipt, taken = by_object[unit.object_uri], newest[unit.object_uri]
    if (
        unit is not taken
        and compare_objects(unit.object_ref, taken.object_ref) is ObjectOrder.OLDER
    ):
        return Receipt(unit=unit, decision=_IGNORED)
    return receipt


def _is_lost(receipt: Receipt) -> bool:
    return receipt.decision.action is Action.RECOVER


def _claim_landed(
    tx: Transaction, worker: WorkerLease, claim_id: str, claims: Sequence[Claim]
) -> bool:
    """Ask whether a claim transaction is in the database."""
    await_ended(tx, worker)
    rows = [claim.wal_id for claim in claims[:1]]
    return bool(tx.select("claimed_by", claim_id=claim_id, rows=rows))

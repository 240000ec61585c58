"""The writes of one claim transaction: collected while units are decided, then run edge by edge."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from tallgrass.canonical_json import canonical_text
from tallgrass.clock import format_instant
from tallgrass.errors import TransactionConflict, VersionConflict
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.claim import NOT_REPLAYED, Claim, OwnedItem, Replayed, WorkerLease
from tallgrass.ledger.receipt import Action, Decision, Known
from tallgrass.ledger.replay_reasons import DLQ_DRAIN
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent, JournalReason, Status
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.journal import transition_row
from tallgrass.storage.record_rows import reset_row
from tallgrass.storage.rows import next_object_text, owned_item_from, replayed_from
from tallgrass.storage.unit_of_work import Row, Transaction, write_all

_Rows = list[tuple[object, ...]]

#: A unit that the ledger first hears of by a drain.
_DRAINED = Replayed(mode="dlq")

#: What `known_objects` looks for where no attempt has a sequencer.
_PLACE_NOTE = "announced_sequencer"

#: Why a unit keeps an object that is not newer: a listing did not tell its place in the order.
_ANNOUNCED = JournalReason.ANNOUNCED_OBJECT.value
_NEWER = JournalReason.NEWER_OBJECT.value


@dataclass(slots=True)
class ClaimWrites:
    """Rows for each statement, in the order in which a unit may pass through them."""

    worker: WorkerLease
    claim_id: str
    now: datetime
    #: The records that were there before, as they were read.
    known: Collection[Row] = ()
    inserts: _Rows = field(default_factory=list)
    resets: _Rows = field(default_factory=list)
    quarantines: _Rows = field(default_factory=list)
    parks: _Rows = field(default_factory=list)
    given_up: _Rows = field(default_factory=list)
    transitions: _Rows = field(default_factory=list)
    claims: _Rows = field(default_factory=list)
    attempts: _Rows = field(default_factory=list)
    notes: _Rows = field(default_factory=list)
    audit: list[AuditEntry] = field(default_factory=list)
    #: Units that are quarantined at their limit.
    held: list[tuple[IngestUnit, Known]] = field(default_factory=list)
    #: Dataset and replay reason of failed units that become pending again.
    put_back: list[tuple[str, str]] = field(default_factory=list)
    #: The replay run whose queue the units come from: what is new to the ledger is its work.
    replay_run_id: str | None = None

    def insert(self, unit: IngestUnit, *, parked: bool, intent: Intent = Intent.INGEST) -> None:
        """Record a unit that nobody has seen before; a parked one is due at once."""
        self.inserts.append(
            (
                unit.wal_id,
                unit.dataset,
                unit.object_uri,
                unit.provider,
                unit.queue,
                format_instant(unit.event.event_time),
                format_instant(unit.time_range_start),
                format_instant(unit.time_range_end),
                None if unit.extensions is None else canonical_text(unit.extensions),
                format_instant(self.now) if parked else None,
                next_object_text(unit, intent) if parked else None,
            )
        )

    def claim_new(self, unit: IngestUnit) -> Claim:
        """Claim a unit that this transaction inserts."""
        return self._open_attempt(
            unit,
            Intent.INGEST,
            Status.PENDING,
            version=1,
            attempts=0,
            budget_from=0,
            replay_run_id=self.replay_run_id,
            replay_reason=self._first_reason,
            replayed=NOT_REPLAYED if self.replay_run_id is None else _DRAINED,
        )

    def claim_known(self, unit: IngestUnit, known: Known, decision: Decision, row: Row) -> Claim:
        """Claim a recorded unit; a failed one goes through pending first."""
        budget_from = known.attempts if decision.resets_budget else known.budget_from
        version, status = known.version, known.status
        if status is Status.FAILED:
            reason = known.last_error_code or "retry"
            self._reset(known, "retry", reason, budget_from, None, known.retry_after)
            version, status = version + 1, Status.PENDING
        return self._open_attempt(
            unit,
            decision.intent,
            status,
            version=version,
            attempts=known.attempts,
            budget_from=budget_from,
            replay_run_id=known.replay_run_id,
            replay_reason=known.replay_reason,
            replayed=replayed_from(row),
            owned_item=owned_item_from(row),
        )

    def park(
        self,
        unit: IngestUnit,
        known: Known,
        decision: Decision,
        row: Row,
        reason: str = JournalReason.KILL_SWITCH.value,
    ) -> None:
        """Make a recorded unit due, for the time after the switch; adopt a newer object.

        One that is due already stays so, and for what it was.
        """
        next_object = next_object_text(unit) if decision.adopts_object else row["next_object"]
        budget_from = known.attempts if decision.resets_budget else known.budget_from
        if known.status is Status.FAILED:
            # A newer object does not wait for the failure of the older one.
            after = self.now if decision.resets_budget else known.retry_after
            self._reset(known, "park", reason, budget_from, next_object, after)
            return
        if known.due_at is not None and not decision.adopts_object:
            return
        rerun = None if known.status is Status.PENDING else Intent.REINGEST.value
        if decision.action is Action.DUE:
            rerun = row["rerun_intent"]
        due_at = format_instant(known.due_at or self.now)
        why = reason
        if decision.adopts_object:
            why = _ANNOUNCED if decision.orders_object else _NEWER
        self._journal(known, "park", known.status, why)
        self.parks.append(
            (
                known.wal_id,
                known.version,
                known.status.value,
                due_at,
                next_object,
                budget_from,
                rerun,
            )
        )

    def record_newer(self, unit: IngestUnit, known: Known) -> None:
        """Keep the newer object of a unit that is held, for its release or approved re-run."""
        self._keep_object(unit, known, _NEWER)
        self._note_message(unit, known, f"newer_object_of_{known.status.value}")

    def hold_still(self, unit: IngestUnit, known: Known, decision: Decision) -> None:
        """Let go a message for a quarantined unit; what it tells of a listed object is kept."""
        if decision.adopts_object:
            self._keep_object(unit, known, _ANNOUNCED)
        self._note_message(unit, known, "message_for_quarantined")

    def note_place(self, unit: IngestUnit, known: Known) -> None:
        """Keep the place in the order of a listed object that is done, and that a message confirms.

        Its attempt is closed and the record has nothing to wait for: it is noted beside them.
        """
        sequencer = unit.object_ref.sequencer
        self.notes.append(
            (known.wal_id, known.attempts, self.worker.worker_id, _PLACE_NOTE, sequencer)
        )

    def _keep_object(self, unit: IngestUnit, known: Known, reason: str) -> None:
        """Let a unit's next attempt have the announced object; its schedule stays."""
        self.parks.append(
            (
                known.wal_id,
                known.version,
                known.status.value,
                None if known.due_at is None else format_instant(known.due_at),
                next_object_text(unit),
                known.budget_from,
                None if known.rerun_intent is None else known.rerun_intent.value,
            )
        )
        self._journal(known, "park", known.status, reason)

    def _note_message(self, unit: IngestUnit, known: Known, action: str) -> None:
        self.audit.append(
            AuditEntry(
                actor=self.worker.worker_id,
                action=action,
                subject=known.wal_id,
                reason=known.last_error_code or known.status.value,
                detail={
                    "object_uri": unit.object_uri,
                    "sequencer": unit.object_ref.sequencer,
                    "sqs_message_id": unit.event.sqs_message_id,
                },
            )
        )

    def hold_at_limit(self, unit: IngestUnit, known: Known, decision: Decision) -> None:
        """Quarantine a unit that has used all its attempts; a succeeded one just stays stale."""
        if known.status is Status.SUCCEEDED:
            if known.due_at is not None:
                self.given_up.append((known.wal_id, known.version))
                self._journal(known, "park", known.status, "attempts_exhausted")
            return
        self.quarantines.append(
            (known.wal_id, known.version, known.status.value, "attempts_exhausted")
        )
        self._journal(known, "quarantine", Status.QUARANTINED, "attempts_exhausted")
        if decision.adopts_object:
            held = replace(known, status=Status.QUARANTINED, version=known.version + 1, due_at=None)
            self._keep_object(unit, held, _ANNOUNCED)
        self.held.append((unit, known))
        self.audit.append(
            AuditEntry(
                actor=self.worker.worker_id,
                action="quarantine",
                subject=known.wal_id,
                reason="attempts_exhausted",
                detail={"attempts": known.attempts, "last_error_code": known.last_error_code},
            )
        )

    def entered(self) -> Iterator[tuple[str, str]]:
        """Yield dataset and status for each status that these writes make a unit enter."""
        datasets = {row["wal_id"]: row["dataset"] for row in self.known}
        for wal_id, dataset, *_ in self.inserts:
            datasets[wal_id] = dataset
            yield str(dataset), Status.PENDING.value
        for wal_id, _, source, target, *_ in self.transitions:
            if source != target:
                yield datasets[wal_id], str(target)
        for wal_id, _, source, target, *_ in self.claims:
            if source != target:
                yield datasets[wal_id], str(target)

    @property
    def _first_reason(self) -> str:
        """Why a unit that is new to the ledger is run: nobody asked, or a drain did."""
        return "none" if self.replay_run_id is None else DLQ_DRAIN

    def write(self, tx: Transaction, code_version: str, config_version: str) -> None:
        """Run all statements; a row that moved meanwhile undoes the batch, to run it again."""
        try:
            self._write(tx, code_version, config_version)
        except VersionConflict as exc:
            # A row that was recorded after the rows were locked is read but not locked.
            raise TransactionConflict(str(exc)) from exc

    def _write(self, tx: Transaction, code_version: str, config_version: str) -> None:
        who = {"ingest_run_id": self.worker.ingest_run_id, "worker_id": self.worker.worker_id}
        run_id = self.replay_run_id
        recorded = tx.write(
            "insert_records",
            self.inserts,
            now=self.now,
            replay_run_id=run_id,
            replay_reason=self._first_reason,
            **who,
        )
        if recorded != len(self.inserts):
            # Another worker recorded one of them at the same moment: look again.
            raise TransactionConflict("a unit was recorded by another worker at the same moment")
        self._write_run_records(tx)
        for name, rows in (
            ("reset_records", self.resets),
            ("quarantine_records", self.quarantines),
            ("park_records", self.parks),
            ("give_up_reruns", self.given_up),
            ("insert_transitions", self.transitions),
        ):
            write_all(tx, name, rows, now=self.now)
        tx.write("insert_annotations", self.notes, now=self.now)
        write_all(tx, "claim_records", self.claims, now=self.now, **who)
        tx.write(
            "insert_attempts",
            self.attempts,
            now=self.now,
            claim_id=self.claim_id,
            incarnation=self.worker.incarnation,
            code_version=code_version,
            config_version=config_version,
            **who,
        )
        write_audit(tx, self.now, self.audit)

    def _open_attempt(  # noqa: PLR0913 - one a column
        self,
        unit: IngestUnit,
        intent: Intent,
        status: Status,
        *,
        version: int,
        attempts: int,
        budget_from: int,
        replay_run_id: str | None,
        replay_reason: str,
        replayed: Replayed,
        owned_item: OwnedItem | None = None,
    ) -> Claim:
        rerun = status is Status.SUCCEEDED
        wal_id, event, object_ref = unit.wal_id, unit.event, unit.object_ref
        from_status, why = status.value, intent.value
        self.claims.append(
            (
                wal_id,
                version,
                from_status,
                from_status if rerun else "in_progress",
                budget_from,
                why if rerun else None,
            )
        )
        self.attempts.append(
            (
                wal_id,
                attempts + 1,
                why,
                replay_run_id,
                unit.queue,
                format_instant(event.event_time),
                event.sns_message_id,
                event.sqs_message_id,
                object_ref.etag,
                object_ref.size,
                object_ref.sequencer,
                object_ref.version_id,
                from_status,
                version + 1,
            )
        )
        return Claim(
            unit=unit,
            attempt_no=attempts + 1,
            version=version + 1,
            intent=intent,
            claimed_from=status,
            budget_from=budget_from,
            replay_run_id=replay_run_id,
            replay_reason=replay_reason,
            replayed=replayed,
            owned_item=owned_item,
            has_message=event.sqs_message_id is not None,
        )

    def _write_run_records(self, tx: Transaction) -> None:
        """Let the run have a row of each unit that is new to the ledger."""
        if self.replay_run_id is None or not self.inserts:
            return
        rows = [(row[0], 1, "replay", "due", None) for row in self.inserts]
        tx.write("insert_run_records", rows, replay_run_id=self.replay_run_id)
        tx.execute("grow_replay_run", replay_run_id=self.replay_run_id, added=len(rows))

    def _reset(
        self,
        known: Known,
        kind: str,
        reason: str,
        budget_from: int,
        next_object: str | None,
        after: datetime | None,
    ) -> None:
        self.resets.append(
            reset_row(
                known.wal_id,
                known.version,
                due_at=format_instant(max(self.now, after or self.now)),
                budget_from=budget_from,
                lease_expiries=known.lease_expiries,
                next_object=next_object,
            )
        )
        self._journal(known, kind, Status.PENDING, reason)
        self.put_back.append((known.dataset, known.replay_reason))

    def _journal(self, known: Known, kind: str, target: Status, reason: str) -> None:
        self.transitions.append(
            transition_row(
                known.wal_id,
                kind,
                source=known.status,
                target=target,
                version=known.version,
                actor=self.worker.worker_id,
                reason=reason,
            )
        )

"""Replay runs in the database: registered once, applied batch by batch, added up.

A batch is one transaction: the units that it puts to work, the journal, the log and the rows of the
run commit together. So a run that was killed goes on after its last row, and nothing is applied
twice.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from tallgrass.canonical_json import canonical_text
from tallgrass.clock import format_instant
from tallgrass.errors import GuardRefused, InvalidInput, Refused, UnknownRecord
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import Rule
from tallgrass.governance.policy import ReplayMode
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.replay_reasons import DLQ_DRAIN, require_reason
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.replay.drain import require_documented
from tallgrass.replay.plan import PURPOSE, PlanAction, PlannedAction
from tallgrass.replay.run import (
    HELD_BY_SWITCH,
    MOVED,
    Fate,
    NewRun,
    RowOutcome,
    Run,
    RunRules,
    RunUnit,
    fate_of,
)
from tallgrass.replay.selection_file import spec_of
from tallgrass.storage.actor_store import lock_governance, require_acting, run_guarded
from tallgrass.storage.approval_store import ApprovalStore
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.change_store import require_open
from tallgrass.storage.interventions import register_reason, tell_moves, write_put_back
from tallgrass.storage.replay_reader import read_run
from tallgrass.storage.rows import known_from
from tallgrass.storage.switch_store import switched_off
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction, write_all
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each
from tallgrass.telemetry.replay_report import report_replay_batch

_NO_ID = "00000000-0000-0000-0000-000000000000"
_HIT_NOTE = "replay_hit"
_HOW_TO_PLAN = {
    PURPOSE: "write its plan with --dry-run --plan-out FILE",
    DLQ_DRAIN: "write its plan with `tallgrass dlq plan --file FILE`",
}

_Decided = list[tuple[PlannedAction, RunUnit, Fate]]


class ReplayStore:
    """Registers runs, applies their plans and tells what came of them."""

    def __init__(
        self,
        runner: TransactionRunner,
        approvals: ApprovalStore,
        rules: LedgerRules,
        *,
        recorder: Recorder = NOBODY,
    ) -> None:
        self._runner = runner
        self._approvals = approvals
        self._rules = rules
        self._recorder = recorder

    def register(
        self,
        order: NewRun,
        *,
        by: Acting,
        needed: int,
        purpose: str = PURPOSE,
        remediation: str | None = None,
    ) -> Run:
        """Register a run; the approval that it needs is used up in the same transaction.

        A drain of dead letters is refused without a reference and a word on what was mended.
        """
        if order.mode is ReplayMode.DLQ:
            require_documented(
                planned=True,
                change_ref=order.change_ref,
                incident_ref=order.incident_ref,
                remediation=remediation,
            )
        if order.reason == "none":
            message = "a replay needs a reason other than 'none'"
            raise InvalidInput(message, code="unknown_replay_reason")
        require_reason(order.reason, dict(self._rules.custom_reasons))

        def work(tx: Transaction) -> Run:
            lock_governance(tx)
            known_by = require_acting(tx, by, Role.OPERATOR, "a replay")
            if tx.select("replay_run", replay_run_id=order.replay_run_id):
                raise Refused(f"there is a run {order.replay_run_id}", code="run_exists")
            _require_references(tx, order)
            self._use_approval(tx, order, by, needed, purpose)
            now = tx.now()
            register_reason(tx, order.reason, self._rules, now)
            _insert(tx, order, name_of(by), now)
            detail = {**known_by, "plan_sha256": order.plan_sha256, "planned": order.planned}
            if remediation is not None:
                detail["remediation"] = remediation
            write_audit(tx, now, [_entry(order, name_of(by), "replay_run", detail)])
            return read_run(tx, order.replay_run_id)

        subject = f"replay:{order.replay_run_id}"
        return run_guarded(self._runner, work, by, "replay_run", subject)

    def resume(
        self, replay_run_id: str, *, by: Acting, planned: int, skipped: Mapping[str, int]
    ) -> Run:
        """Take a run up again, with the records that its plan has now."""

        def work(tx: Transaction) -> Run:
            lock_governance(tx)
            known_by = require_acting(tx, by, Role.OPERATOR, "a replay")
            run = read_run(tx, replay_run_id)
            text = _selection_text(run.order, skipped)
            tx.execute(
                "recount_replay_run", replay_run_id=replay_run_id, selection=text, planned=planned
            )
            detail = {**known_by, "planned": planned}
            entry = _entry(run.order, name_of(by), "replay_resume", detail)
            write_audit(tx, tx.now(), [entry])
            return read_run(tx, replay_run_id)

        return run_guarded(self._runner, work, by, "replay_resume", f"replay:{replay_run_id}")

    def refuse(self, replay_run_id: str, error: Refused, *, by: Acting) -> None:
        """Keep in the log that somebody was refused a run."""
        detail = {"guard": error.guard} if isinstance(error, GuardRefused) else {}
        entry = AuditEntry(
            actor=name_of(by) or "unknown",
            action="replay_run_refused",
            subject=f"replay:{replay_run_id}",
            reason=error.code,
            detail=detail,
        )
        self._runner.run(lambda tx: write_audit(tx, tx.now(), [entry]))

    def apply(self, run: Run, rows: Sequence[PlannedAction], rules: RunRules) -> list[Fate]:
        """Put a batch of planned records to work, each if it is still as it was planned.

        A record that the run has a row of already is left alone. Switches are read here, under the
        same lock as the units: none is put to work after its switch is seen to be turned.
        """
        order = run.order

        def work(tx: Transaction) -> _Decided:
            tx.lock("lock_run", [order.replay_run_id])
            wal_ids = [row.wal_id for row in rows]
            there = tx.select("known_run_records", replay_run_id=order.replay_run_id, rows=wal_ids)
            known = {row["wal_id"] for row in there}
            decided = _decide(tx, [row for row in rows if row.wal_id not in known], rules)
            self._put_to_work(tx, run, decided)
            written = [
                (row.wal_id, row.version, row.action.value, fate.outcome.value, fate.reason)
                for row, _, fate in decided
            ]
            tx.write("insert_run_records", written, replay_run_id=order.replay_run_id)
            return decided

        return self._applied(run, self._runner.run(work, _landed(run)))

    def apply_held(self, run: Run, rules: RunRules, *, after: str | None, size: int) -> list[str]:
        """Take up records that a switch held, from behind the given one; return those looked at."""
        order = run.order

        def work(tx: Transaction) -> tuple[list[str], _Decided]:
            tx.lock("lock_run", [order.replay_run_id])
            found = tx.select(
                "held_run_records",
                replay_run_id=order.replay_run_id,
                reason=HELD_BY_SWITCH,
                after=after or _NO_ID,
                size=size,
            )
            rows = [
                PlannedAction(row["wal_id"], row["version"], PlanAction(row["action"]))
                for row in found
            ]
            decided = _decide(tx, rows, rules)
            self._put_to_work(tx, run, decided)
            settled = [
                (row.wal_id, fate.outcome.value, fate.reason)
                for row, _, fate in decided
                if fate.reason != HELD_BY_SWITCH
            ]
            tx.write("settle_run_records", settled, replay_run_id=order.replay_run_id)
            return [row.wal_id for row in rows], decided

        looked_at, decided = self._runner.run(work)
        self._applied(run, decided)
        return looked_at

    def settle(self, run: Run) -> int:
        """Close the records whose units nobody will run for this run any more."""
        run_id = run.order.replay_run_id

        def work(tx: Transaction) -> int:
            tx.lock("lock_run", [run_id])
            lost = tx.select("lost_run_records", replay_run_id=run_id, reason=HELD_BY_SWITCH)
            rows = [(row["wal_id"], *_lost_as(row)) for row in lost]
            return tx.write("settle_run_records", rows, replay_run_id=run_id)

        return self._runner.run(work)

    def finish(self, run: Run) -> None:
        """Note that the run came to its end."""
        run_id = run.order.replay_run_id
        self._runner.run(
            lambda tx: tx.execute("finish_replay_run", now=tx.now(), replay_run_id=run_id)
        )

    def _use_approval(
        self, tx: Transaction, order: NewRun, by: Acting, needed: int, purpose: str
    ) -> None:
        if order.approval_id is None:
            if needed:
                message = (
                    f"the run needs {needed} approver{'s' * (needed > 1)}: {_HOW_TO_PLAN[purpose]},"
                    " then `tallgrass approvals request --plan FILE`"
                )
                raise GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)
            return
        self._approvals.use(
            tx,
            order.approval_id,
            purpose=purpose,
            subject_sha256=order.plan_sha256,
            used_for=f"replay {order.replay_run_id}",
            by=by,
            needed=max(1, needed),
        )

    def _put_to_work(self, tx: Transaction, run: Run, decided: _Decided) -> None:
        """Write what the decisions come to, each unit compared with the version it was read at."""
        order, now = run.order, tx.now()
        told = (run.actor, order.reason, order.replay_run_id, now)
        working = [(row, unit.known) for row, unit, fate in decided if fate.is_put_to_work]
        failed = [known for row, known in working if row.action is PlanAction.REPLAY]
        again = [known for row, known in working if row.action is PlanAction.RERUN]
        write_put_back(tx, failed, order.reason, order.replay_run_id, now)
        tell_moves(tx, failed, "replay", Status.PENDING, *told)
        newer = {unit.known.wal_id for _, unit, _ in decided if unit.newer_object}
        wishes = [
            (
                known.wal_id,
                known.version,
                _rerun_intent(order.intent, newer_object=known.wal_id in newer),
                order.reason,
                order.replay_run_id,
                format_instant(now),
            )
            for known in again
        ]
        write_all(tx, "ask_reruns", wishes, now=now)
        tell_moves(tx, again, "replay", Status.SUCCEEDED, *told)
        notes = [
            (unit.known.wal_id, unit.applied_attempt, run.actor, _HIT_NOTE, order.replay_run_id)
            for _, unit, fate in decided
            if fate.outcome is RowOutcome.HIT
        ]
        tx.write("insert_annotations", notes, now=now)

    def _applied(self, run: Run, decided: _Decided) -> list[Fate]:
        """Count what was committed."""
        put_back = [
            unit.known.dataset
            for row, unit, fate in decided
            if fate.is_put_to_work and row.action is PlanAction.REPLAY
        ]
        entered = ((dataset, Status.PENDING.value) for dataset in put_back)
        count_each(self._recorder, names.WAL_RECORDS, entered)
        reasons = ((dataset, run.order.reason) for dataset in put_back)
        count_each(self._recorder, names.WAL_REPLAYS, reasons)
        hits = ((u.known.dataset,) for _, u, fate in decided if fate.outcome is RowOutcome.HIT)
        count_each(self._recorder, names.REPLAY_HITS, hits)
        skipped = [fate.reason or "" for *_, fate in decided if fate.outcome is RowOutcome.SKIPPED]
        report_replay_batch(self._recorder, run.order.reason, len(decided), skipped)
        return [fate for _, _, fate in decided]


def _landed(run: Run) -> Callable[[Transaction, _Decided], bool]:
    """Return what asks whether a batch is in the database."""
    run_id = run.order.replay_run_id

    def landed(tx: Transaction, decided: _Decided) -> bool:
        tx.lock("lock_run", [run_id])
        first = [row.wal_id for row, _, _ in decided[:1]]
        return not first or bool(tx.select("known_run_records", replay_run_id=run_id, rows=first))

    return landed


def _decide(tx: Transaction, rows: Sequence[PlannedAction], rules: RunRules) -> _Decided:
    wal_ids = [row.wal_id for row in rows]
    tx.lock("lock_units", wal_ids)
    off = switched_off(tx, SwitchScope.REPLAY)
    units = {row["wal_id"]: _unit(row) for row in tx.select("run_units", rows=wal_ids)}
    if unknown := [wal_id for wal_id in wal_ids if wal_id not in units]:
        raise UnknownRecord(f"the ledger has no unit {unknown[0]}: the plan is of another one")
    return [(row, units[row.wal_id], fate_of(row, units[row.wal_id], rules, off)) for row in rows]


def _unit(row: Row) -> RunUnit:
    return RunUnit(
        known=known_from(row),
        is_open=bool(row["is_open"]),
        applied_attempt=row["applied_attempt"],
        applied_code_version=row["applied_code_version"],
        newer_object=row["next_object"] is not None,
        item=None if row["item"] is None else bytes(row["item"]),
    )


def _require_references(tx: Transaction, order: NewRun) -> None:
    """Refuse references that are unknown or closed, and an incident that nobody names."""
    require_open(tx, change_ref=order.change_ref, incident_ref=order.incident_ref)
    if order.reason == "incident" and order.incident_ref is None:
        message = "the reason 'incident' needs the incident that it refers to: --incident REF"
        raise Refused(message, code="reference_missing")


def _rerun_intent(intent: Intent, *, newer_object: bool) -> str:
    """Return why a succeeded unit is run again; a newer object that waited for it is new data."""
    if newer_object:
        return Intent.REINGEST.value
    return Intent.REPAIR.value if intent is Intent.INGEST else intent.value


def _lost_as(row: Row) -> tuple[str, str]:
    if row["status"] == Status.QUARANTINED.value or row["last_error_code"] is not None:
        return RowOutcome.FAILED.value, row["last_error_code"] or row["status"]
    return RowOutcome.SKIPPED.value, MOVED


def _insert(tx: Transaction, order: NewRun, actor: str, now: datetime) -> None:
    tx.execute(
        "insert_replay_run",
        now=now,
        replay_run_id=order.replay_run_id,
        mode=order.mode.value,
        intent=order.intent.value,
        reason=order.reason,
        actor=actor,
        selection=_selection_text(order, order.skipped),
        plan_sha256=order.plan_sha256,
        approval_id=order.approval_id,
        change_ref=order.change_ref,
        incident_ref=order.incident_ref,
        policy_ref=order.policy_ref,
        expected=canonical_text(list(order.expected)),
        code_version=order.code_version,
        config_version=order.config_version,
        planned=order.planned,
    )


def _selection_text(order: NewRun, skipped: Mapping[str, int]) -> str:
    return canonical_text(
        {
            "spec": spec_of(order.selection),
            "skipped": dict(skipped),
            "forced": order.forced,
            "allow_downgrade": order.allow_downgrade,
        }
    )


def _entry(order: NewRun, actor: str, action: str, detail: dict[str, object]) -> AuditEntry:
    return AuditEntry(
        actor=actor,
        action=action,
        subject=f"replay:{order.replay_run_id}",
        reason=order.reason,
        approval_ref=order.approval_id,
        detail=detail,
    )

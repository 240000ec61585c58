"""What people do to records by name: quarantine and annotate; and how a move is told.

Every refusal is told to the caller with its error, and kept in the audit log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput, TallgrassError, UnknownRecord, VersionConflict
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.transitions import require_legal
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.actor_store import require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.journal import transition_row
from tallgrass.storage.record_rows import reset_row
from tallgrass.storage.rows import known_from
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction, write_all
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each

#: The move in journal and log.
_QUARANTINE = "quarantine"

#: Units of a refused selection that the log names.
_IDS_TOLD_MAX = 100

#: A unit and the version at which somebody decided about it.
Selected = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of a selection."""

    done: tuple[str, ...]
    refused: dict[str, TallgrassError]


class Interventions:
    """The verbs that move records on somebody's word."""

    def __init__(self, runner: TransactionRunner, *, recorder: Recorder = NOBODY) -> None:
        self._runner = runner
        self._recorder = recorder

    def quarantine(self, selection: Sequence[Selected], *, reason: str, actor: Acting) -> Moved:
        """Take pending or failed units out of the flow, on a person's word."""
        if not reason.strip():
            raise InvalidInput("a quarantine needs a reason")
        versions, name = dict(selection), name_of(actor)

        def work(tx: Transaction) -> tuple[list[Known], Moved]:
            require_acting(tx, actor, Role.OPERATOR, "moving units by hand")
            wal_ids = sorted(versions)
            tx.lock("lock_units", wal_ids)
            found = {row["wal_id"]: known_from(row) for row in tx.select("units", rows=wal_ids)}
            now = tx.now()
            held, refused = _sort_out(versions, found)
            rows = [(k.wal_id, k.version, k.status.value, "quarantined_by_operator") for k in held]
            write_all(tx, "quarantine_records", rows, now=now)
            tell_moves(tx, held, _QUARANTINE, Status.QUARANTINED, name, reason, None, now)
            write_audit(tx, now, [_refusal_entry(i, e, name) for i, e in sorted(refused.items())])
            return held, Moved(done=tuple(k.wal_id for k in held), refused=refused)

        subject, detail = _told_as(sorted(versions))
        held, moved = run_guarded(self._runner, work, actor, _QUARANTINE, subject, detail)
        entered = ((known.dataset, Status.QUARANTINED.value) for known in held)
        count_each(self._recorder, names.WAL_RECORDS, entered)
        return moved

    def annotate(self, wal_id: str, attempt_no: int, *, actor: Acting, note: str) -> None:
        """Add a note to an attempt, for good; the attempt itself stays as it is."""
        if not note.strip():
            raise InvalidInput("a note needs words")

        def work(tx: Transaction) -> None:
            require_acting(tx, actor, Role.OPERATOR, "writing notes")
            row = (wal_id, attempt_no, name_of(actor), "note", note)
            tx.write("insert_annotations", [row], now=tx.now())

        run_guarded(self._runner, work, actor, "annotate", wal_id)


def register_reason(tx: Transaction, code: str, rules: LedgerRules, now: datetime) -> None:
    """Make a custom reason known to the database, with the approval that allows it."""
    if custom := rules.custom_reasons.get(code):
        row = (custom.code, custom.description, custom.approval_ref)
        tx.write("insert_reasons", [row], now=now)


def write_put_back(
    tx: Transaction,
    units: Sequence[Known],
    reason: str,
    replay_run_id: str,
    now: datetime,
    *,
    waits_for_message: bool = False,
) -> None:
    """Make failed units pending for a replay run: due, or to be run when their message comes."""
    due_at = None if waits_for_message else format_instant(now)
    rows = [
        reset_row(
            unit.wal_id,
            unit.version,
            due_at=due_at,
            budget_from=unit.budget_from,
            lease_expiries=unit.lease_expiries,
            replay_reason=reason,
            replay_run_id=replay_run_id,
        )
        for unit in units
    ]
    write_all(tx, "reset_records", rows, now=now)


def tell_moves(
    tx: Transaction,
    units: Sequence[Known],
    kind: str,
    target: Status,
    actor: str,
    reason: str,
    replay_run_id: str | None,
    now: datetime,
) -> None:
    """Write the edges that units took into the journal, and who moved them into the log."""
    journal = [
        transition_row(
            known.wal_id,
            kind,
            source=known.status,
            target=target,
            version=known.version,
            actor=actor,
            reason=reason,
            replay_run_id=replay_run_id,
        )
        for known in units
    ]
    tx.write("insert_transitions", journal, now=now)
    write_audit(tx, now, [_done_entry(known, kind, actor, reason) for known in units])


def _told_as(wal_ids: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return what the log calls a selection, and what it keeps of it beside that.

    Subjects are indexed, and PostgreSQL refuses one of some hundred ids; they stay short.
    """
    if len(wal_ids) <= 1:
        return "".join(wal_ids), {}
    named = list(wal_ids[:_IDS_TOLD_MAX])
    return f"{len(wal_ids)} units", {"first": wal_ids[0], "last": wal_ids[-1], "wal_ids": named}


def _sort_out(
    versions: dict[str, int], found: dict[str, Known]
) -> tuple[list[Known], dict[str, TallgrassError]]:
    """Divide a selection into what may be held and what is refused, each with its error."""
    allowed, refused = [], {}
    for wal_id in sorted(versions):
        try:
            known = found.get(wal_id)
            if known is None:
                raise UnknownRecord(f"the ledger has no unit {wal_id}")
            if known.version != versions[wal_id]:
                raise VersionConflict(
                    f"{wal_id} is at version {known.version}, not {versions[wal_id]}"
                )
            require_legal(known.status, Status.QUARANTINED, wal_id=wal_id)
            allowed.append(known)
        except TallgrassError as error:
            refused[wal_id] = error
    return allowed, refused


def _done_entry(known: Known, kind: str, actor: str, reason: str) -> AuditEntry:
    return AuditEntry(
        actor=actor,
        action=kind,
        subject=known.wal_id,
        reason=reason,
        detail={"from_status": known.status.value, "version": known.version},
    )


def _refusal_entry(wal_id: str, error: TallgrassError, actor: str) -> AuditEntry:
    return AuditEntry(
        actor=actor, action=f"{_QUARANTINE}_refused", subject=wal_id, reason=error.code, detail={}
    )

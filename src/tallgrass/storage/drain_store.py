"""What the ledger keeps of a drain: letters recorded before they are sent, units put back.

A batch is one transaction: the units that it puts back or holds, the journal, the log, the rows of
the run and of its letters commit together, before any message is sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tallgrass.canonical_json import canonical_text
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.dead_letter_plan import DrainRow
from tallgrass.replay.dead_letters import (
    CHANGED,
    SENT,
    DrainAction,
    DrainRules,
    KnownUnit,
    Letter,
    LetterFate,
    LetterReason,
    UnitFate,
    decide_letter,
    left,
)
from tallgrass.replay.drain import RunDrainRules, TakenLetter, fate_of
from tallgrass.replay.drain_report import LetterCount, LetterState
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import MOVED, RowOutcome, Run
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.interventions import tell_moves, write_put_back
from tallgrass.storage.rows import known_from, known_object
from tallgrass.storage.switch_store import switched_off
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction, write_all
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each
from tallgrass.telemetry.replay_report import report_replay_batch

_PAGE = 500
_NOT_TAKEN_UP = LetterReason.NOT_TAKEN_UP.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """A letter, and what is done with it."""

    taken: TakenLetter
    fate: LetterFate
    #: Whether this transaction writes it down; one that an earlier call recorded is only removed.
    is_new: bool

    @property
    def is_sent(self) -> bool:
        """Whether its message goes to the queue now."""
        return self.is_new and self.fate.action in SENT


class DrainStore:
    """Records what drains do, and tells what came of it."""

    def __init__(self, runner: TransactionRunner, *, recorder: Recorder = NOBODY) -> None:
        self._runner = runner
        self._recorder = recorder

    def look(self, object_uris: Sequence[str]) -> tuple[dict[str, KnownUnit], datetime]:
        """Return what the ledger knows of objects, and its time; only read."""
        found: dict[str, KnownUnit] = {}
        with self._runner.database.reading() as tx:
            for first in range(0, len(object_uris), _PAGE):
                found |= _known_units(tx, object_uris[first : first + _PAGE])
            return found, tx.now()

    def plan(self, run: Run, rows: Sequence[DrainRow]) -> None:
        """Write down the letters of a plan, before any of them is taken up."""
        for first in range(0, len(rows), _PAGE):
            self.leave(
                run, {row.message_id: (row, _NOT_TAKEN_UP) for row in rows[first : first + _PAGE]}
            )

    def record(
        self, run: Run, letters: Sequence[TakenLetter], rules: RunDrainRules
    ) -> list[tuple[LetterFate, bool]]:
        """Decide and write what becomes of letters; tell of each whether it is to be sent.

        Switches are read here, under the same locks as the units. A letter that was sent before,
        or needed no sending, is only removed.
        """
        if not letters:
            return []

        def work(tx: Transaction) -> list[_Decided]:
            decided = _decide(tx, run, letters, rules)
            _write(tx, run, decided)
            return decided

        decided = self._runner.run(work)
        count_each(self._recorder, names.WAL_RECORDS, _entered(decided))
        put_back = _units(decided, DrainAction.REPLAY)
        reasons = ((known.dataset, run.order.reason) for known in put_back)
        count_each(self._recorder, names.WAL_REPLAYS, reasons)
        count_each(self._recorder, names.DLQ_LETTERS, _taken_up(decided))
        stays = [
            each.fate.reason or each.fate.action.value
            for each in decided
            if each.fate.action is DrainAction.LEAVE
        ]
        report_replay_batch(self._recorder, run.order.reason, len(decided), stays)
        return [(each.fate, each.is_sent) for each in decided]

    def sent(self, run: Run, sent_as: Mapping[str, str]) -> None:
        """Note by which message each letter was sent."""
        run_id = run.order.replay_run_id
        self._runner.run(
            lambda tx: tx.write(
                "letters_sent", sorted(sent_as.items()), now=tx.now(), replay_run_id=run_id
            )
        )

    def removed(self, run: Run, message_ids: Sequence[str]) -> None:
        """Note that letters are gone."""
        if not message_ids:
            return
        run_id, rows = run.order.replay_run_id, [(name,) for name in sorted(message_ids)]
        self._runner.run(
            lambda tx: tx.write("letters_removed", rows, now=tx.now(), replay_run_id=run_id)
        )

    def leave(self, run: Run, reasons: Mapping[str, tuple[DrainRow, str]]) -> None:
        """Note why letters stay; one that is on its way is not touched."""
        rows = [
            (name, row.body_sha256, row.action.value, reason)
            for name, (row, reason) in sorted(reasons.items())
        ]
        if rows:
            run_id = run.order.replay_run_id
            self._runner.run(
                lambda tx: tx.write("leave_letters", rows, now=tx.now(), replay_run_id=run_id)
            )

    def counts(self, run: Run) -> list[LetterCount]:
        """Count the letters of a run."""
        with self._runner.database.reading() as tx:
            rows = tx.select("count_letters", replay_run_id=run.order.replay_run_id)
        return [
            LetterCount(
                action=DrainAction(row["action"]),
                state=LetterState(row["state"]),
                reason=row["reason"],
                letters=row["letters"],
                sent_again=row["sent_again"],
            )
            for row in rows
        ]

    def quality(self, run: Run) -> tuple[int, int]:
        """Count duplicates and lineage regressions of a run."""
        with self._runner.database.reading() as tx:
            row = tx.select("drain_quality", replay_run_id=run.order.replay_run_id)[0]
        return row["duplicates"], row["lineage_regressions"]

    def succeeded_later(self, run: Run) -> dict[str, int]:
        """Count the units that failed in a run and have succeeded since, by what they failed of."""
        with self._runner.database.reading() as tx:
            rows = tx.select("succeeded_later", replay_run_id=run.order.replay_run_id)
        return {row["reason"]: row["units"] for row in rows}

    def awaited(self, run: Run) -> int:
        """Count the units that a message of the run leads to, and that are not at an end yet."""
        with self._runner.database.reading() as tx:
            rows = tx.select("awaited_units", replay_run_id=run.order.replay_run_id)
        return int(rows[0]["units"])

    def settle(self, run: Run) -> int:
        """Close the records whose units are no longer this run's; those that wait stay due."""
        run_id = run.order.replay_run_id

        def work(tx: Transaction) -> int:
            tx.lock("lock_run", [run_id])
            rows = [
                (row["wal_id"], *_ended_as(row["status"], row["last_error_code"]))
                for row in tx.select("taken_over_run_records", replay_run_id=run_id)
            ]
            return tx.write("settle_run_records", rows, replay_run_id=run_id)

        return self._runner.run(work)


def _ended_as(status: str, code: str | None) -> tuple[str, str]:
    if status == Status.QUARANTINED.value or code is not None:
        return RowOutcome.FAILED.value, code or status
    return RowOutcome.SKIPPED.value, MOVED


def _known_units(tx: Transaction, object_uris: Sequence[str]) -> dict[str, KnownUnit]:
    return {
        row["object_uri"]: KnownUnit(known=known_from(row), object_ref=known_object(row))
        for row in tx.select("known_objects", rows=list(object_uris))
    }


def _decide(
    tx: Transaction, run: Run, letters: Sequence[TakenLetter], rules: RunDrainRules
) -> list[_Decided]:
    run_id = run.order.replay_run_id
    tx.lock("lock_run", [run_id])
    message_ids = [each.letter.message_id for each in letters]
    begun = {
        row["message_id"]: (LetterState(row["state"]), DrainAction(row["action"]))
        for row in tx.select("letters_of_run", replay_run_id=run_id, rows=message_ids)
    }
    uris = sorted({unit.object_uri for each in letters for unit in each.letter.parsed.units})
    tx.lock("lock_objects", uris)
    known = _known_units(tx, uris)
    # Read when nothing is awaited any more: a switch that is turned meanwhile counts.
    judging, now = rules(switched_off(tx, SwitchScope.REPLAY)), tx.now()
    return [
        _decided(each, begun.get(each.letter.message_id), known, judging, run_id, now)
        for each in letters
    ]


def _decided(
    taken: TakenLetter,
    begun: tuple[LetterState, DrainAction] | None,
    known: Mapping[str, KnownUnit],
    rules: DrainRules,
    run_id: str,
    now: datetime,
) -> _Decided:
    letter, row = taken.letter, taken.row
    if begun is not None:
        state, action = begun
        needs_sending = state is LetterState.RECORDED and action in SENT
        if state is not LetterState.LEFT and not needs_sending:
            return _Decided(taken=taken, fate=LetterFate(action=action), is_new=False)
    if letter.body_sha256 != row.body_sha256:
        return _Decided(taken=taken, fate=left(CHANGED), is_new=True)
    fate = fate_of(row, decide_letter(letter, known, rules, now), run_id)
    return _Decided(taken=taken, fate=fate, is_new=True)


def _write(tx: Transaction, run: Run, decided: Sequence[_Decided]) -> None:
    """Write what the decisions come to, each unit compared with the version it was read at."""
    order, now = run.order, tx.now()
    told = (run.actor, order.reason, order.replay_run_id, now)
    put_back = _units(decided, DrainAction.REPLAY)
    write_put_back(tx, put_back, order.reason, order.replay_run_id, now, waits_for_message=True)
    tell_moves(tx, put_back, "replay", Status.PENDING, *told)
    _write_run_records(tx, order.replay_run_id, put_back)
    holds = _newly_held(decided)
    held = [(k.wal_id, k.version, k.status.value, "attempts_exhausted") for k in holds]
    write_all(tx, "quarantine_records", held, now=now)
    tell_moves(tx, holds, "quarantine", Status.QUARANTINED, *told)
    _write_letters(tx, run, decided, now)


def _write_run_records(tx: Transaction, run_id: str, put_back: Sequence[Known]) -> None:
    """Let the run have a row of each unit; one that it put back before has its row already."""
    wal_ids = [known.wal_id for known in put_back]
    there = tx.select("known_run_records", replay_run_id=run_id, rows=wal_ids) if wal_ids else ()
    old = {row["wal_id"] for row in there}
    rows = [
        (known.wal_id, known.version, PlanAction.REPLAY.value, RowOutcome.DUE.value, None)
        for known in put_back
        if known.wal_id not in old
    ]
    if rows:
        tx.write("insert_run_records", rows, replay_run_id=run_id)
        tx.execute("grow_replay_run", replay_run_id=run_id, added=len(rows))


def _units(decided: Sequence[_Decided], action: DrainAction) -> list[Known]:
    """Return the units of letters that go, each once however many letters name it."""
    found: dict[str, Known] = {}
    for unit in _moved(decided):
        if unit.action is action and unit.known is not None:
            found[unit.wal_id] = unit.known
    return [found[wal_id] for wal_id in sorted(found)]


def _moved(decided: Sequence[_Decided]) -> list[UnitFate]:
    return [
        unit
        for each in decided
        if each.fate.action is not DrainAction.LEAVE
        for unit in each.fate.units
    ]


def _write_letters(tx: Transaction, run: Run, decided: Sequence[_Decided], now: datetime) -> None:
    run_id = run.order.replay_run_id
    taken_up, stays, entries = [], [], []
    for each in decided:
        name, row, fate = each.taken.letter.message_id, each.taken.row, each.fate
        if fate.action is DrainAction.LEAVE:
            stays.append((name, row.body_sha256, row.action.value, fate.reason))
        elif each.is_new:
            state, sends = LetterState.RECORDED.value, int(each.is_sent)
            about = (name, row.body_sha256, fate.action.value, fate.reason)
            taken_up.append((*about, state, sends, _led_to(fate)))
            entries.append(_entry(run, name, row.body_sha256, fate))
    tx.write("record_letters", taken_up, now=now, replay_run_id=run_id)
    tx.write("leave_letters", stays, now=now, replay_run_id=run_id)
    write_audit(tx, now, entries)


def _led_to(fate: LetterFate) -> str:
    """Return the units that wait for the letter's message, as they are kept."""
    awaited = {(unit.wal_id, unit.version) for unit in fate.units if unit.action in SENT}
    return canonical_text(sorted(awaited, key=lambda unit: unit[0]))


def _entry(run: Run, message_id: str, digest: str, fate: LetterFate) -> AuditEntry:
    return AuditEntry(
        actor=run.actor,
        action=f"dlq_{fate.action.value}",
        subject=f"letter:{message_id}",
        reason=fate.reason or run.order.reason,
        detail={
            "replay_run_id": run.order.replay_run_id,
            "body_sha256": digest,
            "wal_ids": [wal_id for wal_id, _ in fate.versions],
        },
    )


def _entered(decided: Sequence[_Decided]) -> list[tuple[str, str]]:
    replays = [(k.dataset, Status.PENDING.value) for k in _units(decided, DrainAction.REPLAY)]
    holds = [(k.dataset, Status.QUARANTINED.value) for k in _newly_held(decided)]
    return replays + holds


def _newly_held(decided: Sequence[_Decided]) -> list[Known]:
    units = _units(decided, DrainAction.QUARANTINE)
    return [known for known in units if known.status is not Status.QUARANTINED]


def _taken_up(decided: Sequence[_Decided]) -> list[tuple[str, str]]:
    return [
        (_dataset_of(each.taken.letter), each.fate.action.value)
        for each in decided
        if each.is_new and each.fate.action is not DrainAction.LEAVE
    ]


def _dataset_of(letter: Letter) -> str:
    units = letter.parsed.units
    return units[0].dataset if units else "none"

"""Closing a batch of claims: attempt rows first (the fence), then the records of the winners."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.budget import after_a_hand_back, attempts_used
from tallgrass.ledger.claim import SUCCEEDED, Claim, ClosedClaim, CommitResult, WorkerLease
from tallgrass.ledger.outcome import Outcome, Verdict, is_retried, judge
from tallgrass.ledger.redaction import redact
from tallgrass.ledger.replay_reasons import DLQ_DRAIN
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Status
from tallgrass.operators.effects import Effects
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.catalog_writes import CatalogWrites, StagedEffects
from tallgrass.storage.journal import transition_row
from tallgrass.storage.record_rows import failed_rerun_row, reset_row
from tallgrass.storage.replay_closing import ReplayClose, ReplayClosing
from tallgrass.storage.rows import issues_text
from tallgrass.storage.unit_of_work import Transaction, write_all

_Rows = list[tuple[object, ...]]

#: The code of an attempt that was given back: it counts for nothing.
_GIVEN_BACK = "handed_back"

#: What a verdict makes a unit enter, in order.
_ENTERED = {
    Verdict.SUCCEEDED: (Status.SUCCEEDED,),
    Verdict.FAILED: (Status.FAILED,),
    Verdict.RETRY: (Status.FAILED, Status.PENDING),
    Verdict.QUARANTINED: (Status.FAILED, Status.QUARANTINED),
}


@dataclass(slots=True)
class _Close:
    """One claim with all that is decided about it before the transaction begins."""

    claim: Claim
    outcome: Outcome
    verdict: Verdict
    #: At its limit, or rejected for good: the ledger will not run it again by itself.
    given_up: bool
    #: Where its budget begins if it did not succeed.
    budget_from: int
    error_message: str | None
    delay_s: float
    #: What the four operators said, as it is stored.
    statuses: tuple[str, str, str, str]


class Closing:
    """A batch of outcomes, judged once; `write` may run again after a conflict."""

    def __init__(
        self,
        outcomes: Sequence[tuple[Claim, Outcome]],
        rules: LedgerRules,
        random: Callable[[], float],
        *,
        commit_id: str,
        effects: Mapping[str, Effects],
        catalog: CatalogWrites,
    ) -> None:
        if len({claim.wal_id for claim, _ in outcomes}) != len(outcomes):
            raise InvalidInput("a claim stands twice in the batch; report on it once")
        self._commit_id = commit_id
        self._rules = rules
        self._effects = effects
        self._catalog = catalog
        self._closes = sorted(
            (self._judge(claim, outcome, random) for claim, outcome in outcomes),
            key=lambda close: close.claim.unit.wal_id,
        )
        #: What the commit tells replay runs; that of the try that was committed.
        self.replays: ReplayClosing

    def write(self, tx: Transaction, worker: WorkerLease) -> CommitResult:
        """Compare and set all outcomes; write records only for the attempts that were ours."""
        closes = self._closes
        tx.lock("lock_units", [close.claim.unit.wal_id for close in closes])
        now = tx.now()
        changed = tx.write(
            "close_attempts",
            [_attempt_row(close) for close in closes],
            now=now,
            commit_id=self._commit_id,
            incarnation=worker.incarnation,
        )
        lost: tuple[str, ...] = ()
        if changed != len(closes):
            won = self._won(tx)
            lost = tuple(c.claim.wal_id for c in closes if c.claim.wal_id not in won)
            closes = [close for close in closes if close.claim.wal_id in won]
        self.replays = ReplayClosing(_asked_for(closes), self._effects)
        self.replays.look(tx)
        self._write_records(tx, worker, closes, now)
        self._catalog.write(tx, self._staged(closes), now)
        self.replays.write(tx)
        return CommitResult(
            closed={close.claim.unit.wal_id: _closed(close) for close in closes}, lost=lost
        )

    def landed(self, tx: Transaction, result: CommitResult) -> bool:
        """Tell whether the transaction with this commit id is in the database."""
        return not result.closed or bool(self._won(tx))

    def entered(self, result: CommitResult) -> Iterator[tuple[str, str]]:
        """Yield dataset and status for each status that a unit entered; a re-run enters none."""
        for close in self._closes:
            claim = close.claim
            if claim.wal_id in result.closed and claim.claimed_from is not Status.SUCCEEDED:
                for status in _ENTERED[close.verdict]:
                    yield claim.unit.dataset, status.value

    def put_back(self, result: CommitResult) -> Iterator[tuple[str, str]]:
        """Yield dataset and replay reason of each unit that failed and is pending again."""
        for close in self._closes:
            claim = close.claim
            goes_back = close.verdict is Verdict.RETRY and claim.wal_id in result.closed
            if goes_back and claim.claimed_from is not Status.SUCCEEDED:
                yield claim.unit.dataset, claim.replay_reason

    def _staged(self, closes: Sequence[_Close]) -> list[StagedEffects]:
        """Return what the successes of the batch write beside the ledger."""
        return [
            StagedEffects(close.claim, close.outcome.stac_status, effects)
            for close in closes
            if close.verdict is Verdict.SUCCEEDED
            and (effects := self._effects.get(close.claim.unit.wal_id)) is not None
        ]

    def _won(self, tx: Transaction) -> set[str]:
        ids = [close.claim.wal_id for close in self._closes]
        rows = tx.select("closed_by", commit_id=self._commit_id, rows=ids)
        return {row["wal_id"] for row in rows}

    def _judge(self, claim: Claim, outcome: Outcome, random: Callable[[], float]) -> _Close:
        if (outcome.wal_id, outcome.attempt_no) != (claim.wal_id, claim.attempt_no):
            raise InvalidInput(
                f"{claim.wal_id}, attempt {claim.attempt_no}: the report is on "
                f"{outcome.wal_id}, attempt {outcome.attempt_no}"
            )
        given_back, budget_from = outcome.error_code == _GIVEN_BACK, claim.budget_from
        if given_back:
            budget_from = after_a_hand_back(budget_from)
        used = attempts_used(claim.attempt_no, budget_from)
        verdict = judge(outcome, claim.unit.dataset, used, self._rules)
        given_up = verdict is Verdict.QUARANTINED
        if given_up and claim.claimed_from is Status.SUCCEEDED:
            verdict = Verdict.FAILED  # a re-run never moves its unit
        delay_s = 0.0
        if verdict is not Verdict.SUCCEEDED and not given_back:
            delay_s = self._rules.backoff.delay_s(used, random)
        message = None if outcome.error_message is None else redact(outcome.error_message)
        statuses = (
            outcome.integrity_status.value,
            outcome.metadata_status.value,
            outcome.stac_status.value,
            outcome.provenance_status.value,
        )
        return _Close(claim, outcome, verdict, given_up, budget_from, message, delay_s, statuses)

    def _write_records(
        self, tx: Transaction, worker: WorkerLease, closes: Sequence[_Close], now: datetime
    ) -> None:
        records: _Rows = []
        reruns: _Rows = []
        resets: _Rows = []
        quarantines: _Rows = []
        transitions: _Rows = []
        audit: list[AuditEntry] = []
        for close in closes:
            if close.verdict is Verdict.SUCCEEDED:
                records.append(_success_row(close))
                continue
            if close.claim.claimed_from is Status.SUCCEEDED:
                reruns.append(_failed_rerun_row(close, now))
                if close.given_up:
                    audit.append(_given_up_entry(close, worker, "give_up_rerun"))
                continue
            records.append(_failure_row(close, now))
            if close.verdict is Verdict.RETRY:
                resets.append(_reset_row(close, now))
                kind = "hand_back" if close.outcome.error_code == _GIVEN_BACK else "not_yet"
                transitions.append(_transition_row(close, worker, kind, Status.PENDING))
            elif close.verdict is Verdict.QUARANTINED:
                quarantines.append(
                    (close.claim.wal_id, close.claim.version + 1, "failed", "attempts_exhausted")
                )
                transitions.append(_transition_row(close, worker, "quarantine", Status.QUARANTINED))
                audit.append(_given_up_entry(close, worker, "quarantine"))
        for name, rows in (
            ("close_records", records),
            ("fail_reruns", reruns),
            ("reset_records", resets),
            ("quarantine_records", quarantines),
            ("insert_transitions", transitions),
        ):
            write_all(tx, name, rows, now=now)
        write_audit(tx, now, audit)


def _asked_for(closes: Sequence[_Close]) -> dict[str, ReplayClose]:
    """Return the claims that replay runs asked for, and those of units that a drain put back.

    Such a unit leaves its run when it fails once more; its letter is told when it succeeds.
    """
    return {
        close.claim.unit.wal_id: ReplayClose(
            claim=close.claim,
            outcome=close.outcome,
            succeeded=close.verdict is Verdict.SUCCEEDED,
            scheduled=_is_scheduled(close),
        )
        for close in closes
        if close.claim.replay_run_id is not None or close.claim.replay_reason == DLQ_DRAIN
    }


def _is_scheduled(close: _Close) -> bool:
    """Tell whether the ledger itself runs a unit again that failed."""
    code = close.outcome.error_code
    if close.verdict is Verdict.RETRY or code is None:
        return code is not None
    if close.given_up or not is_retried(code):
        return False
    return close.claim.claimed_from is Status.SUCCEEDED or not close.claim.has_message


def _closed(close: _Close) -> ClosedClaim:
    if close.verdict is Verdict.SUCCEEDED:
        return SUCCEEDED
    return ClosedClaim(
        verdict=close.verdict, error_code=close.outcome.error_code, retry_s=close.delay_s
    )


def _attempt_row(close: _Close) -> tuple[object, ...]:
    claim, outcome = close.claim, close.outcome
    return (
        claim.unit.wal_id,
        claim.attempt_no,
        "applied" if close.verdict is Verdict.SUCCEEDED else "failed",
        claim.version + 1,
        outcome.error_code,
        close.error_message,
        *close.statuses,
        outcome.read_etag,
        None if outcome.evidence is None else outcome.evidence.decode(),
        outcome.item_sha256,
        outcome.provenance_sha256,
        outcome.prov_activity_id,
        outcome.openlineage_run_id,
        issues_text(outcome.issues),
    )


def _success_row(close: _Close) -> tuple[object, ...]:
    """Success clears the last error and starts a new budget."""
    claim, outcome = close.claim, close.outcome
    return (
        claim.unit.wal_id,
        claim.version,
        "succeeded" if claim.claimed_from is Status.SUCCEEDED else "in_progress",
        "succeeded",
        None,
        None,
        *close.statuses,
        outcome.stac_item_id,
        outcome.stac_collection_id,
        outcome.stac_item_href,
        claim.attempt_no,
        claim.attempt_no,
        None,
        None,
    )


def _failure_row(close: _Close, now: datetime) -> tuple[object, ...]:
    """A failure with a message behind it waits for redelivery; without one the ledger retries."""
    claim, outcome = close.claim, close.outcome
    retry_after = _after(now, close.delay_s)
    return (
        claim.unit.wal_id,
        claim.version,
        "in_progress",
        "failed",
        outcome.error_code,
        close.error_message,
        *close.statuses,
        outcome.stac_item_id,
        outcome.stac_collection_id,
        outcome.stac_item_href,
        None,
        close.budget_from,
        retry_after if _is_scheduled(close) else None,
        retry_after,
    )


def _failed_rerun_row(close: _Close, now: datetime) -> tuple[object, ...]:
    """A failed re-run is due again until its limit, or until a code that is not retried."""
    return failed_rerun_row(
        close.claim.wal_id,
        close.claim.version,
        error_code=close.outcome.error_code,
        error_message=close.error_message,
        due_at=_after(now, close.delay_s) if _is_scheduled(close) else None,
        budget_from=close.budget_from,
        lease_expiries=0,
    )


def _reset_row(close: _Close, now: datetime) -> tuple[object, ...]:
    claim = close.claim
    return reset_row(
        claim.wal_id,
        claim.version + 1,
        due_at=_after(now, close.delay_s),
        budget_from=close.budget_from,
        lease_expiries=0,
        replay_run_id=claim.replay_run_id,
    )


def _transition_row(
    close: _Close, worker: WorkerLease, kind: str, target: Status
) -> tuple[object, ...]:
    """Return the second edge of an outcome that takes two, out of failed."""
    held = target is Status.QUARANTINED
    return transition_row(
        close.claim.wal_id,
        kind,
        source=Status.FAILED,
        target=target,
        version=close.claim.version + 1,
        actor=worker.worker_id,
        reason=_hold_reason(close) if held else close.outcome.error_code or kind,
    )


def _hold_reason(close: _Close) -> str:
    hard = close.outcome.error_code == "governance_hard_fail"
    return "governance_hard_fail" if hard else "attempts_exhausted"


def _given_up_entry(close: _Close, worker: WorkerLease, action: str) -> AuditEntry:
    return AuditEntry(
        actor=worker.worker_id,
        action=action,
        subject=close.claim.wal_id,
        reason=_hold_reason(close),
        detail={"attempts": close.claim.attempt_no, "last_error_code": close.outcome.error_code},
    )


def _after(now: datetime, delay_s: float) -> str:
    return format_instant(now + timedelta(seconds=delay_s))

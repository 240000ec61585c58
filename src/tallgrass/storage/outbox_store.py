"""Deliveries in the database: claimed, settled, given back, asked for again."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput, VersionConflict
from tallgrass.governance.actors import Acting, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.ledger.redaction import redact
from tallgrass.outbox.deliveries import Requeued
from tallgrass.outbox.dispatch_rules import (
    AttemptOutcome,
    ClaimedEvent,
    Claims,
    DeliveryState,
    DispatchRules,
    Settled,
    Settlement,
)
from tallgrass.storage.actor_store import require_acting, run_guarded
from tallgrass.storage.audit_store import write_audit
from tallgrass.storage.outbox_reader import event_from
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction, write_all

_LOST_AT_LIMIT = "the last dispatcher that had it was not heard of again"
_PAGE_SIZE = 500


class OutboxStore:
    """Hands out events and takes what became of them. Each verb is one transaction a batch."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def is_due(self, target: str) -> bool:
        """Tell by reading alone whether anything of a target may be claimed."""
        with self._runner.database.reading() as tx:
            return bool(tx.select("is_due", now=tx.now(), target=target))

    def claim(
        self,
        target: str,
        *,
        dispatcher: str,
        limit: int,
        rules: DispatchRules,
        ordered: bool = False,
    ) -> Claims:
        """Claim due events in the order of their due time; each is the caller's for a lease.

        One that was claimed before and not settled gets its former attempt written as lost. One
        that has no try left is exhausted and told of beside the claimed. Of an ordered target only
        the first open event of each dataset is handed out.
        """

        def work(tx: Transaction) -> Claims:
            now = tx.now()
            query = "due_heads" if ordered else "due_deliveries"
            due = tx.select(query, now=now, target=target, size=limit)
            if not due:
                return Claims()
            lost = [row for row in due if row["claimed_by"] is not None]
            tx.write(
                "insert_lost_attempts",
                [(row["outbox_id"], row["attempt"], row["claimed_by"]) for row in lost],
                now=now,
            )
            spent = [row for row in due if _tries(row) >= rules.attempts_max]
            rows = [(row["outbox_id"],) for row in spent]
            write_all(tx, "exhaust_deliveries", rows, now=now, last_error=_LOST_AT_LIMIT)
            taken = [row for row in due if _tries(row) < rules.attempts_max] if spent else due
            write_all(
                tx,
                "claim_deliveries",
                [(row["outbox_id"],) for row in taken],
                leased_until=now + timedelta(seconds=rules.lease_s),
                dispatcher=dispatcher,
            )
            return Claims(events=[_claimed(row) for row in taken], exhausted=_exhausted(tx, spent))

        return self._runner.run(work)

    def settle(self, dispatcher: str, settlements: Sequence[Settlement]) -> Settled:
        """Write what became of claimed events; one that was claimed again meanwhile is left alone.

        If the connection breaks during COMMIT, the attempts tell whether it came through; if that
        stays unknown, it may be called again.
        """
        told = [[*_key(one), one.outcome.value] for one in settlements]

        def work(tx: Transaction) -> tuple[Settled, int]:
            now = tx.now()
            _write_settlements(tx, now, dispatcher, sorted(settlements, key=_key))
            return Settled(at=now, lost=frozenset()), len(settlements)

        def work_on_what_is_held(tx: Transaction) -> tuple[Settled, int]:
            now = tx.now()
            _write_settlements(tx, now, dispatcher, _held(tx, dispatcher, settlements))
            done = written(tx)  # by this call, or by one whose COMMIT got no answer
            lost = frozenset(one.event.outbox_id for one in settlements) - done
            return Settled(at=now, lost=lost), len(done)

        def written(tx: Transaction) -> set[str]:
            rows = tx.select("written_attempts", dispatcher=dispatcher, rows=told)
            return {row["outbox_id"] for row in rows}

        def landed(tx: Transaction, result: tuple[Settled, int]) -> bool:
            return len(written(tx)) == result[1]

        try:
            return self._runner.run(work, landed)[0]
        except VersionConflict:
            # Rare: some were claimed by others, or are written. Asking first would cost each batch
            # a statement.
            return self._runner.run(work_on_what_is_held, landed)[0]

    def abandon(self, target: str, dispatcher: str) -> int:
        """Give back whatever a dispatcher holds; return how many events."""

        def work(tx: Transaction) -> int:
            held = tx.select("held_by_dispatcher", target=target, dispatcher=dispatcher)
            by_attempt: dict[int, list[str]] = {}
            for row in held:
                by_attempt.setdefault(row["attempt"], []).append(row["outbox_id"])
            told: dict[str, object] = {"now": tx.now(), "dispatcher": dispatcher}
            how = {"outcome": AttemptOutcome.RELEASED.value, "duplicate": False}
            for attempt, ids in by_attempt.items():
                tx.write("release_rows", [(each,) for each in ids], **told, attempt=attempt)
                rows = [(each, None, None) for each in ids]
                tx.write("insert_delivery_attempts", rows, **told, attempt=attempt, **how)
            return len(held)

        return self._runner.run(work)

    def requeue(self, outbox_ids: Sequence[str], *, actor: Acting, reason: str) -> Requeued:
        """Make exhausted events due again, with a new budget; note who asked for it why."""
        _require_named(actor, reason)
        done: list[str] = []
        left_out: dict[str, DeliveryState | None] = {}
        for first in range(0, len(outbox_ids), _PAGE_SIZE):
            wanted = sorted(set(outbox_ids[first : first + _PAGE_SIZE]))
            with self._runner.database.reading() as tx:
                rows = tx.select("deliveries_by_id", rows=wanted)
            found = {row["outbox_id"]: row for row in rows}
            exhausted = [row for row in rows if row["state"] == DeliveryState.EXHAUSTED]
            done += self._requeue_page(exhausted, actor, reason)
            left_out |= {
                name: DeliveryState(found[name]["state"]) if name in found else None
                for name in wanted
                if name not in done
            }
        return Requeued(requeued=tuple(done), left_out=left_out)

    def requeue_all(
        self, *, target: str | None, error_code: str | None, actor: Acting, reason: str
    ) -> Iterator[Sequence[str]]:
        """Make all exhausted events of a target, with an error code, due again; page by page."""
        _require_named(actor, reason)
        for page in self.exhausted_pages(target=target, error_code=error_code):
            yield self._requeue_page(page, actor, reason)

    def exhausted_pages(
        self, *, target: str | None, error_code: str | None
    ) -> Iterator[Sequence[Row]]:
        """Yield pages of exhausted events in the order of their ids."""
        after = None
        while True:
            with self._runner.database.reading() as tx:
                page = tx.select(
                    "exhausted_deliveries",
                    after=after,
                    size=_PAGE_SIZE,
                    target=target,
                    error_code=error_code,
                )
            if not page:
                return
            yield page
            after = page[-1]["outbox_id"]

    def _requeue_page(self, page: Sequence[Row], actor: Acting, reason: str) -> list[str]:
        """Requeue events as they were read; one that somebody else moved undoes the page."""
        if not page:
            return []

        def work(tx: Transaction) -> None:
            known_by = require_acting(tx, actor, Role.OPERATOR, "sending events again")
            now = tx.now()
            entries = [_requeue_entry(row, name_of(actor), reason, known_by) for row in page]
            rows = [(row["outbox_id"], row["attempt"]) for row in page]
            write_all(tx, "requeue_deliveries", rows, now=now)
            write_audit(tx, now, entries)

        first = f"outbox:{page[0]['outbox_id']}"
        run_guarded(self._runner, work, actor, "outbox_requeue", first)
        return [row["outbox_id"] for row in page]


def _tries(row: Row) -> int:
    """Return the attempts of a row that count against the limit, before a claim."""
    tries: int = row["attempt"] - row["budget_from"]
    return tries


def _claimed(row: Row) -> ClaimedEvent:
    """Read a row that is about to be claimed, as it will be then."""
    return ClaimedEvent(event=event_from(row, row["attempt"] + 1), tries=_tries(row) + 1)


def _exhausted(tx: Transaction, spent: Sequence[Row]) -> list[Settlement]:
    """Return what became of rows that no try was left for, as it now stands."""
    if not spent:
        return []
    rows = tx.select("deliveries_by_id", rows=[row["outbox_id"] for row in spent])
    now = {str(row["outbox_id"]): row for row in rows}
    events = [event_from(row, row["attempt"]) for row in spent]
    return [
        Settlement(
            event=event,
            outcome=AttemptOutcome.FAILED,
            error_code=now[event.outbox_id]["error_code"],
            error=now[event.outbox_id]["last_error"],
        )
        for event in events
    ]


def _held(tx: Transaction, dispatcher: str, settlements: Sequence[Settlement]) -> list[Settlement]:
    """Return the settlements of events that are still the dispatcher's, of the same attempt."""
    ids = sorted(one.event.outbox_id for one in settlements)
    rows = tx.select("held_deliveries", dispatcher=dispatcher, rows=ids)
    held = {(row["outbox_id"], row["attempt"]) for row in rows}
    ours = [one for one in settlements if (one.event.outbox_id, one.event.attempt) in held]
    return sorted(ours, key=_key)


def _write_settlements(
    tx: Transaction, now: datetime, dispatcher: str, held: Sequence[Settlement]
) -> None:
    """Write settlements, those alike together: of most batches there is one kind."""
    alike: dict[tuple[AttemptOutcome, int, bool], list[Settlement]] = {}
    for one in held:
        kind = (one.outcome, one.event.attempt, one.duplicate)
        alike.setdefault(kind, []).append(one)
    for (outcome, attempt, duplicate), ones in alike.items():
        told: dict[str, object] = {"now": now, "dispatcher": dispatcher, "attempt": attempt}
        errors = [None if one.error is None else redact(one.error) for one in ones]
        if outcome is AttemptOutcome.FAILED:
            failed = [_failed(one, error, now) for one, error in zip(ones, errors, strict=True)]
            write_all(tx, "fail_rows", failed, **told)
        else:
            name = "deliver_rows" if outcome is AttemptOutcome.DISPATCHED else "release_rows"
            write_all(tx, name, [(one.event.outbox_id,) for one in ones], **told)
        attempts = [
            (one.event.outbox_id, one.error_code, error)
            for one, error in zip(ones, errors, strict=True)
        ]
        told |= {"outcome": outcome.value, "duplicate": duplicate}
        tx.write("insert_delivery_attempts", attempts, **told)


def _failed(one: Settlement, error: str | None, now: datetime) -> tuple[object, ...]:
    return (
        one.event.outbox_id,
        None if one.wait_s is None else format_instant(now + timedelta(seconds=one.wait_s)),
        one.error_code,
        error,
    )


def _key(one: Settlement) -> tuple[str, int]:
    return one.event.outbox_id, one.event.attempt


def _requeue_entry(row: Row, actor: str, reason: str, known_by: Mapping[str, object]) -> AuditEntry:
    return AuditEntry(
        actor=actor,
        action="outbox_requeue",
        subject=f"outbox:{row['outbox_id']}",
        reason=reason,
        detail={
            **known_by,
            "target": row["target"],
            "attempt": row["attempt"],
            "error_code": row["error_code"],
        },
    )


def _require_named(actor: Acting, reason: str) -> None:
    if not name_of(actor).strip() or not reason.strip():
        raise InvalidInput("asking for events again needs an actor and a reason")

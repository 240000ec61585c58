"""What to do with a unit that a message announces: the receipt table.

Every pair of {no record, pending, in_progress fresh, in_progress lost, failed, succeeded,
quarantined} × {same, newer, older, incomparable object} has exactly one answer here.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tallgrass.ledger.budget import attempts_used
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.outcome import is_retried
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.made_often import made_often


class Action(StrEnum):
    """What becomes of an announced unit."""

    CLAIM = "claim"  # open an attempt now
    WAIT = "wait"  # held elsewhere, or its back-off runs: see the message again later
    DUE = "due"  # the ledger runs it by its own schedule: the message may go
    PARK = "park"  # switched off, or to be isolated: recorded as due, the message may go
    RECOVER = "recover"  # its holder lost the lease: recover first, then look again
    DUPLICATE = "duplicate"  # already done
    IGNORE_OLDER = "ignore_older"  # an older version than the one known
    NOT_REINGESTED = "not_reingested"  # overwritten, but the dataset wants the first version only
    LEAVE_FAILED = "leave_failed"  # its code is not retried: the queue's redrive takes the message
    QUARANTINE = "quarantine"  # at its limit: hold it for a person; a succeeded one stays stale
    HELD = "held"  # in quarantine already
    RECORD_NEWER = "record_newer"  # held; an approved release or re-run shall use this newer object


@made_often
class Known:
    """What the ledger knows of a unit when it is announced or due."""

    wal_id: str
    dataset: str
    status: Status
    version: int
    attempts: int
    budget_from: int
    lease_expiries: int
    last_error_code: str | None
    due_at: datetime | None
    retry_after: datetime | None
    rerun_intent: Intent | None
    replay_run_id: str | None
    #: When the lease of the worker that holds the open attempt ends; None if no attempt is open.
    #: A holder that is fenced or gone counts as one whose lease has ended.
    held_until: datetime | None
    #: Why a due unit that has not succeeded yet is worked on: to ingest it, or as a backfill.
    first_intent: Intent = Intent.INGEST
    #: Of the last replay that asked for it; `none` if there was none.
    replay_reason: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to a receipt."""

    action: Action
    #: With WAIT: for how long.
    wait_s: float = 0.0
    #: With CLAIM: why.
    intent: Intent = Intent.INGEST
    #: The announced object replaces the known one, as that of this or the next attempt.
    adopts_object: bool = False
    #: Only its place in the order is kept, which the known one lacks.
    orders_object: bool = False
    #: A newer object starts a new budget.
    resets_budget: bool = False


#: A unit that nobody has seen before.
NEW_UNIT = Decision(action=Action.CLAIM, adopts_object=True)
NEW_UNIT_PARKED = Decision(action=Action.PARK, adopts_object=True)


def decide_receipt(
    known: Known, order: ObjectOrder, *, now: datetime, switched_off: bool, rules: LedgerRules
) -> Decision:
    """Answer the receipt of a known unit, whose announced object stands in `order`."""
    if known.held_until is not None and known.held_until <= now:
        return Decision(action=Action.RECOVER)
    if order is ObjectOrder.OLDER and known.status is not Status.QUARANTINED:
        return Decision(action=Action.IGNORE_OLDER)
    match known.status:
        case Status.IN_PROGRESS:
            return _wait_for_holder(known, now)
        case Status.PENDING:
            return _receive_pending(known, order, now, rules, switched_off=switched_off)
        case Status.FAILED:
            return _receive_failed(known, order, now, rules, switched_off=switched_off)
        case Status.SUCCEEDED:
            return _receive_succeeded(known, order, now, rules, switched_off=switched_off)
        case Status.QUARANTINED:
            newer = order is ObjectOrder.NEWER
            return Decision(
                action=Action.RECORD_NEWER if newer else Action.HELD, adopts_object=newer
            )


def keeping_the_order(decision: Decision) -> Decision:
    """Return the answer to an announcement that gives a listed object its place in the order.

    The message may go before the unit is worked on, but not with it what it told: an older one
    that comes again could not be recognised as older, and would take its place. The object of a
    unit that is done stays what it is; an older message would only run it again, and fail.
    """
    if decision.action is Action.DUPLICATE:
        return replace(decision, orders_object=True)
    may_go = decision.action in {Action.DUE, Action.PARK, Action.QUARANTINE, Action.HELD}
    if decision.adopts_object or not may_go:
        return decision
    return replace(decision, adopts_object=True, orders_object=True)


def decide_due(known: Known, rules: LedgerRules) -> Decision:
    """Answer a unit whose `due_at` has come: claim it, or hold it at its limit."""
    if at_limit(known, rules):
        return Decision(action=Action.QUARANTINE)
    return Decision(action=Action.CLAIM, intent=known.rerun_intent or known.first_intent)


def at_limit(known: Known, rules: LedgerRules) -> bool:
    """Tell whether the unit has used all its attempts."""
    used = attempts_used(known.attempts, known.budget_from)
    return used >= rules.max_attempts_of(known.dataset)


def _receive_pending(
    known: Known, order: ObjectOrder, now: datetime, rules: LedgerRules, *, switched_off: bool
) -> Decision:
    newer = order is ObjectOrder.NEWER
    if switched_off or (newer and known.lease_expiries):
        return Decision(action=Action.PARK, adopts_object=newer, resets_budget=newer)
    if not newer:
        if at_limit(known, rules):
            return Decision(action=Action.QUARANTINE)
        if _is_scheduled(known, now):
            return Decision(action=Action.DUE)
    return Decision(action=Action.CLAIM, adopts_object=True, resets_budget=newer)


def _receive_failed(
    known: Known, order: ObjectOrder, now: datetime, rules: LedgerRules, *, switched_off: bool
) -> Decision:
    newer = order is ObjectOrder.NEWER
    if not newer:
        if at_limit(known, rules):
            return Decision(action=Action.QUARANTINE)
        if known.last_error_code is None or not is_retried(known.last_error_code):
            return Decision(action=Action.LEAVE_FAILED)
    if switched_off:
        return Decision(action=Action.PARK, adopts_object=newer, resets_budget=newer)
    if not newer and known.retry_after is not None and known.retry_after > now:
        return Decision(action=Action.WAIT, wait_s=(known.retry_after - now).total_seconds())
    return Decision(action=Action.CLAIM, adopts_object=True, resets_budget=newer)


def _receive_succeeded(
    known: Known, order: ObjectOrder, now: datetime, rules: LedgerRules, *, switched_off: bool
) -> Decision:
    if order is ObjectOrder.SAME:
        return Decision(action=Action.DUPLICATE)
    kept = rules.keeps_for_approval(known.dataset)
    if not kept and not rules.reingests(known.dataset):
        return Decision(action=Action.NOT_REINGESTED)
    if known.held_until is not None:
        return _wait_for_holder(known, now)
    if kept:
        return Decision(action=Action.RECORD_NEWER, adopts_object=True)
    newer = order is ObjectOrder.NEWER
    if not newer:
        # Nobody knows whether it was overwritten: only a newer object is worth a new budget.
        if at_limit(known, rules):
            return Decision(action=Action.QUARANTINE)
        if _is_scheduled(known, now):
            return Decision(action=Action.DUE)
    action = Action.PARK if switched_off or known.lease_expiries else Action.CLAIM
    return Decision(action=action, intent=Intent.REINGEST, adopts_object=True, resets_budget=newer)


def _is_scheduled(known: Known, now: datetime) -> bool:
    """Tell whether the ledger runs the unit by itself: later, or, if it lost a worker, isolated."""
    return known.due_at is not None and (known.due_at > now or known.lease_expiries > 0)


def _wait_for_holder(known: Known, now: datetime) -> Decision:
    """Leave a held unit alone; its message comes back when the lease would end."""
    remaining = 0.0 if known.held_until is None else (known.held_until - now).total_seconds()
    return Decision(action=Action.WAIT, wait_s=max(remaining, 1.0))

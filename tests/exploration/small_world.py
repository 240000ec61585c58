"""A world so small that every order of events can be tried: a few units, messages and workers.

All decisions are the package's own pure ones (receipts, due units, outcomes, acknowledgement,
replay); what a transaction writes of them is written down here in plain tuples. Time is reduced to
what it can change: a lease stands, or has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallgrass.governance.switches import SwitchedOff
from tallgrass.ledger.budget import after_a_hand_back
from tallgrass.ledger.claim import ClosedClaim, Receipt
from tallgrass.ledger.object_order import compare_objects
from tallgrass.ledger.outcome import Verdict, is_retried, judge
from tallgrass.ledger.receipt import (
    NEW_UNIT,
    NEW_UNIT_PARKED,
    Action,
    Decision,
    decide_due,
    decide_receipt,
)
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.transitions import require_legal
from tallgrass.ledger.vocabulary import Status
from tallgrass.queues.acknowledgement import acknowledge
from tallgrass.replay.plan import PlanAction, PlannedAction
from tallgrass.replay.run import HELD_BY_SWITCH, fate_of
from tests.exploration.tuples import NOBODY, Broken, Unit, Worker, World
from tests.exploration.views import NOW, UNIT, claim_of, known_of, object_of, run_rules, run_unit_of
from tests.support.builders import failure, success

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Codes that an attempt may end with: none, one that is tried again, one that is not.
OUTCOMES = (None, "io_error", "size_zero")


class Rules(NamedTuple):
    """What is played."""

    ledger: LedgerRules = LedgerRules(max_attempts=2)
    receives_max: int = 3


def successors(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Yield everything that may happen next."""
    for number, worker in enumerate(world.workers):
        for name, after in _of_worker(world, number, worker, rules):
            yield f"w{number} {name}", after
    living = {worker.incarnation for worker in world.workers if worker.phase != "dead"}
    for incarnation, lease in enumerate(world.leases):
        if lease != "held":
            continue
        ended = world._replace(leases=_put(world.leases, incarnation, "ended"))
        if incarnation not in living:
            yield f"time passes for {incarnation}", ended  # nobody renews it
        elif world.endings:
            yield f"lease {incarnation} ends", ended._replace(endings=world.endings - 1)
    if "ended" in world.leases:
        yield "recovery", recovered(world)
    if world.flips:
        yield "switch", world._replace(is_off=not world.is_off, flips=world.flips - 1)
    elif world.is_off:
        yield "switch on", world._replace(is_off=False)
    yield from _replays(world, rules)


def _of_worker(
    world: World, number: int, worker: Worker, rules: Rules
) -> Iterator[tuple[str, World]]:
    match worker.phase:
        case "dead":
            # Another process in its place has a lease of its own.
            fresh = Worker(len(world.leases))
            yield "starts", _with(world, number, fresh)._replace(leases=(*world.leases, "held"))
            return
        case "idle" if world.leases[worker.incarnation] == "fenced":
            yield "registers again", _refused(world, number, worker)
            return
        case "idle":
            yield from _received(world, number, worker, rules)
            yield from _claimed_due(world, number, worker, rules)
            return
        case "received":
            yield "claims", _record_and_claim(world, number, worker, rules)
        case "claimed":
            yield from _ended(world, number, worker, rules)
        case "committed":
            yield "acknowledges", _acknowledge(world, number, worker)
    if world.crashes:
        crashed = _released(world, worker)._replace(crashes=world.crashes - 1)
        yield "dies", _with(crashed, number, Worker(worker.incarnation, "dead"))


# --- what a worker does ---------------------------------------------------------------------------


def _received(
    world: World, number: int, worker: Worker, rules: Rules
) -> Iterator[tuple[str, World]]:
    for index, message in enumerate(world.messages):
        if message.place != "visible":
            continue
        if message.receives >= rules.receives_max:
            dead = message._replace(place="dead")
            yield f"gives m{index} up", world._replace(messages=_put(world.messages, index, dead))
            continue
        taken = message._replace(place="hidden", receives=message.receives + 1)
        after = world._replace(messages=_put(world.messages, index, taken))
        held = worker._replace(phase="received", message=index, unit=message.unit)
        yield f"receives m{index}", _with(after, number, held)


def _record_and_claim(world: World, number: int, worker: Worker, rules: Rules) -> World:
    if world.leases[worker.incarnation] == "fenced":
        return _refused(world, number, worker)
    message = world.messages[worker.message]
    unit_ = world.units[message.unit]
    if unit_.status is None:
        decision = NEW_UNIT_PARKED if world.is_off else NEW_UNIT
        unit_ = unit_._replace(status=Status.PENDING, version=1, known=message.object)
        return _decided(world, number, worker, unit_, decision)
    order = compare_objects(object_of(message.object), object_of(unit_.known))
    known = known_of(world, message.unit)
    decision = decide_receipt(known, order, now=NOW, switched_off=world.is_off, rules=rules.ledger)
    if decision.action is Action.RECOVER:
        # The package recovers first, then looks again.
        return _record_and_claim(recovered(world), number, worker, rules)
    return _decided(world, number, worker, unit_, decision)


def _decided(world: World, number: int, worker: Worker, unit_: Unit, decision: Decision) -> World:
    message = world.messages[worker.message]
    if decision.adopts_object:
        unit_ = unit_._replace(known=max(unit_.known, message.object))
    if decision.resets_budget:
        unit_ = unit_._replace(budget_from=unit_.attempts)
    held = worker._replace(phase="committed", decision=decision)
    match decision.action:
        case Action.CLAIM:
            claimed_from = Status.SUCCEEDED if unit_.status is Status.SUCCEEDED else Status.PENDING
            unit_ = _claim(unit_, worker.incarnation, by_message=True, object_=message.object)
            held = held._replace(phase="claimed", attempt=unit_.attempts, claimed_from=claimed_from)
        case Action.PARK:
            unit_ = _parked(unit_)
        case Action.QUARANTINE:
            unit_ = _held_at_limit(unit_)
        case Action.RECORD_NEWER:
            unit_ = unit_._replace(version=unit_.version + 1)
    return _with(_with_unit(world, worker.unit, unit_), number, held)


def _claimed_due(
    world: World, number: int, worker: Worker, rules: Rules
) -> Iterator[tuple[str, World]]:
    if world.is_off:
        return
    for index, unit_ in enumerate(world.units):
        if not unit_.due or unit_.holder != NOBODY:
            continue
        decision = decide_due(known_of(world, index), rules.ledger)
        if decision.action is Action.QUARANTINE:
            yield f"holds u{index}", _with_unit(world, index, _held_at_limit(unit_))
            continue
        claimed_from = Status.SUCCEEDED if unit_.status is Status.SUCCEEDED else Status.PENDING
        claimed = _claim(unit_, worker.incarnation, by_message=False, object_=unit_.known)
        held = worker._replace(
            phase="claimed", unit=index, attempt=claimed.attempts, claimed_from=claimed_from
        )
        yield f"claims due u{index}", _with(_with_unit(world, index, claimed), number, held)


def _ended(world: World, number: int, worker: Worker, rules: Rules) -> Iterator[tuple[str, World]]:
    for code in OUTCOMES:
        if code is None or world.failures:
            yield f"commits {code}", _commit(world, number, worker, code, rules)
    for lost in (False, True) if world.cuts else ():
        yield f"is cut off, lost={lost}", _cut_off(world, number, worker, lost=lost)


def _commit(world: World, number: int, worker: Worker, code: str | None, rules: Rules) -> World:
    if world.leases[worker.incarnation] == "fenced":
        return _refused(world, number, worker)
    if code is not None:
        world = world._replace(failures=world.failures - 1)
    unit_, done = world.units[worker.unit], worker._replace(phase="committed")
    if (unit_.holder, unit_.attempts) != (worker.incarnation, worker.attempt):
        return _with(world, number, _next(done))  # the claim was lost: nothing is written
    claim = claim_of(worker.unit, worker.attempt, worker.claimed_from or Status.PENDING)
    _, outcome = success(claim) if code is None else failure(claim, code)
    used = unit_.attempts - unit_.budget_from
    verdict = judge(outcome, claim.unit.dataset, used, rules.ledger)
    after = _closed(unit_, code, verdict)
    if unit_.rerunning and verdict is Verdict.QUARANTINED:
        verdict = Verdict.FAILED  # a re-run never moves its unit
    closed = ClosedClaim(verdict=verdict, error_code=code)
    return _with(_with_unit(world, worker.unit, after), number, _next(done._replace(closed=closed)))


def _cut_off(world: World, number: int, worker: Worker, *, lost: bool) -> World:
    """Let the store fail at the commit; the worker gives back what it held, and goes on."""
    world = world._replace(cuts=world.cuts - 1)
    if world.leases[worker.incarnation] == "fenced":
        return _refused(world, number, worker)
    unit_ = world.units[worker.unit]
    if unit_.holder == worker.incarnation:
        # It was alone: where the connection was lost, the attempt counts.
        budget_from = unit_.budget_from if lost else after_a_hand_back(unit_.budget_from)
        freed = _freed(unit_._replace(budget_from=budget_from), "handed_back")
        world = _with_unit(world, worker.unit, freed)
    return _with(_released(world, worker), number, Worker(worker.incarnation))


def _closed(unit_: Unit, code: str | None, verdict: Verdict) -> Unit:
    free = unit_._replace(holder=NOBODY, opened=0, expiries=0, error=code, due=False)
    if verdict is Verdict.SUCCEEDED:
        free = free._replace(
            applied=unit_.opened,
            applied_by=unit_.attempts,
            budget_from=unit_.attempts,
            rerun=False,
            rerunning=False,
        )
        return _again(free) if unit_.rerunning else _moved(free, Status.SUCCEEDED)
    again = code is not None and is_retried(code)
    if unit_.rerunning:
        due = again and verdict is Verdict.FAILED
        return _again(free)._replace(rerunning=False, due=due, rerun=due)
    failed = _moved(free, Status.FAILED)
    if verdict is Verdict.QUARANTINED:
        return _moved(failed, Status.QUARANTINED)
    return failed._replace(due=again and not unit_.by_message)


def _acknowledge(world: World, number: int, worker: Worker) -> World:
    idle = _with(world, number, Worker(worker.incarnation))
    receipt = Receipt(unit=UNIT(worker.unit), decision=worker.decision or NEW_UNIT)
    closed = {}
    if worker.attempt:
        claim = claim_of(worker.unit, worker.attempt, worker.claimed_from or Status.PENDING)
        receipt = Receipt(unit=claim.unit, decision=NEW_UNIT, claim=claim)
        closed = {} if worker.closed is None else {claim.wal_id: worker.closed}
    message = world.messages[worker.message]
    if acknowledge([receipt], closed).visibility_s is not None:
        shown = message._replace(place="visible")
        return idle._replace(messages=_put(idle.messages, worker.message, shown))
    require_may_go(world, worker.message)
    gone = message._replace(place="gone")
    return idle._replace(messages=_put(idle.messages, worker.message, gone))


def require_may_go(world: World, index: int) -> None:
    """A message leaves only when its unit is done, held, or on the ledger's own schedule."""
    message = world.messages[index]
    unit_ = world.units[message.unit]
    if unit_.status is Status.QUARANTINED or unit_.known > message.object:
        return  # held for a person; or a newer object takes the place of this one
    if unit_.status is Status.SUCCEEDED:
        # Done; or the re-run is under way, due, or was given up and shows as stale.
        again = unit_.due or unit_.holder != NOBODY or unit_.error is not None
        kept = unit_.applied >= message.object or (again and unit_.known >= message.object)
    else:
        # The ledger took it over: it is due, under way, or failed for good where all can see it.
        alone = unit_.due or (unit_.status is not Status.PENDING and not unit_.by_message)
        told_by_another = any(
            other != index and each.unit == message.unit and each.place in {"visible", "hidden"}
            for other, each in enumerate(world.messages)
        )
        kept = alone or told_by_another
    if not kept:
        raise Broken(f"a message was let go whose unit is {unit_}")


# --- what transactions write ----------------------------------------------------------------------


def _claim(unit_: Unit, incarnation: int, *, by_message: bool, object_: int) -> Unit:
    if unit_.holder != NOBODY:
        raise Broken(f"a unit that is held was claimed: {unit_}")
    rerunning = unit_.status is Status.SUCCEEDED
    if unit_.status is Status.FAILED:
        unit_ = _moved(unit_, Status.PENDING)
    unit_ = _again(unit_) if rerunning else _moved(unit_, Status.IN_PROGRESS)
    return unit_._replace(
        attempts=unit_.attempts + 1,
        holder=incarnation,
        rerunning=rerunning,
        by_message=by_message,
        opened=max(object_, unit_.known),
        due=False,
        rerun=False,
    )


def _parked(unit_: Unit) -> Unit:
    if unit_.status is Status.FAILED:
        return _moved(unit_, Status.PENDING)._replace(due=True)
    rerun = unit_.status is Status.SUCCEEDED
    return _again(unit_)._replace(due=True, rerun=rerun)


def _held_at_limit(unit_: Unit) -> Unit:
    if unit_.status is Status.SUCCEEDED:
        return unit_._replace(due=False, rerun=False)
    return _moved(unit_, Status.QUARANTINED)._replace(due=False)


def recovered(world: World) -> World:
    """Fence everybody whose lease has ended, and free what they held, in one transaction."""
    leases = tuple("fenced" if lease == "ended" else lease for lease in world.leases)
    units = []
    for unit_ in world.units:
        if unit_.holder == NOBODY or world.leases[unit_.holder] != "ended":
            units.append(unit_)
            continue
        units.append(_freed(unit_, "lease_expired"))
    return world._replace(leases=leases, units=tuple(units))


def _freed(unit_: Unit, code: str) -> Unit:
    """Close the open attempt from outside: the unit is due, and under suspicion."""
    expiries = min(unit_.expiries + 1, 2)
    free = unit_._replace(holder=NOBODY, opened=0, expiries=expiries, error=code)
    if unit_.rerunning:
        return _again(free)._replace(rerunning=False, due=True, rerun=True)
    return _moved(_moved(free, Status.FAILED), Status.PENDING)._replace(due=True)


def _replays(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.plan is None:
        for index, unit_ in enumerate(world.units if world.replays else ()):
            action = {Status.FAILED: PlanAction.REPLAY, Status.SUCCEEDED: PlanAction.RERUN}.get(
                unit_.status or Status.PENDING
            )
            if action is not None:
                plan = (index, unit_.version, action)
                yield f"plans u{index}", world._replace(plan=plan, replays=world.replays - 1)
        return
    index, version, action = world.plan
    fate = fate_of(
        PlannedAction(str(index), version, action),
        run_unit_of(world, index),
        run_rules(rules.ledger),
        SwitchedOff(frozenset({"*"}) if world.is_off else frozenset()),
    )
    after = world._replace(plan=None)
    if not fate.is_put_to_work:
        # Held by a switch it waits for it; else it is skipped.
        if fate.reason != HELD_BY_SWITCH:
            yield f"replay skips u{index}", after
        return
    unit_ = world.units[index]
    if unit_.holder != NOBODY or unit_.version != version:
        raise Broken(f"a replay moved a unit that moved before: {unit_}")
    if action is PlanAction.REPLAY:
        moved = _moved(unit_, Status.PENDING)._replace(due=True)
    else:
        # Somebody approved it: it starts a new budget.
        moved = _again(unit_)._replace(due=True, rerun=True, budget_from=unit_.attempts)
    yield f"replays u{index}", _with_unit(after, index, moved)


# --- small words ----------------------------------------------------------------------------------


def _moved(unit_: Unit, status: Status) -> Unit:
    require_legal(unit_.status, status, wal_id="u")
    return unit_._replace(status=status, version=unit_.version + 1)


def _again(unit_: Unit) -> Unit:
    return unit_._replace(version=unit_.version + 1)


def _refused(world: World, number: int, worker: Worker) -> World:
    """Drop what a fenced worker had in hand; it lives, so it goes on under a new lease."""
    after = _released(world, worker)
    return _with(after, number, Worker(len(world.leases)))._replace(leases=(*world.leases, "held"))


def _released(world: World, worker: Worker) -> World:
    """Show a message again that its holder will not acknowledge."""
    if worker.message == NOBODY:
        return world
    shown = world.messages[worker.message]._replace(place="visible")
    return world._replace(messages=_put(world.messages, worker.message, shown))


def _next(worker: Worker) -> Worker:
    """Go on to the acknowledgement; a unit that was due has nothing to acknowledge."""
    return worker if worker.message != NOBODY else Worker(worker.incarnation)


def _put(values: tuple[object, ...], index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:index], value, *values[index + 1 :])


def _with(world: World, number: int, worker: Worker) -> World:
    return world._replace(workers=_put(world.workers, number, worker))


def _with_unit(world: World, index: int, unit_: Unit) -> World:
    return world._replace(units=_put(world.units, index, unit_))

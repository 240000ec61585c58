"""A small world as the package's rules see it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from tallgrass.ledger.claim import Claim
from tallgrass.ledger.receipt import Known
from tallgrass.ledger.unit import ObjectReference
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.replay.run import HELD_BY_SWITCH, RunRules, RunUnit
from tallgrass.replay.selection import Purpose, Selection
from tests.exploration.tuples import NOBODY
from tests.support.builders import unit

if TYPE_CHECKING:
    from tallgrass.governance.switches import SwitchedOff
    from tallgrass.ledger.rules import LedgerRules
    from tallgrass.replay.plan import PlanAction
    from tests.exploration.tuples import World

NOW = datetime(2026, 6, 1, tzinfo=UTC)
_SOON, _PAST = NOW + timedelta(seconds=60), NOW - timedelta(seconds=1)


@lru_cache
def object_of(order: int) -> ObjectReference:
    """Return the object of that order."""
    return ObjectReference(sequencer=f"{order:04}")


UNIT = lru_cache(unit)


@lru_cache
def claim_of(index: int, attempt: int, claimed_from: Status) -> Claim:
    """Return a claim as a worker holds it."""
    return Claim(
        unit=UNIT(index),
        attempt_no=attempt,
        version=1,
        intent=Intent.INGEST,
        claimed_from=claimed_from,
        budget_from=0,
        replay_run_id=None,
        has_message=True,
    )


def known_of(world: World, index: int) -> Known:
    """Return a unit as the package's rules see it."""
    unit_ = world.units[index]
    held_until = None
    if unit_.holder != NOBODY:
        held_until = _SOON if world.leases[unit_.holder] == "held" else _PAST
    return Known(
        wal_id=str(index),
        dataset="goes-glm",
        status=unit_.status or Status.PENDING,
        version=unit_.version,
        attempts=unit_.attempts,
        budget_from=unit_.budget_from,
        lease_expiries=unit_.expiries,
        last_error_code=unit_.error,
        due_at=NOW if unit_.due else None,
        retry_after=None,
        rerun_intent=Intent.REINGEST if unit_.rerun else None,
        replay_run_id=None,
        held_until=held_until,
    )


def run_unit_of(world: World, index: int) -> RunUnit:
    """Return a unit as a replay sees it."""
    unit_ = world.units[index]
    return RunUnit(
        known=known_of(world, index),
        is_open=unit_.holder != NOBODY,
        applied_attempt=unit_.applied_by or None,
        applied_code_version="0.1.0",
        newer_object=False,
        item=None,
    )


def run_rules(ledger: LedgerRules) -> RunRules:
    """A run that may do all, unless the switch of replay is on."""

    def denies(_dataset: str, _action: PlanAction, off: SwitchedOff) -> str | None:
        return HELD_BY_SWITCH if off.everything else None

    return RunRules(
        ledger=ledger,
        selection=Selection(wal_ids=(UNIT(0).wal_id,), purpose=Purpose.REPAIR),
        denies=denies,
        code_version="0.1.0",
    )

"""What a small world is made of: plain tuples, so that equal worlds are one world."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tallgrass.ledger.claim import ClosedClaim
    from tallgrass.ledger.receipt import Decision
    from tallgrass.ledger.vocabulary import Status
    from tallgrass.replay.plan import PlanAction

NOBODY = -1


class Unit(NamedTuple):
    """One record, as far as anything depends on it."""

    status: Status | None = None
    version: int = 0
    attempts: int = 0
    budget_from: int = 0
    expiries: int = 0
    error: str | None = None
    due: bool = False
    rerun: bool = False
    #: The incarnation that holds its open attempt.
    holder: int = NOBODY
    rerunning: bool = False
    by_message: bool = False
    #: Order of the newest object known, of the open attempt's, and of the item's.
    known: int = 0
    opened: int = 0
    applied: int = 0
    #: The attempt that made the item.
    applied_by: int = 0


class Message(NamedTuple):
    """One announcement."""

    unit: int
    object: int
    #: `visible`, `hidden`, `gone` or `dead`.
    place: str = "visible"
    receives: int = 0


class Worker(NamedTuple):
    """One process: what it has in hand."""

    incarnation: int
    phase: str = "idle"
    message: int = NOBODY
    unit: int = NOBODY
    #: The fencing token, and what was decided of it.
    attempt: int = 0
    claimed_from: Status | None = None
    decision: Decision | None = None
    closed: ClosedClaim | None = None


class World(NamedTuple):
    """Everything there is; equal worlds have equal futures."""

    units: tuple[Unit, ...]
    messages: tuple[Message, ...]
    workers: tuple[Worker, ...]
    #: By incarnation: `held`, `ended` or `fenced`.
    leases: tuple[str, ...]
    is_off: bool = False
    #: What is planned to be replayed: unit, version, action.
    plan: tuple[int, int, PlanAction] | None = None
    #: How much may still go wrong, or be asked for.
    crashes: int = 0
    endings: int = 0
    cuts: int = 0
    failures: int = 0
    replays: int = 0
    flips: int = 0


class Broken(Exception):
    """A promise does not hold."""

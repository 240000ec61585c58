"""What the service promises, and how much of each promise's error budget is left. Pure.

    allowed   = (1 - objective) x events of the window
    remaining = 1 - bad events / allowed

    zone      green ≥ 50 %   yellow ≥ 20 %   red > 0   black: nothing is left

"P90 below 90 s" is the objective that 90 % of the events take less than 90 s. A promise of 100 %
has no budget: the first bad event leaves nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

_GREEN_FROM: Final = Fraction(1, 2)
_YELLOW_FROM: Final = Fraction(1, 5)
WINDOW_DAYS: Final = 30


class Zone(StrEnum):
    """How much of a budget is left."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"
    BLACK = "black"


def zone_of(remaining: Fraction) -> Zone:
    """Say in a word what share of a budget is left."""
    if remaining >= _GREEN_FROM:
        return Zone.GREEN
    if remaining >= _YELLOW_FROM:
        return Zone.YELLOW
    return Zone.RED if remaining > 0 else Zone.BLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """One promise."""

    name: str
    #: Share of the events that must be good.
    objective: Fraction
    #: An event that takes this long or longer is bad; None where events are bad by themselves.
    limit_s: float | None = None
    promise: str
    #: What to open when it is broken, below docs/replay/runbooks/.
    runbook: str

    def is_bad(self, seconds: float) -> bool:
        """Tell whether an event that took so long breaks it."""
        return self.limit_s is not None and seconds >= self.limit_s


QUEUE_AGE: Final = Slo(
    name="queue_age",
    objective=Fraction(9, 10),
    limit_s=90.0,
    promise="90 % of units are claimed within 90 s of their announcement",
    runbook="delayed-queue-runbook.md",
)
LATENCY: Final = Slo(
    name="latency",
    objective=Fraction(9, 10),
    limit_s=300.0,
    promise="90 % of units of priority datasets are in the catalog within 5 min",
    runbook="delayed-queue-runbook.md",
)
DEAD_LETTERS: Final = Slo(
    name="dead_letters",
    objective=Fraction(9995, 10_000),
    promise="less than 0.05 % of units end as dead letters",
    runbook="dlq-drain-runbook.md",
)
REPLAY_IDENTITY: Final = Slo(
    name="replay_identity",
    objective=Fraction(1),
    promise="every replay gives the same bytes, or the difference was announced",
    runbook="incident-replay-runbook.md",
)
SLOS: Final = (QUEUE_AGE, LATENCY, DEAD_LETTERS, REPLAY_IDENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloState:
    """Where a promise stands."""

    slo: Slo
    events: int
    bad: int
    #: None where no times are measured, there was no event, or a tenth of them never came.
    p90_s: float | None = None

    @property
    def remaining(self) -> Fraction:
        """Share of the budget that is left: all of it where nothing happened."""
        # Exact: the bounds of the zones are met by small whole numbers.
        allowed = (1 - self.slo.objective) * self.events
        if allowed:
            return 1 - self.bad / allowed
        return Fraction(0) if self.bad else Fraction(1)

    @property
    def zone(self) -> Zone:
        """The same in a word."""
        return zone_of(self.remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloFacts:
    """What happened in the window."""

    #: Seconds from announcement to claim.
    waits_s: Sequence[float]
    #: Seconds from announcement to commit, of priority datasets; without end where a unit is not
    #: in the catalog though its time is over.
    latencies_s: Sequence[float]
    units: int
    #: Those of them that stay failed: their messages die.
    failed: int
    replayed: int
    mismatches: int


def slo_states(facts: SloFacts) -> tuple[SloState, ...]:
    """Judge all promises, in their order."""
    return (
        _timed(QUEUE_AGE, facts.waits_s),
        _timed(LATENCY, facts.latencies_s),
        SloState(slo=DEAD_LETTERS, events=facts.units, bad=facts.failed),
        SloState(slo=REPLAY_IDENTITY, events=facts.replayed, bad=facts.mismatches),
    )


def percentile(values: Sequence[float], share: Fraction) -> float | None:
    """Return the smallest value that so many of the values do not exceed; None of none."""
    if not values:
        return None
    rank = -(-share.numerator * len(values) // share.denominator)
    return sorted(values)[max(rank, 1) - 1]


def _timed(slo: Slo, seconds: Sequence[float]) -> SloState:
    p90_s = percentile(seconds, Fraction(9, 10))
    return SloState(
        slo=slo,
        events=len(seconds),
        bad=sum(map(slo.is_bad, seconds)),
        p90_s=None if p90_s is None or math.isinf(p90_s) else p90_s,
    )

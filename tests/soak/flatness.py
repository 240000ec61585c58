"""Whether a soak was flat: its last third against its second; the first is for warming up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.soak.sampling import Sample

Series = Callable[[Sequence[Sample]], float]

#: Processes that nobody kills: what they take is theirs from the first minute to the last.
LASTING = ("worker", "dispatcher", "retention")
#: No unit may wait for longer than this, whatever is broken meanwhile.
LAG_S_MAX = 120.0
MB = 1_000_000.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One figure in both thirds, and how much it may be in the last one."""

    name: str
    unit: str
    second: float
    last: float
    limit: float

    @property
    def is_flat(self) -> bool:
        """Whether it has not grown beyond what chance explains."""
        return self.last <= self.limit


@dataclass(frozen=True, kw_only=True)
class _Rule:
    name: str
    unit: str
    of: Series
    #: The last third may be so many times the second, and so much more.
    times: float = 1.0
    plus: float = 0.0
    #: Whatever the second third was, never more than this.
    most: float = math.inf


def judge_flatness(samples: Sequence[Sample]) -> list[Finding]:
    """Compare the last third of the time with the second."""
    ends_at = max((sample.at_s for sample in samples), default=0.0)
    second = [each for each in samples if ends_at / 3 <= each.at_s < ends_at * 2 / 3]
    last = [each for each in samples if each.at_s >= ends_at * 2 / 3]
    if len(second) < 2 or len(last) < 2:
        raise ValueError(f"{len(samples)} samples are too few for thirds")
    return [
        Finding(
            name=rule.name,
            unit=rule.unit,
            second=(before := rule.of(second)),
            last=rule.of(last),
            limit=min(before * rule.times + rule.plus, rule.most),
        )
        for rule in _RULES
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _resident(name: str) -> Series:
    return lambda some: fmean(
        [each.processes[name].resident / MB for each in some if name in each.processes] or [0.0]
    )


def _handles(name: str) -> Series:
    # The fewest: what is open for a moment comes and goes, what leaks stays.
    return lambda some: float(
        min((each.processes[name].handles for each in some if name in each.processes), default=0)
    )


def _latency(share: float) -> Series:
    return lambda some: percentile([s for each in some for s in each.latencies], share)


def _growth(some: Sequence[Sample]) -> float:
    units = some[-1].units - some[0].units
    return max(0.0, (some[-1].database_bytes - some[0].database_bytes) / max(units, 1))


_RULES = (
    *(_Rule(name=f"{name}: memory", unit="MB", of=_resident(name), times=1.1) for name in LASTING),
    *(_Rule(name=f"{name}: handles", unit="", of=_handles(name)) for name in LASTING),
    _Rule(name="oldest unit not done, mean", unit="s", times=1.25, plus=1.0,
          of=lambda some: fmean([each.lag_s for each in some])),
    _Rule(name="oldest unit not done, most", unit="s", times=0.0, plus=LAG_S_MAX,
          of=lambda some: max(each.lag_s for each in some)),
    _Rule(name="received to committed, p50", unit="s", of=_latency(0.5), times=1.25, plus=0.1),
    _Rule(name="received to committed, p99", unit="s", of=_latency(0.99), times=1.25, plus=1.0),
    _Rule(name="events not delivered, mean", unit="", times=1.25, plus=500.0,
          of=lambda some: fmean([each.waiting for each in some])),
    _Rule(name="database, growth a unit", unit="B", of=_growth, times=1.5, plus=1000.0),
    _Rule(name="database's log, most", unit="MB", times=1.25, plus=32.0,
          of=lambda some: max(each.log_bytes for each in some) / MB),
)  # fmt: skip

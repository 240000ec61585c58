"""CPU time that means the same on a slow, shared core as on a quiet one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the yardstick takes on a quiet core of the kind that the bounds were set for.
_YARDSTICK_S = 0.002
_TRIES_MAX = 10


def _yardstick() -> int:
    """Make and sum up small objects, as parsers do: neither arithmetic nor memory alone."""
    made = [{"key": str(number)} for number in range(10_000)]
    return sum(len(one["key"]) for one in made)


def _spent_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def least_cpu_s(work: Callable[[], object], bound_s: float) -> float:
    """Return the CPU time of the first try within the bound, else the least of ten.

    A core that others share takes longer for everything: as many times longer as it takes for the
    yardstick right before, so much less the time counts. A faster core is given no credit.
    """
    least = float("inf")
    for _ in range(_TRIES_MAX):
        slowness = max(1.0, _spent_s(_yardstick) / _YARDSTICK_S)
        least = min(least, _spent_s(work) / slowness)
        if least < bound_s:
            break
    return least

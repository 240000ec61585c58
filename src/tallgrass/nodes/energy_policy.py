"""Energy and carbon of each attempt, worked out from its CPU time: an estimate, and marked as one.

The model and its figures are `telemetry/energy.py`'s.

CPU time is that of the node's own function, in whichever thread it runs; in an event loop only the
steps of its own coroutine count. So nodes that run at the same time do not count one another.
Threads and processes that a node starts itself are not seen. A function that was given up by its
timeout counts as busy for all of that time.

The memory is what a node is said to need, not what the process has: the processes' memory is shared
by all of its nodes, and would be counted by each.
"""

import time
from collections.abc import Callable

from tallgrass.nodes.protocols import CpuTime
from tallgrass.telemetry.energy import PUBLISHED_SOURCE, EnergyCoefficients, EnergyUse

__all__ = ["PUBLISHED_SOURCE", "CpuEnergyMeter", "EnergyCoefficients"]


class _Begun(CpuTime):
    """The CPU time of an attempt, and when it began."""

    __slots__ = ("began",)

    def __init__(self, began: float) -> None:
        super().__init__()
        self.began = began


class CpuEnergyMeter:
    """Says what each attempt took, by the model; given to a runner as `NodeHooks.energy`."""

    def __init__(
        self,
        coefficients: EnergyCoefficients | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.coefficients = coefficients or EnergyCoefficients()
        self._monotonic = monotonic

    def begin(self) -> _Begun:
        """Return where the function's CPU time is added to."""
        return _Begun(self._monotonic())

    def end(self, begun: _Begun) -> EnergyUse:
        """Return the use since then."""
        return self.coefficients.use(begun.seconds, max(self._monotonic() - begun.began, 0.0))

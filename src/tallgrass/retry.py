"""How long to wait before trying again."""

from collections.abc import Callable
from dataclasses import dataclass

#: Beyond this exponent every cap is reached; it keeps ``2 ** attempt`` from overflowing a float.
EXPONENT_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with full jitter: a delay is drawn evenly between 0 and the ceiling."""

    base_s: float
    cap_s: float

    def ceiling_s(self, failures: int) -> float:
        """Return the longest wait after that many failures in a row (at least one)."""
        exponent = min(max(failures, 1) - 1, EXPONENT_MAX)
        return min(self.base_s * 2.0**exponent, self.cap_s)

    def delay_s(self, failures: int, random: Callable[[], float]) -> float:
        """Draw the wait; `random` yields numbers from 0 up to but not including 1."""
        return self.ceiling_s(failures) * random()

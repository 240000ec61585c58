"""Leaves a target alone that is down: one event is tried now and then until one arrives.

    closed ──(all that was sent failed)──► open ──(the pause is over)──► half open, one event
      ▲                                     ▲                                │
      └─────────(the target answered)───────┼────────────────────────────────┤
                                            └──────(it failed again)─────────┘

Without it a target that is down for seconds would use up the attempts of all its events. With it
an outage costs those of the few that are tried meanwhile: each send counts, whatever it meets.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import Delivery, Undelivered

#: What a target answers, or does not, when it takes nothing from anybody. Not a wrong setting: that
#: needs a person, who is to hear of it.
DOWN = frozenset({"sink_unreachable", "sink_timeout", "sink_throttled"})
#: Ceiling of the first pause; it doubles with each.
PAUSE_BASE_S = 1.0


class Admission(Enum):
    """How many events may be claimed now."""

    ALL = auto()
    #: One, to see whether the target is back; the others wait for what comes of it.
    ONE = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What the answers to a batch say of its target."""

    #: Whether it was up before, and is down.
    opened: bool = False
    #: For how long it was down, if it is up again.
    closed_after_s: float | None = None
    #: How long it is left alone from now on.
    pause_s: float = 0.0


_NOTHING = Lesson()


def is_down(deliveries: Sequence[Delivery]) -> bool:
    """Tell whether all answers say that the target takes nothing now."""
    return bool(deliveries) and all(
        isinstance(each, Undelivered) and not each.permanent and each.code in DOWN
        for each in deliveries
    )


class Breaker:
    """Whether events of one target may be claimed; shared by the dispatchers of a process."""

    def __init__(
        self,
        *,
        pause_s_max: float,
        probe_s_max: float,
        monotonic: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._pauses = Backoff(base_s=min(PAUSE_BASE_S, pause_s_max), cap_s=pause_s_max)
        #: One that tried and was not heard of is not waited for any longer.
        self._probe_s_max = probe_s_max
        self._monotonic = monotonic
        self._random = random
        self._lock = threading.Lock()
        #: Pauses in a row; none while it is closed.
        self._failures = 0
        self._opened_at = 0.0
        self._paused_until = 0.0

    def is_paused(self) -> bool:
        """Tell whether nothing may be claimed now."""
        with self._lock:
            return self._failures > 0 and self._monotonic() < self._paused_until

    def admit(self) -> Admission:
        """Say how many events may be claimed; after a pause one caller gets to try one."""
        with self._lock:
            if not self._failures:
                return Admission.ALL
            now = self._monotonic()
            if now < self._paused_until:
                return Admission.NONE
            self._paused_until = now + self._probe_s_max
            return Admission.ONE

    def learn(self, deliveries: Sequence[Delivery], *, probe: bool) -> Lesson:
        """Take the answers to what was sent; `probe` if it was the one event of a pause."""
        with self._lock:
            now = self._monotonic()
            if not deliveries:
                if probe:  # nothing was due, or it was given back: another may try at once
                    self._paused_until = now
                return _NOTHING
            if _is_up(deliveries):
                return self._close(now)
            # What others sent before they had seen that it is down says nothing new.
            news = probe if self._failures else is_down(deliveries)
            return self._open(now, deliveries) if news else _NOTHING

    def _close(self, now: float) -> Lesson:
        if not self._failures:
            return _NOTHING
        self._failures = 0
        return Lesson(closed_after_s=now - self._opened_at)

    def _open(self, now: float, deliveries: Sequence[Delivery]) -> Lesson:
        # Also by a probe whose answer comes late: others had found the target up meanwhile.
        was_up = not self._failures
        self._failures += 1
        if was_up:
            self._opened_at = now
        # Never less than half: dispatchers must not hammer at it by chance.
        ceiling_s = self._pauses.ceiling_s(self._failures)
        pause_s = max(
            ceiling_s * (1 + self._random()) / 2, min(_asked_s(deliveries), self._pauses.cap_s)
        )
        self._paused_until = now + pause_s
        return Lesson(opened=was_up, pause_s=pause_s)


def _is_up(deliveries: Sequence[Delivery]) -> bool:
    """Tell whether the target took an event, or judged one: it would not refuse it when down."""
    return any(not isinstance(each, Undelivered) or each.permanent for each in deliveries)


def _asked_s(deliveries: Sequence[Delivery]) -> float:
    """Return the longest wait that a target asked for."""
    waits = [each.retry_after_s for each in deliveries if isinstance(each, Undelivered)]
    return max((each for each in waits if each is not None and math.isfinite(each)), default=0.0)

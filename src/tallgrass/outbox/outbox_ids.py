"""Ids of outbox rows: UUIDs of version 7 that grow with every call.

Sixty bits of time in steps of 1/4096 ms, then 62 by chance, which ids that are made together share.
A process never gives a smaller id than before, whatever its clock does: rows of one transaction
sort as they were written.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANDOM_BITS = (1 << 62) - 1


class OutboxIds:
    """Gives ids; `chance` returns an integer of at least 62 random bits."""

    def __init__(self, chance: Callable[[], int]) -> None:
        self._chance = chance
        self._last = 0
        self._lock = threading.Lock()

    def several(self, now: datetime, count: int) -> list[str]:
        """Return new ids for what happens now, in order."""
        micros = (now - _EPOCH) // _MICROSECOND
        with self._lock:
            # 4096 steps a millisecond; a clock that stands or goes back still moves on.
            tick = max((micros << 12) // 1000, self._last + 1)
            self._last = tick + count - 1
        rest = f"{(2 << 62) | (self._chance() & _RANDOM_BITS):016x}"
        ending = f"{rest[:4]}-{rest[4:]}"
        times = [f"{each:015x}" for each in range(tick, tick + count)]
        return [f"{each[:8]}-{each[8:12]}-7{each[12:]}-{ending}" for each in times]

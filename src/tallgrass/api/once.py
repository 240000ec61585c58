"""Results that are computed once for each look, however many readers ask for them."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Once(Generic[Made]):
    """Keeps what was made from the latest look: a page with fifty readers is rendered once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._made: dict[Hashable, Made] = {}

    def get(self, number: int, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what belongs to a look; the first who asks makes it, and others wait for that."""
        with self._lock:
            if number != self._number:
                self._number, self._made = number, {}
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

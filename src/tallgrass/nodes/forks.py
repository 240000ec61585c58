"""What a fork copies and its child must not use: locks that the parent holds, threads that it has.

A lock of an open file belongs to both after a fork: it keeps neither of them out, and stays while
either lives.
"""

import os
from typing import Final, Protocol
from weakref import WeakSet


class BeginsAnew(Protocol):
    """Holds locks or threads of its process."""

    def begin_anew(self) -> None:
        """Let go of what the parent has; called in a child, before anything else runs in it."""


_THINGS: Final[WeakSet[BeginsAnew]] = WeakSet()


def begin_anew_after_forks(thing: BeginsAnew) -> None:
    """Have a thing begin anew in every process that is forked while it lives."""
    _THINGS.add(thing)


def _after_fork() -> None:
    for thing in list(_THINGS):
        thing.begin_anew()


os.register_at_fork(after_in_child=_after_fork)

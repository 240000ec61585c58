"""Shows the same page again and again, until the command is told to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tallgrass.errors import TransientError

Page = TypeVar("Page")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to look, and how many times."""

    every_s: float
    #: None for no end.
    frames: int | None
    #: Waits so long; True if it was told to stop meanwhile.
    wait: Callable[[float], bool]


def watch(
    look: Callable[[], Page],
    show: Callable[[Page], None],
    trouble: Callable[[TransientError], None],
    pace: Pace,
) -> None:
    """Show frame by frame; if the database goes away in between, say so, and go on looking."""
    show(look())
    shown = 1
    while shown != pace.frames and not pace.wait(pace.every_s):
        try:
            show(look())
        except TransientError as error:
            trouble(error)
        shown += 1

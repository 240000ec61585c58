"""A life is a row of steps, each all or nothing; after a fault its state is old or new, never torn.

`judge` says what is wrong with a life that a fault met: `reported` steps had told their caller that
they were done, so the state is that after them, or after the one that was under way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    Step = Callable[[], object]
    #: By the name of a table or file.
    State = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Life:
    """What is done to one store, from a folder that was prepared."""

    name: str
    prepare: Callable[[Path], None]
    #: Opens everything and gives the steps; closes everything at the end.
    steps: Callable[[Path], AbstractContextManager[Sequence[Step]]]
    state: Callable[[Path], State]
    #: Whether a state may be one between an old and a new one; by default there is none between.
    between: Callable[[State, State, State], bool] = lambda _old, _found, _new: False


@dataclass
class Tally:
    """How many faults were met, by what failed and how, and what was found wrong."""

    points: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many faults were met."""
        return self.points.total()

    def add(self, other: Tally) -> None:
        """Count another's as its own."""
        self.points.update(other.points)
        self.violations += other.violations


def judge(life: Life, states: Sequence[State], reported: int, found: State) -> str | None:
    """Say what is wrong with a state that a fault left, or None."""
    allowed = states[reported : reported + 2]
    if found in allowed or life.between(allowed[0], found, allowed[-1]):
        return None
    if found in states[:reported]:
        return f"{reported} steps were reported as done, and the last is not there"
    wanted = states[min(reported + 1, len(states) - 1)]
    torn = sorted(
        name
        for name in {*wanted, *found}
        if found.get(name) not in (states[reported].get(name), wanted.get(name))
    )
    return f"after {reported} steps the state is neither old nor new: {torn or 'a mixture'}"

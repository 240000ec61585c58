"""Breadth first through every order of events of a small world, with the promises asked in each.

Equal worlds are met once. In every world: one open attempt a unit, held by nobody who was fenced;
an item only of an applied attempt, never of an older one or an older object; limits kept. And from
every world a way leads to rest, where nothing waits and no message is forgotten.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallgrass.ledger.outcome import is_retried
from tallgrass.ledger.vocabulary import Status
from tests.exploration.small_world import Rules
from tests.exploration.small_world import successors as all_successors
from tests.exploration.tuples import NOBODY, Broken, Message, Unit, Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Successors = Callable[[World, Rules], Iterator[tuple[str, World]]]

#: What may go wrong, or be asked for; with none of it left, only progress is possible.
_FAULTS = ("lease", "switch", "plans", "dies", "cut off")


@dataclass
class Explored:
    """What was met."""

    states: int = 0
    edges: int = 0
    at_rest: int = 0
    #: The way to the first world that breaks a promise, and what broke.
    way: list[str] = field(default_factory=list)
    broken: str | None = None


def beginning(
    *,
    units: int = 1,
    messages: tuple[tuple[int, int], ...] = ((0, 1),),
    workers: int = 2,
    crashes: int = 1,
    endings: int = 1,
    cuts: int = 0,
    failures: int = 1,
    replays: int = 0,
    flips: int = 0,
) -> World:
    """Return a world in which nothing has happened; messages are of (unit, order of its object)."""
    return World(
        units=(Unit(),) * units,
        messages=tuple(Message(*each) for each in messages),
        workers=tuple(Worker(number) for number in range(workers)),
        leases=("held",) * workers,
        crashes=crashes,
        endings=endings,
        cuts=cuts,
        failures=failures,
        replays=replays,
        flips=flips,
    )


def explore(
    first: World, rules: Rules | None = None, successors: Successors = all_successors
) -> Explored:
    """Meet every world that can come of the first; stop at the first broken promise."""
    rules, found = rules or Rules(), Explored()
    met: dict[World, tuple[World, str] | None] = {first: None}
    before: dict[World, list[World]] = {}
    rests: list[World] = []
    waiting = deque([first])
    world = first
    try:
        while waiting:
            world = waiting.popleft()
            require_promises(world, rules)
            nexts = list(successors(world, rules))
            found.edges += len(nexts)
            for name, after in nexts:
                require_steps(world, after)
                before.setdefault(after, []).append(world)
                if after not in met:
                    met[after] = (world, name)
                    waiting.append(after)
            if not any(_is_progress(name) for name, _ in nexts):
                require_rest(world)
                rests.append(world)
        found.states, found.at_rest = len(met), len(rests)
        world = _restless(met, before, rests) or first
        if world is not first:
            raise Broken("no way leads to rest")  # noqa: TRY301 - told like any other
    except Broken as broken:
        found.states = len(met)
        found.broken, found.way = f"{broken}", _way_to(world, met)
    return found


def require_promises(world: World, rules: Rules) -> None:
    """Refuse a world in which something is wrong at this moment."""
    for unit in world.units:
        if unit.holder != NOBODY and world.leases[unit.holder] == "fenced":
            raise Broken(f"a fenced worker holds {unit}")
        held = unit.holder != NOBODY
        if held is not (unit.status is Status.IN_PROGRESS or unit.rerunning):
            raise Broken(f"held and not in progress, or the other way round: {unit}")
        if (unit.status is Status.SUCCEEDED) is not bool(unit.applied):
            raise Broken(f"a success without an item, or an item without a success: {unit}")
        if unit.attempts - unit.budget_from > rules.ledger.max_attempts:
            raise Broken(f"more attempts than the limit: {unit}")
        if unit.due and (held or unit.status is Status.QUARANTINED):
            raise Broken(f"due, and held: {unit}")
        if unit.status is Status.PENDING and not unit.due:
            raise Broken(f"pending, and nobody's: {unit}")
    for message in world.messages:
        if message.place == "gone" and world.units[message.unit].status is None:
            raise Broken(f"a message is gone before its unit was recorded: {message}")


def require_steps(old: World, new: World) -> None:
    """Refuse a step back: an older attempt's item, an older object's, a version told twice."""
    for before, after in zip(old.units, new.units, strict=True):
        if after.version < before.version:
            raise Broken(f"a version went back: {before} → {after}")
        if after.applied_by < before.applied_by or after.applied < before.applied:
            raise Broken(f"a stale write was accepted: {before} → {after}")
        if before.status is not after.status and after.version == before.version:
            raise Broken(f"a status changed and its version did not: {before} → {after}")


def require_rest(world: World) -> None:
    """Refuse an end at which something waits, or is forgotten."""
    dead = {message.unit for message in world.messages if message.place == "dead"}
    for message in world.messages:
        if message.place not in {"gone", "dead"}:
            raise Broken(f"nothing happens any more, and {message} waits")
        unit = world.units[message.unit]
        newest = max(each.object for each in world.messages if each.unit == message.unit)
        if message.place == "gone" and unit.status is Status.SUCCEEDED and message.unit not in dead:
            given_up = unit.error is not None
            if unit.applied < newest and not given_up:
                raise Broken(f"the newest object is lost: {unit}")
    for index, unit in enumerate(world.units):
        if unit.due or unit.status in {Status.PENDING, Status.IN_PROGRESS}:
            raise Broken(f"nothing happens any more, and {unit} waits")
        if unit.status is Status.FAILED and is_retried(unit.error or "") and index not in dead:
            raise Broken(f"nobody tries it again, and no dead letter tells of it: {unit}")


def _is_progress(name: str) -> bool:
    return not any(word in name for word in _FAULTS) or name == "switch on"


def _restless(
    met: dict[World, tuple[World, str] | None],
    before: dict[World, list[World]],
    rests: list[World],
) -> World | None:
    """Return a world from which no way leads to rest, if there is one."""
    quiet, waiting = set(rests), list(rests)
    while waiting:
        for earlier in before.get(waiting.pop(), ()):
            if earlier not in quiet:
                quiet.add(earlier)
                waiting.append(earlier)
    return next((world for world in met if world not in quiet), None)


def _way_to(world: World, met: dict[World, tuple[World, str] | None]) -> list[str]:
    way = []
    step = met.get(world)
    while step is not None:
        way.append(step[1])
        step = met[step[0]]
    return way[::-1]

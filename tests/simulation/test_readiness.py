"""Objects that are announced before they are there, in a simulated world."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.simulate.feed import FeedMessage
from tests.simulation.template import Template
from tests.simulation.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.world import FeedStep

#: Worlds of these seeds have late objects.
SEEDS = range(900, 940)
ROUNDS_MAX = 400


def late_units(world: World) -> list[str]:
    """Return the objects that come late."""
    return [unit.object_uri for unit in world.feed.manifest().units if unit.fate == "late"]


def with_late_objects(folder: Path) -> World:
    """Return the first world that has some, with one worker."""
    template = Template(folder)
    for seed in SEEDS:
        world = World(seed, template)
        if len(late_units(world)) > 1:
            del world.processes[1:]
            world.processes[0].start()
            return world
        world.close()
    raise AssertionError("no seed has late objects")


def messages_first(steps: list[FeedStep]) -> tuple[list[FeedStep], list[FeedStep]]:
    """Part a feed: all its messages, then all its objects."""
    messages: list[FeedStep] = [step for step in steps if isinstance(step, FeedMessage)]
    return messages, [step for step in steps if not isinstance(step, FeedMessage)]


def work(world: World, seconds: float) -> None:
    """Let the worker work for a while."""
    process = world.processes[0]
    until = world.clock().timestamp() + seconds
    for _ in range(ROUNDS_MAX):
        process.step()
        world.check()
        if process.wake_at is not None:
            world.pass_time(1.0)
        if world.clock().timestamp() >= until:
            return
    raise AssertionError("time stands still")


@pytest.mark.conformance("C-11")
def test_late_objects_are_waited_for(tmp_path: Path) -> None:
    """Told first and written later: every unit waits, no promise breaks, all of them succeed."""
    world = with_late_objects(tmp_path)
    try:
        messages, objects = messages_first(world.coming)
        world.coming = messages
        world.produce(len(messages))
        work(world, 3.0)
        query = "SELECT status, last_error_code FROM wal_records WHERE object_uri = ?"
        for uri in late_units(world):
            assert world.ledger.execute(query, (uri,)).fetchone() == ("pending", "not_ready")
        world.coming = objects
        world.produce(len(objects))
        work(world, 60.0)
        for uri in late_units(world):
            assert world.ledger.execute(query, (uri,)).fetchone() == ("succeeded", None)
        assert world.violations == []
    finally:
        world.close()

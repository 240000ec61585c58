"""Every order of events of small worlds; `make explore` goes through larger ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ledger.receipt import Action, Decision
from tallgrass.queues.acknowledgement import DELETE
from tallgrass.replay.run import Fate, RowOutcome
from tests.exploration import small_world
from tests.exploration.exploring import beginning, explore
from tests.exploration.small_world import recovered
from tests.exploration.tuples import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.exploration.tuples import Unit, World

#: What is in the world; two workers, one crash, one lost lease and one failure unless told.
WORLDS: dict[str, dict[str, Any]] = {
    "one unit, two workers": {},
    "its object is overwritten": {"messages": ((0, 1), (0, 2)), "crashes": 0},
    "it is replayed": {"replays": 1, "endings": 0},
    "switches and replays of what is overwritten": {
        "messages": ((0, 1), (0, 2)),
        "crashes": 0,
        "endings": 0,
        "flips": 1,
        "replays": 1,
    },
    "the store cuts batches off": {"cuts": 3, "crashes": 0, "replays": 1},
    "two units": {"units": 2, "messages": ((0, 1), (1, 1)), "failures": 0, "endings": 0},
}


@pytest.mark.parametrize("name", WORLDS)
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    """In every world the promises hold, and from every world a way leads to rest."""
    found = explore(beginning(**WORLDS[name]))
    assert found.broken is None, "\n".join([found.broken or "", *found.way])
    assert found.states > 2000
    assert found.edges > found.states
    assert found.at_rest > 10


def always_delete(*_arguments: object) -> object:
    """Let every message go."""
    return DELETE


def always_claim(*_arguments: object, **_keywords: object) -> Decision:
    """Claim whatever is announced."""
    return Decision(action=Action.CLAIM, adopts_object=True)


def always_replay(*_arguments: object) -> Fate:
    """Replay whatever was planned once."""
    return Fate(RowOutcome.DUE)


def forgets_to_schedule(world: World) -> World:
    """Recover units, and leave them to nobody."""
    after = recovered(world)
    return after._replace(units=tuple(unit._replace(due=False) for unit in after.units))


def forgets_to_free(world: World, number: int, worker: Worker, **_told: bool) -> World:
    """Go on after the store failed, with claims that nobody else may take."""
    after = world._replace(cuts=world.cuts - 1)
    return after._replace(
        workers=tuple(
            Worker(each.incarnation) if place == number else each
            for place, each in enumerate(after.workers)
        )
    )


def forgets_the_fence(world: World) -> World:
    """Free units of workers whose lease has ended, who may go on writing."""
    after = recovered(world)
    return after._replace(leases=tuple(lease.replace("fenced", "ended") for lease in after.leases))


def forgets_the_attempt(unit: Unit, *arguments: Any) -> Unit:
    """Write the item under another attempt's number."""
    after = CLOSED(unit, *arguments)
    return after._replace(applied_by=0) if unit.rerunning else after


CLOSED = small_world._closed


@pytest.mark.parametrize(
    ("place", "planted", "told"),
    [
        ("acknowledge", always_delete, "was let go"),
        ("decide_receipt", always_claim, "a unit that is held was claimed"),
        ("recovered", forgets_to_schedule, "nobody's"),
        ("fate_of", always_replay, "a replay moved a unit that moved before"),
        ("_closed", forgets_the_attempt, "a stale write was accepted"),
    ],
)
def test_a_planted_fault_is_found_with_the_way_to_it(
    place: str, planted: Callable[..., Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exploration can fail, and says how it came to that."""
    monkeypatch.setattr(small_world, place, planted)
    found = explore(beginning(messages=((0, 1), (0, 2)), crashes=0, replays=1))
    assert told in (found.broken or "")
    assert found.way


def test_a_worker_that_keeps_what_was_cut_off_never_comes_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It lives and renews its lease: its unit is in progress for ever."""
    monkeypatch.setattr(small_world, "_cut_off", forgets_to_free)
    found = explore(beginning(cuts=1, crashes=0, endings=0))
    assert found.broken is not None


def test_recovery_without_a_fence_never_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lost its lease and is not fenced is recovered for ever, or holds what was freed."""
    monkeypatch.setattr(small_world, "recovered", forgets_the_fence)
    found = explore(beginning(crashes=0))
    assert found.broken is not None

"""Histories of a simulated world; `make simulate SEEDS=20000` plays many more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.simulation.dispatching import SimulatedTarget
from tests.simulation.simulator import History, Simulation, failure, report, simulate
from tests.simulation.world import Template
from tools.simulate import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery

#: Seeds of one test, and how many tests of them; FROM is fixed so that a build is repeatable.
SEEDS = 25
CHUNKS = 40 if os.environ.get("TALLGRASS_TEST_FULL") else 20


@pytest.mark.conformance("SM-5.0", "OB-1.0", "OB-1.1", "OB-2.6")
@pytest.mark.parametrize("first", range(1, 1 + SEEDS * CHUNKS, SEEDS))
def test_no_history_breaks_a_promise(first: int) -> None:
    """Whatever goes wrong, in any order, promises hold at each moment and all comes to its end."""
    histories = simulate(range(first, first + SEEDS), stop_at_first=True)
    broken = [history for history in histories if history.violations]
    assert not broken, failure(broken[0])
    assert len(histories) == SEEDS
    assert sum(history.events for history in histories) > SEEDS * 100


def test_one_seed_has_one_history(tmp_path: Path) -> None:
    """A seed is played the same way each time, event by event."""
    template = Template(tmp_path)
    first, second = (Simulation(7, template, tell=True).run() for _ in range(2))
    assert first.lines == second.lines
    assert len(first.lines) > 100
    assert Simulation(8, template, tell=True).run().lines != first.lines


def test_an_event_that_never_arrives_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that says yes and forgets is found out at the end, if not before."""
    send = SimulatedTarget.send

    def forgets(target: SimulatedTarget, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        answers = send(target, events)
        target.sends[:] = [one for one in target.sends if one.outbox_id[0] > "7"]
        return answers

    monkeypatch.setattr(SimulatedTarget, "send", forgets)
    history = Simulation(7, Template(tmp_path)).run()
    assert any("never" in text for text in history.violations), history.violations


def test_the_command_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The command tells its first seed, how much was played, and that nothing broke."""
    assert main(["--seeds", "2", "--from", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Seeds from FROM=11"
    assert lines[-1].startswith("2 seeds, ")
    assert lines[-1].endswith(" events, 0 violations")


def test_a_broken_promise_is_told_with_the_command_that_repeats_it() -> None:
    """A failing seed shows what broke, its history, and one command."""
    history = History(seed=42, events=3, violations=["it broke"], lines=["first", "second"])
    assert failure(history) == (
        "seed 42 broke a promise after 3 events:\n  it broke\nhistory:\nfirst\nsecond\n"
        "repeat it: make simulate FROM=42 SEEDS=1"
    )
    assert report([history]) == "1 seeds, 3 events, 1 violations"

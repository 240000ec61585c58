"""Histories of a simulated world; `make simulate SEEDS=20000` plays many more."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.simulation.dispatching import SimulatedTarget
from tests.simulation.simulator import History, Player, Simulation, failure, report
from tests.simulation.template import Template, is_on_files
from tools.simulate import main, played

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery

#: Seeds of one test, and how many tests of them; FROM is fixed so that a build is repeatable.
SEEDS = 25
CHUNKS = 40 if os.environ.get("TALLGRASS_TEST_FULL") else 20


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Return somebody who plays seeds."""
    made = Player(tmp_path_factory.mktemp("worlds"))
    yield made
    made.close()


@pytest.mark.conformance("SM-5.0", "OB-1.0", "OB-1.1", "OB-2.6")
@pytest.mark.parametrize("first", range(1, 1 + SEEDS * CHUNKS, SEEDS))
def test_no_history_breaks_a_promise(first: int, player: Player) -> None:
    """Whatever goes wrong, in any order, promises hold at each moment and all comes to its end."""
    histories = [player.play(seed) for seed in range(first, first + SEEDS)]
    broken = [history for history in histories if history.violations]
    assert not broken, failure(broken[0])
    assert len(histories) == SEEDS
    assert sum(history.events for history in histories) > SEEDS * 100


@pytest.mark.parametrize("seed", [19, 32])
def test_one_seed_has_one_history(seed: int, tmp_path: Path) -> None:
    """A seed is played the same way each time, event by event, in memory and on files."""
    assert is_on_files(seed) == (seed == 32)
    template = Template(tmp_path)
    first, second = (Simulation(seed, template, tell=True).run() for _ in range(2))
    assert first.lines == second.lines
    assert len(first.lines) > 100
    assert Simulation(8, template, tell=True).run().lines != first.lines
    template.close()


def test_processes_beside_each_other_change_nothing() -> None:
    """Seeds come in their order, and with their own histories, however many processes play."""
    alone, beside = (list(played(range(1, 31), jobs)) for jobs in (1, 2))
    assert [history.seed for history in beside] == list(range(1, 31))
    assert beside == alone


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
    template = Template(tmp_path)
    history = Simulation(19, template).run()
    template.close()
    assert any("never" in text for text in history.violations), history.violations


def test_the_command_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The command tells its first seed, how much was played, and that nothing broke."""
    assert main(["--seeds", "2", "--from", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Seeds from FROM=11"
    assert lines[-1].startswith("2 seeds, ")
    assert lines[-1].endswith(" events, 0 violations")


def test_a_run_that_is_stopped_sums_up_what_it_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM ends a long run; the seeds before it count, and those after it do not."""

    def stopped(seeds: range, *_: object) -> Iterator[History]:
        yield History(seed=seeds[0], events=3, violations=[], lines=[])
        signal.raise_signal(signal.SIGTERM)
        yield History(seed=seeds[1], events=5, violations=[], lines=[])

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("tools.simulate.played", stopped)
    assert main(["--seeds", "2", "--from", "11"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 seeds, 3 events, 0 violations"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_broken_promise_is_told_with_the_command_that_repeats_it() -> None:
    """A failing seed shows what broke, its history, and one command."""
    history = History(seed=42, events=3, violations=["it broke"], lines=["first", "second"])
    assert failure(history) == (
        "seed 42 broke a promise after 3 events:\n  it broke\nhistory:\nfirst\nsecond\n"
        "repeat it: make simulate FROM=42 SEEDS=1"
    )
    assert report([history]) == "1 seeds, 3 events, 1 violations"

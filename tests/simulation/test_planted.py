"""Every planted bug is found by its seed, and the same seed without it is clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.planted import BUGS
from tests.simulation.simulator import Simulation
from tests.simulation.template import Template
from tools.simulate_bugs import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.planted import Bug


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    """Return empty databases."""
    made = Template(tmp_path_factory.mktemp("template"))
    yield made
    made.close()


def test_there_are_twenty_of_them() -> None:
    """Enough bugs are planted, each under a name of its own."""
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, template: Template) -> None:
    """With the bug its seed breaks a promise, as is said of it."""
    with bug.plant():
        history = Simulation(bug.seed, template).run()
    assert bug.found_as
    assert any(bug.found_as in text for text in history.violations), history.violations


@pytest.mark.parametrize("seed", sorted({bug.seed for bug in BUGS}))
def test_without_the_bug_its_seed_is_clean(seed: int, template: Template) -> None:
    """What is found is the bug, not the seed."""
    assert Simulation(seed, template).run().violations == []


def test_the_command_tells_how_many_seeds_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    """The command names the bug and its seed; a bug that is not found in time makes it fail."""
    asked = ["--bug", "poison is not stored", "--from", "1"]
    assert main([*asked, "--seeds", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  poison is not stored: found by seed 2 of them"
    assert lines[2] == "1 of 1 planted bugs found, the last after 2 seeds"
    assert main([*asked, "--seeds", "1"]) == 1
    assert "poison is not stored: NOT FOUND" in capsys.readouterr().out

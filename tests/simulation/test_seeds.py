"""Seeds that once found something stay: they are played in every build."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation.simulator import Player, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.plugins.postgres import Databases

KEPT: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("seeds.toml").read_text(encoding="utf-8")
)["seed"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def player(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Player]:
    """Return somebody who plays seeds on a database."""
    databases: Databases | None = None
    if request.param == "postgres":
        databases = request.getfixturevalue("postgres_databases")
    made = Player(tmp_path_factory.mktemp("worlds"), databases)
    yield made
    made.close()


def test_each_is_kept_once_and_for_a_reason() -> None:
    """A seed that nobody can tell the story of is no regression test."""
    assert len({kept["seed"] for kept in KEPT}) == len(KEPT) > 0
    for kept in KEPT:
        assert kept.keys() == {"seed", "why"}
        assert kept["why"].endswith(".")


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept["seed"]))
def test_what_a_seed_found_stays_mended(kept: dict[str, Any], player: Player) -> None:
    """The history of a kept seed breaks no promise."""
    history = player.play(kept["seed"])
    assert not history.violations, f"{kept['why']}\n{failure(history)}"
    assert history.events > 50

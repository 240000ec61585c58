from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.command import here

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Console

#: What moves with the clock between two looks.
MOVING = {"at", "due_lag_s", "disk"}


def test_status_is_what_the_command_tells(console: Console, backend: Backend) -> None:
    """Each figure of `tallgrass status`, and each budget of `tallgrass slo`, is the same."""
    found = console.browser_of().get("/api/v1/status").json()
    told = here("status", at=backend).json
    assert {name: found[name] for name in told if name not in MOVING} == {
        name: told[name] for name in told if name not in MOVING
    }
    assert found["units"] == 10
    budgets = here("slo", at=backend).json["slos"]
    assert found["slos"] == budgets


def test_slo_takes_the_days(console: Console, backend: Backend) -> None:
    """The window is the asked one, as on the command line."""
    reader = console.browser_of()
    for days in (1, 365):
        told = here("slo", "--days", str(days), at=backend).json
        found = reader.get("/api/v1/slo", params={"days": days}).json()
        assert (found["days"], found["slos"]) == (told["days"], told["slos"])
    assert reader.get("/api/v1/slo?days=0").status_code == 422


def test_a_viewers_token_reads(console: Console, people: object) -> None:
    """A program reads by Bearer token, without cookie or page."""
    assert console.program("vera").get("/api/v1/status").json()["units"] == 10

"""`tallgrass switches`, `freeze`, `changes` and `incidents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import here, tallgrass
from tests.cli.test_actors import by
from tests.support.governance import set_up

if TYPE_CHECKING:
    from tests.support.backends import Backend

WHO = ("--actor", "j.doe", "--reason", "INC-7")


def test_switches_are_turned_by_scope_and_dataset(backend: Backend) -> None:
    """Several at once, one dataset or all; a list of what is on, or of all ever turned."""

    def turned(verb: str, *args: str) -> list[tuple[Any, ...]]:
        done = tallgrass("switches", verb, *args, *WHO, "--output", "json", at=backend).json
        return [(s["scope"], s["dataset"], s["is_on"]) for s in done["switches"]]

    both = ("--scope", "ingest", "--scope", "replay")
    assert turned("on", *both, "--dataset", "goes-glm") == [
        ("ingest", "goes-glm", True), ("replay", "goes-glm", True),
    ]  # fmt: skip
    assert turned("on", "--scope", "dispatch", "--all") == [("dispatch", "*", True)]
    assert turned("off", "--scope", "ingest", "--dataset", "goes-glm") == [
        ("ingest", "goes-glm", False)
    ]
    on = tallgrass("switches", "list", "--output", "json", at=backend).json["switches"]
    assert [(s["scope"], s["dataset"]) for s in on] == [("dispatch", "*"), ("replay", "goes-glm")]
    assert {(s["actor"], s["reason"]) for s in on} == {("j.doe", "INC-7")}
    ever = tallgrass("switches", "list", "--all", "--output", "json", at=backend).json["switches"]
    assert len(ever) == 3
    assert backend.sql("SELECT DISTINCT detail FROM audit_log") == [('{"proved":false}',)]


def test_a_mistyped_dataset_is_not_stopped(backend: Backend) -> None:
    """Its switch would seem to stop something; a dataset of the ledger, or of events, is known."""
    wrong = tallgrass(
        "switches", "on", "--scope", "ingest", "--dataset", "goes-gml", *WHO,
        "--output", "json", at=backend,
    )  # fmt: skip
    assert (wrong.code, wrong.error["code"]) == (2, "dataset_unknown")
    theirs = tallgrass(
        "switches", "on", "--scope", "dispatch", "--dataset", "theirs", *WHO, at=backend
    )
    assert theirs.code == 0
    assert backend.sql("SELECT scope, dataset FROM kill_switches") == [("dispatch", "theirs")]


def test_a_mistyped_dataset_does_not_seem_to_run(backend: Backend) -> None:
    """The one that was meant is stopped still; a switch that is there can be cleared always."""
    glm = ("--scope", "ingest", "--dataset", "goes-glm")
    assert tallgrass("switches", "on", *glm, *WHO, at=backend).code == 0
    typo = ("--scope", "ingest", "--dataset", "goes-gml")
    wrong = tallgrass("switches", "off", *typo, *WHO, "--output", "json", at=backend)
    assert (wrong.code, wrong.error["code"]) == (2, "dataset_unknown")
    backend.sql("UPDATE kill_switches SET dataset = 'gone'")
    gone = ("--scope", "ingest", "--dataset", "gone")
    assert tallgrass("switches", "off", *gone, *WHO, at=backend).code == 0


def test_letting_all_go_on_tells_what_is_still_stopped(backend: Backend) -> None:
    """The switch of a single dataset stays; that of another scope is not spoken of."""
    for scope, dataset in (("ingest", "goes-glm"), ("replay", "hrrr")):
        turn = ("switches", "on", "--scope", scope, "--dataset", dataset, *WHO)
        assert tallgrass(*turn, at=backend).code == 0
    off = ("switches", "off", "--scope", "ingest", "--all", *WHO)
    told = tallgrass(*off, "--output", "json", at=backend).json["switches"]
    assert [(one["dataset"], one["is_on"]) for one in told] == [("*", False), ("goes-glm", True)]


@pytest.mark.parametrize(
    "args",
    [
        ("--scope", "ingest", *WHO),
        ("--scope", "ingest", "--all", "--dataset", "hrrr", *WHO),
        ("--scope", "ingest", "--dataset", "*", *WHO),
        ("--scope", "everything", "--all", *WHO),
        ("--all", *WHO),
        ("--scope", "ingest", "--all", "--actor", "j.doe"),
        ("--scope", "ingest", "--all", "--reason", "x"),
        ("--scope", "ingest", "--all", "--actor", "j.doe", "--reason", " "),
    ],
)
def test_a_switch_says_what_who_and_why(backend: Backend, args: tuple[str, ...]) -> None:
    """Anything less is refused, and nothing is turned."""
    assert here("switches", "on", *args, at=backend).code == 2
    assert backend.sql("SELECT count(*) FROM kill_switches") == [(0,)]


def test_a_freeze_by_a_proved_actor(backend: Backend) -> None:
    """The token tells who; a name beside it must be theirs; its end clears what it set."""
    people = set_up(backend)
    people.stores.close()

    def freeze(verb: str, *args: str, who: str = "otto") -> Any:
        command = ("freeze", verb, "--reason", "INC-7", "--output", "json", *args)
        return tallgrass(*command, at=backend, env=by(who))

    assert freeze("on", "--actor", "otto").json == {
        "frozen": ["ingest", "replay", "dispatch", "nodes"]
    }
    assert "stopped" in tallgrass("switches", "list", at=backend).out
    assert freeze("off", who="vera").error["code"] == "not_authorized"
    assert freeze("off", "--actor", "ann").error["code"] == "not_authorized"
    assert sorted(freeze("off").json["thawed"]) == ["dispatch", "ingest", "nodes", "replay"]
    assert freeze("off").json == {"thawed": []}
    assert "everything runs" in tallgrass("switches", "list", at=backend).out


@pytest.mark.parametrize("name", ["changes", "incidents"])
def test_references_are_opened_listed_and_closed(backend: Backend, name: str) -> None:
    """Each flag shows: title, description, state, page, resolution."""
    who = ("--actor", "j.doe")

    def call(*args: str) -> Any:
        return here(name, *args, at=backend)

    opened = call("open", "R-1", "--title", "New", "--description", "more", *who).json
    assert (opened["ref"], opened["state"], opened["description"]) == ("R-1", "open", "more")
    call("open", "R-2", "--title", "Other", *who)
    twice = call("open", "R-1", "--title", "New", *who)
    assert (twice.code, twice.error["code"]) == (3, "reference_exists")
    closed = call("close", "R-1", "--resolution", "done", *who).json
    assert (closed["state"], closed["resolution"], closed["closed_by"]) == (
        "closed", "done", "j.doe",
    )  # fmt: skip
    assert call("show", "R-1").json == closed
    assert call("show", "R-9").error["code"] == "reference_unknown"
    assert [r["ref"] for r in call("list").json[name]] == ["R-2", "R-1"]
    assert [r["ref"] for r in call("list", "--state", "closed").json[name]] == ["R-1"]
    first = call("list", "--limit", "1").json
    assert ([r["ref"] for r in first[name]], first["next_cursor"]) == (["R-2"], "R-2")
    assert [r["ref"] for r in call("list", "--after", "R-2").json[name]] == ["R-1"]
    mistyped = call("list", "--after", "R-9")
    assert (mistyped.code, mistyped.error["code"]) == (1, "reference_unknown")
    assert "done" in tallgrass(name, "show", "R-1", at=backend).out
    assert "New" in tallgrass(name, "list", at=backend).out

"""A node is computed anew after an edit on disk, by whichever way it reaches the edited code.

A package is written, its nodes are run in a process, and again in other processes: as it was, and
after an edit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.code_forms import BODIES, FOLLOWED, UNTOLD, UNTOLD_BODIES, write_package

REPOSITORY = Path(__file__).resolve().parents[2]


def run_nodes(root: Path, name: str) -> Any:
    """Run all nodes in a process of their own, with a hash seed of its own."""
    places = (root, root / "site-packages", REPOSITORY, os.environ.get("PYTHONPATH", ""))
    path = os.pathsep.join(str(each) for each in places if each)
    child = subprocess.run(
        [sys.executable, "-B", "-m", "tests.nodes.code_roles", str(root / "work"), name],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(len(name))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the nodes gave at first, again, and after the edit."""
    root = tmp_path_factory.mktemp("edited")
    write_package(root, 1)
    first = run_nodes(root, "first")
    again = run_nodes(root, "again!")
    write_package(root, 100)
    return {"first": first, "again": again, "edited": run_nodes(root, "edited!")}


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize("form", [*FOLLOWED, *BODIES])
def test_an_edit_is_seen_by_whichever_way_the_code_is_reached(
    told: dict[str, Any], form: str
) -> None:
    """The result of the code before the edit is not given for the code after it."""
    assert told["first"][form]["given"] == [2, 2]
    assert told["edited"][form]["given"] == [101, 101]
    assert told["edited"][form]["hits"] == [False, True]


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize("form", [*FOLLOWED, *BODIES])
def test_without_an_edit_the_result_comes_from_the_cache(told: dict[str, Any], form: str) -> None:
    """In another process, with another hash seed, and after all was imported."""
    assert told["first"][form]["why"] == []
    assert told["first"][form]["hits"] == [False, True]
    assert told["again"][form] == {"given": [2, 2], "hits": [True, True], "why": []}


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize("form", [*UNTOLD, *UNTOLD_BODIES])
def test_what_is_reached_in_a_way_that_is_not_told_is_not_cached(
    told: dict[str, Any], form: str
) -> None:
    """It is computed each time, and said once why."""
    said = UNTOLD[form][2] if form in UNTOLD else UNTOLD_BODIES[form][0]
    for name, given in (("first", 2), ("again", 2), ("edited", 101)):
        found = told[name][form]
        assert found["given"] == [given, given]
        assert found["hits"] == [False, False]
        (why,) = found["why"]
        assert said in why


@pytest.mark.conformance("NR-4.5")
def test_a_module_that_cannot_be_found_yet_is_followed_once_it_is_there(
    told: dict[str, Any],
) -> None:
    """The first call of a process has no version; the second knows what the first has imported."""
    for name, given in (("first", 2), ("again", 2), ("edited", 101)):
        found = told[name]["hidden_module"]
        assert found["given"] == [given, given]
        assert found["why"] == ["hidden is imported inside a function, and is not there"]
        assert found["hits"] == [False, name == "again"]

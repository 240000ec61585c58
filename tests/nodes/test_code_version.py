"""A derived code version changes with the code, and with nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.nodes.code_version import derive_code_version
from tallgrass.nodes.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = Values()

BASE = """
import math
LIMIT = 3
TABLE = {"a": [1, 2]}
def helper(x, k=2):
    return x * k
class Model:
    rate = 0.5
    def apply(self, x):
        return helper(x) * self.rate
def node(state):
    inner = lambda y: y + 1
    return {"out": inner(helper(state["x"])) + LIMIT + Model().apply(1) + len(TABLE)}
"""


def made(source: str, name: str = "node", place: str = "somewhere.py") -> Callable[..., Any]:
    """The function of a module with this source."""
    module: dict[str, Any] = {"__name__": "user_graph"}
    exec(compile(source, place, "exec"), module)  # noqa: S102 - the test's own text
    function: Callable[..., Any] = module[name]
    return function


def version(source: str, place: str = "somewhere.py") -> str:
    """The derived version of a module's node."""
    return derive_code_version(made(source, place=place), VALUES)


@pytest.mark.conformance("NR-4.5")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("[1, 2]", "[1, 3]"),
        ("x * k", "x + k"),
        ("k=2", "k=3"),
        ("rate = 0.5", "rate = 0.6"),
        ("y + 1", "y + 2"),
        ('"out"', '"other"'),
        ("* self.rate", "/ self.rate"),
        ("len(TABLE)", "min(TABLE)"),
    ],
)
def test_every_edit_that_can_change_a_result_changes_the_version(before: str, after: str) -> None:
    """Body, constants, globals, callees, classes and inner functions all count."""
    assert BASE.count(before) == 1
    assert version(BASE.replace(before, after)) != version(BASE)


def test_place_and_comments_do_not_count() -> None:
    """The same code in another folder, further down and with comments, is the same code."""
    assert version("\n\n# a comment\n" + BASE, place="/elsewhere.py") == version(BASE)
    assert version(BASE + "\ndef unrelated():\n    return 9\n") == version(BASE)


@pytest.mark.conformance("NR-4.5")
def test_closure_values_count() -> None:
    """A factory's nodes differ by what they close over."""
    source = "def make(n):\n    def node(state):\n        return state['x'] * n\n    return node\n"
    one, same, other = (derive_code_version(made(source, "make")(n), VALUES) for n in (2, 2, 3))
    assert one == same != other


def test_helper_modules_of_the_same_distribution_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`helpers.compute` is followed into its module, where that is the user's own."""
    program = (
        "import helpers, json\n"
        "from tallgrass.nodes.code_version import derive_code_version\n"
        "from tallgrass.nodes.values import Values\n"
        "def node(state):\n    return json.dumps(helpers.compute(state))\n"
        "print(derive_code_version(node, Values()))\n"
    )
    versions = []
    for body in ("s", "s", "[s]"):
        (tmp_path / "helpers.py").write_text(f"def compute(s):\n    return {body}\n")
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        versions.append(run.stdout)
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.conformance("NR-3.1")
def test_other_processes_derive_the_same_version(tmp_path: Path) -> None:
    """Hash seeds and processes do not matter, also where a set is among the constants."""
    source = (
        "from tallgrass.nodes.code_version import derive_code_version\n"
        "from tallgrass.nodes.values import Values\n"
        "NAMES = {'river', 'storm', 'gauge', 'prairie'}\n"
        "def node(state):\n"
        "    return state['x'] in {'river', 'storm', 'gauge'} or state['x'] in NAMES\n"
        "print(derive_code_version(node, Values()))\n"
    )
    place = tmp_path / "graph.py"
    place.write_text(source)
    found = {
        subprocess.run(
            [sys.executable, str(place)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_code_that_calls_itself_has_a_version() -> None:
    """Two functions that call each other end the walk."""
    source = "def node(s):\n    return other(s)\ndef other(s):\n    return node(s) or 1\n"
    assert version(source) != version(source.replace("or 1", "or 2"))


def test_what_cannot_be_hashed_has_no_version() -> None:
    """A lock, a socket or a client in reach of the node says so by its type."""
    lock = threading.Lock()

    def node(state: dict[str, int]) -> dict[str, int]:
        with lock:
            return state

    with pytest.raises(InvalidInput, match="lock"):
        derive_code_version(node, VALUES)


def test_bound_methods_and_partials_count_what_they_are_bound_to() -> None:
    """An object's values are part of the code that uses them."""
    source = (
        "import functools\n"
        "class Scale:\n"
        "    def __init__(self, by):\n        self.by = by\n"
        "    def node(self, state):\n        return state * self.by\n"
        "def free(by, state):\n    return state * by\n"
        "def bound(by):\n    return Scale(by).node\n"
        "def part(by):\n    return functools.partial(free, by)\n"
    )
    for factory in ("bound", "part"):
        make = made(source, factory)
        versions = [derive_code_version(make(by), VALUES) for by in (1, 1, 2)]
        assert versions[0] == versions[1] != versions[2]


def test_a_value_that_holds_itself_gives_no_version() -> None:
    """It cannot be hashed; the node runs all the same, uncached."""
    table: dict[str, Any] = {}
    table["all"] = [table]

    def node(state: Any) -> Any:
        return state, table

    with pytest.raises(InvalidInput, match="holds itself"):
        derive_code_version(node, VALUES)

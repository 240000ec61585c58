"""A derived code version changes with the code, and with nothing else."""

from __future__ import annotations

import _random
import importlib
import math
import os
import subprocess
import sys
import threading
from _random import Random
from importlib import metadata
from math import sqrt as root
from types import ModuleType
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tallgrass.errors import InvalidInput
from tallgrass.nodes.code_homes import named_module
from tallgrass.nodes.code_version import derive_code_version
from tallgrass.nodes.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = Values()
LIMITS = httpx.codes.OK

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


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **files: str) -> None:
    """A package on disk that can be imported, and is forgotten after the test."""
    monkeypatch.syspath_prepend(folder)
    (folder / name).mkdir()
    for file, text in {"__init__": "", **files}.items():
        (folder / name / f"{file}.py").write_text(text)
    for loaded in (name, *(f"{name}.{file}" for file in files)):
        # Set, so that it is taken back, and taken away, so that it is imported.
        monkeypatch.setitem(sys.modules, loaded, ModuleType(loaded))
        del sys.modules[loaded]


def test_a_module_that_nobody_imported_is_not_imported_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node would fail; it must not succeed only because its version was derived."""
    package(tmp_path, monkeypatch, "unloaded_flow", alone="def f():\n    return 1\n")
    with pytest.raises(InvalidInput, match=r"unloaded_flow\.alone is used, and is not there"):
        version("import unloaded_flow\ndef node(s):\n    return unloaded_flow.alone.f()\n")
    assert "unloaded_flow.alone" not in sys.modules


def test_a_module_whose_import_fails_gives_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would have brought is not known, whatever the node does about it."""
    package(tmp_path, monkeypatch, "failing_flow", broken="raise ValueError('today')\n")
    with pytest.raises(InvalidInput, match=r"failing_flow\.broken cannot be imported: today"):
        version("def node(s):\n    import failing_flow.broken\n")


def test_a_registry_that_an_import_fills_is_seen_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is the same before the first import and after it."""
    registry = (
        "import functools\n@functools.singledispatch\ndef act(x):\n    return 0\n"
        "def node(s):\n    import filled_flow.more\n    return act(s)\n"
    )
    more = (
        "from filled_flow.base import act\n@act.register\ndef _(x: int):\n    return 1\n"
        "def unused():\n    return 2\n"
    )
    package(tmp_path, monkeypatch, "filled_flow", base=registry, more=more)
    node = importlib.import_module("filled_flow.base").node
    assert derive_code_version(node, VALUES) == derive_code_version(node, VALUES)


@pytest.mark.conformance("NR-4.5")
def test_an_annotation_without_a_stable_form_hides_nothing() -> None:
    """It counts by its text, and what was met on its way is followed where it is used."""
    source = (
        "import threading\nfrom typing import Annotated\n"
        "class Part:\n    def apply(self):\n        return 1\n"
        "class Odd:\n    part = Part\n    lock = threading.Lock()\n"
        "class Held:\n    odd: Annotated[int, Odd]\n    def apply(self):\n        return Part()\n"
        "def node(s):\n    return Held().apply().apply()\n"
    )
    assert version(source) == version(source)
    assert version(source.replace("return 1", "return 2")) != version(source)
    assert version(source.replace("Annotated[int", "Annotated[str")) != version(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('re.compile("a+")', 're.compile("a*")'),
        ('re.compile("a+")', 're.compile("a+", re.I)'),
        ('Path("data")', 'Path("other")'),
        ('ZoneInfo("UTC")', 'ZoneInfo("Europe/Berlin")'),
        ("str.upper", "str.lower"),
        ("list[int]", "list[str]"),
        ("{int, str}", "{int, float}"),
        ("{(1, Kind.A)}", "{(1, Kind.B)}"),
        ("Failure(3)", "Failure(4)"),
    ],
)
def test_values_that_stand_in_modules_count(before: str, after: str) -> None:
    """Patterns, paths, zones, methods of types, types, sets and errors."""
    source = (
        "import enum, re\nfrom pathlib import Path\nfrom zoneinfo import ZoneInfo\n"
        "class Kind(enum.Enum):\n    A = 1\n    B = 2\n"
        "class Failure(Exception):\n    pass\n"
        f"VALUE = {before}\ndef node(s):\n    return VALUE\n"
    )
    assert version(source) == version(source)
    assert version(source.replace(before, after)) != version(source)


def test_compiled_code_without_a_version_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells whether a function or a class of one's own that was compiled has changed."""
    monkeypatch.setattr(math.sqrt, "__module__", "own_code")
    monkeypatch.setattr(_random.Random, "__module__", "own_code")
    with pytest.raises(InvalidInput, match=r"own_code\.sqrt is compiled"):
        derive_code_version(lambda _: root(2), VALUES)
    with pytest.raises(InvalidInput, match=r"own_code\.Random is compiled"):
        derive_code_version(lambda _: Random(), VALUES)


def test_another_release_of_a_library_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for what is imported inside, and for the objects of its classes."""
    source = "def node(s):\n    from httpx import Timeout\n    return Timeout(1)\n"
    functions = [made(source), lambda _: LIMITS]
    before = [derive_code_version(each, VALUES) for each in functions]
    monkeypatch.setattr(metadata, "version", lambda _: "999")
    named_module.cache_clear()
    after = [derive_code_version(each, VALUES) for each in functions]
    named_module.cache_clear()
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False]


def test_an_object_that_cannot_be_looked_at_gives_no_version() -> None:
    """Whatever its class does; the node runs all the same."""
    source = (
        "class Odd:\n    @property\n    def __dict__(self):\n        raise RuntimeError('closed')\n"
        "ODD = Odd()\ndef node(s):\n    return ODD\n"
    )
    with pytest.raises(InvalidInput, match=r"cannot be looked at: RuntimeError\('closed'\)"):
        version(source)


def test_there_is_a_bound_to_what_counts_as_one_node() -> None:
    """A walk over a whole library ends."""
    source = "".join(f"def f{n}(s):\n    return f{n + 1}(s)\n" for n in range(150))
    wide = "".join(f"def g{n}(s):\n    return {n}\n" for n in range(2001))
    calls = ", ".join(f"g{n}" for n in range(2001))
    assert version(f"{source}\ndef f150(s):\n    return s\ndef node(s):\n    return f0(s)\n")
    with pytest.raises(InvalidInput, match="more than 2000"):
        version(f"{wide}\ndef node(s):\n    return [{calls}]\n")

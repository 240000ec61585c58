"""What the specification forbids cannot be done by oversight: the build fails.

Nothing leaves but by a sink, and no sink is called but for a recorded row.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

import tallgrass

SOURCE = Path(tallgrass.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
#: What others may know of sinks: their form, never one that sends.
FORM = "tallgrass.sinks.protocol"


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports, by full names, wherever in it."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        names = found.setdefault(path.relative_to(SOURCE).as_posix(), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importers(*wanted: str) -> set[str]:
    """Return the modules that import any of these, or what is below them."""
    return {
        module
        for module, names in imports().items()
        for name in names
        if any(name == one or name.startswith(f"{one}.") for one in wanted)
    }


@pytest.mark.conformance("OB-8.1", "OB-3.4")
def test_only_what_wires_dispatchers_holds_a_sink() -> None:
    """No other module can send: one opens sinks, one gives them to a dispatcher, one tries them."""
    senders = {
        f"tallgrass.sinks.{path.stem}"
        for path in (SOURCE / "sinks").glob("*.py")
        if path.stem not in {"__init__", "protocol"}
    }
    assert len(senders) > 10
    outside = {name for name in importers(*senders) if not name.startswith("sinks/")}
    assert outside == {"bootstrap/sinks.py"}
    users = importers("tallgrass.bootstrap.sinks.open_target", "tallgrass.bootstrap.sinks")
    assert users == {"bootstrap/outbox.py", "bootstrap/config_report.py"}


@pytest.mark.conformance("OB-3.4")
def test_only_the_dispatcher_sends() -> None:
    """No other module calls `send` on what may be a sink."""
    holders = {name for name in importers(FORM) if not name.startswith("sinks/")}
    calls = {
        name
        for name in holders
        for node in ast.walk(ast.parse((SOURCE / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "send"
        and "sink" in ast.unparse(node.func.value).lower()
    }
    assert calls == {"outbox/dispatcher.py"}


@pytest.mark.conformance("OB-8.1", "OB-8.6")
def test_the_rule_of_the_build_has_no_exception() -> None:
    """import-linter knows every sink that sends, and no import that it would let pass."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    (rule,) = [each for each in contracts if "Events leave only" in each["name"]]
    assert "ignore_imports" not in rule
    assert set(rule["allowed_importers"]) == {"tallgrass.bootstrap", "tallgrass.sinks"}
    sending = {
        f"tallgrass.sinks.{path.stem}"
        for path in (SOURCE / "sinks").glob("*.py")
        if "def send(" in path.read_text(encoding="utf-8")
    } - {FORM}
    assert sending <= set(rule["protected_modules"])
    (storage,) = [each for each in contracts if each["name"] == "Only bootstrap wires storage"]
    assert "ignore_imports" not in storage


@pytest.mark.conformance("OB-8.6", "OB-8.2")
def test_no_comment_switches_a_rule_off() -> None:
    """Nothing of the outbox silences the checks that keep it: not a line, not a file."""
    for path in (*(SOURCE / "outbox").glob("*.py"), *(SOURCE / "sinks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "importlinter" not in text, path
        assert "autocommit=True" not in text, path

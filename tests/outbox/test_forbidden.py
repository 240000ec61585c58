"""What the specification forbids cannot be done by oversight: the build fails."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import tallgrass

SOURCE = Path(tallgrass.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
#: Who may hold a sink: what wires it, and the sinks among themselves.
MAY = ("bootstrap", "sinks")
#: Of the sinks' package, what sends nothing.
HARMLESS = {"tallgrass.sinks.protocol", "tallgrass.sinks.cloud_event", "tallgrass.sinks.item_event"}


def imports(path: Path) -> set[str]:
    """Return the modules that a module names, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.conformance("OB-8.1", "OB-3.4")
def test_only_what_wires_dispatchers_holds_a_sink() -> None:
    """No other module can send: it has nothing to send with."""
    sinks = {f"tallgrass.sinks.{path.stem}" for path in (SOURCE / "sinks").glob("*.py")} - HARMLESS
    assert len(sinks) > 8
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in MAY:
            assert not imports(path) & sinks, path


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
    } - HARMLESS
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

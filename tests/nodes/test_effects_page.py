"""The page about effects: its examples run as they stand, and it names every state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tallgrass.nodes.effect_states import Compensated
from tallgrass.nodes.escalation import AlertKind
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.backends import Backend

PAGE = (ROOT / "docs" / "how-to" / "node-effects.md").read_text(encoding="utf-8")


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    """The first makes its effect once in two runs of it; the others can be pasted too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TALLGRASS_DATABASE_URL", backend.url)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shelves: list[Any] = []
    for example in [examples[0], *examples]:
        module: dict[str, Any] = {"__name__": "example"}
        exec(compile(example, "example.py", "exec"), module)  # noqa: S102 - the page's own text
        module["runner"].close()
        shelves.append(module.get("shelf"))
    assert shelves == [{"06889000": 1460.0}, {}, None, None]


def test_every_state_and_alert_is_named() -> None:
    """Whoever reads one in a file finds it on the page."""
    for word in [*Compensated, *AlertKind]:
        assert f"`{word.value}`" in PAGE

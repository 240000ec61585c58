"""The page for users: its example runs, and it names every option and file."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

from tallgrass.nodes import NodeDeclaration
from tallgrass.nodes.entries import TaskId, TaskState
from tallgrass.nodes.views import views_of
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = (ROOT / "docs" / "how-to" / "nodes.md").read_text(encoding="utf-8")
#: For lineage; shown where lineage is.
ELSEWHERE = {"reads", "writes", "extra"}


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run as it stands, twice, and its log lies where the page says."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        module: dict[str, object] = {"__name__": "example"}
        exec(compile(example, "example.py", "exec"), module)  # noqa: S102 - the page's own text
        module["runner"].close()  # type: ignore[attr-defined]
    folder = tmp_path / "work" / "wal" / "2026-11-16"
    assert (folder / ".journal").is_file()
    assert '"smoothed": 3.0' in (folder / "smooth" / "post.json").read_text()


def test_every_option_and_file_is_named() -> None:
    """Nothing that a node can declare, and no file of its log, is left unsaid."""
    options = {each.name for each in fields(NodeDeclaration)} - ELSEWHERE
    assert {name for name in options if f"`{name}`" not in PAGE} == set()
    task = TaskState(id=TaskId(node_id="n", task_id="t"), is_first=True)
    assert all(name in PAGE for name in views_of("r", task))

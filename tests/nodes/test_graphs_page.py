"""The page on graphs: its example runs, and what it says of options and codes is so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallgrass.nodes.graphs import _OWN_OPTIONS
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = (ROOT / "docs" / "how-to" / "node-graphs.md").read_text(encoding="utf-8")


def test_the_page_s_graph_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run as it stands, twice, and leaves its log under the thread."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        module: dict[str, object] = {"__name__": "example"}
        exec(compile(example, "example.py", "exec"), module)  # noqa: S102 - the page's own text
        module["runner"].close()  # type: ignore[attr-defined]
    post = tmp_path / "work" / "wal" / "2026-11-16" / "smooth" / "post.json"
    assert '"smoothed": 3.0' in post.read_text()


def test_the_page_names_every_option_and_code() -> None:
    """Of the adapter's own."""
    for name in (*_OWN_OPTIONS, "node_policy_stacked", "node_unwrapped", "require_reliable"):
        assert f"`{name}" in PAGE

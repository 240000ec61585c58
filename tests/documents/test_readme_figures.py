"""What the README says of promises and proofs is what their own pages say."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from tests.documents.markdown import DOCS, ROOT, read, rows, section
from tools.generate_docs import main
from tools.proof_summary import NOTHING, proof_summary
from tools.reliability import replaced, table

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

README = read(ROOT / "README.md")
COUNTS: dict[str, int | str] = {
    "cycles": 200,
    "first seed": "7",
    "kills": 1234,
    "lost": 0,
    "stale": 0,
}


def test_the_promises_are_those_of_their_page() -> None:
    """The seven sentences stand in both places, word for word."""
    page = read(DOCS / "concepts" / "promises.md")
    sentences = [
        re.sub(r"\s+", " ", text)
        for text in re.findall(r"^\*(.+?)\*$", page, re.DOTALL | re.MULTILINE)
    ]
    assert [text for _, text in rows(section(README, "The promises"))] == sentences
    assert len(sentences) == 7


def test_figures_of_a_published_run_are_told() -> None:
    """What was counted is told in the run's order, with its date; a nought stands out."""
    page = read(DOCS / "reference" / "reliability.md")
    for name in re.findall(r"^<!-- ([a-z-]+) -->$", page, re.MULTILINE):
        page = replaced(page, name, "Not published yet.")
    assert proof_summary(page) == NOTHING
    told = table({"date": "2026-11-16", "commit": "`abc`", **COUNTS})
    assert rows(proof_summary(replaced(page, "chaos", told))) == [
        [
            "Crashes of real processes (`make chaos`)",
            "200 cycles, 1,234 kills, **0** lost, **0** stale",
            "2026-11-16",
        ]
    ]


def test_figures_of_a_store_are_told_together() -> None:
    """Those through time, and of a module, are left to their page; a verdict stands for itself."""
    page = read(DOCS / "reference" / "reliability.md")
    for name in re.findall(r"^<!-- ([a-z-]+) -->$", page, re.MULTILINE):
        page = replaced(page, name, "Not published yet.")
    told = table({
        "date": "2026-11-16", "minutes": "30", "sqlite: units": 1000, "sqlite: memory": "9 → 8 MB",
        "`ledger/unit.py`": "100.0% of 3",
        "sqlite: lost": 0, "sqlite: verdict": "flat", "postgres: units": 900,
    })  # fmt: skip
    assert rows(proof_summary(replaced(page, "soak", told)))[0][1] == (
        "30 minutes; sqlite: 1,000 units, **0** lost, flat; postgres: 900 units"
    )


def test_a_readme_behind_the_page_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures that were published since make the README outdated, until it is written again."""
    docs = shutil.copytree(DOCS, tmp_path / "docs")
    readme = tmp_path / "README.md"
    readme.write_text(README, encoding="utf-8")
    page = docs / "reference" / "reliability.md"
    told = table({"date": "2031-01-02", "commit": "`abc`", **COUNTS})
    page.write_text(replaced(read(page), "chaos", told), encoding="utf-8")
    assert main(["--check"], docs) == 1
    assert "README.md is behind the code" in capsys.readouterr().out
    main([], docs)
    assert "1,234 kills, **0** lost, **0** stale | 2031-01-02 |" in read(readme)
    assert main(["--check"], docs) == 0

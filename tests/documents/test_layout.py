from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.documents.markdown import (
    DOCS,
    ROOT,
    WAL_DOCS,
    all_documents,
    anchors,
    links,
    read,
    section,
)

if TYPE_CHECKING:
    from pathlib import Path

WAL_NAMES = (
    "README.md",
    "wal-record-model.md",
    "wal-state-machine.md",
    "wal-storage-backends.md",
)
GOVERNED = [
    DOCS / "replay" / "README.md",
    DOCS / "concepts" / "decisions.md",
    *(WAL_DOCS / name for name in WAL_NAMES),
    *sorted((DOCS / "idempotency").glob("*.md")),
    DOCS / "governance" / "policies.md",
    *sorted((DOCS / "replay" / "replay-engine").glob("*.md")),
]


def name_of(path: Path) -> str:
    """Return a document's path in the checkout."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.conformance("WAL-2.1")
def test_the_ledger_is_documented_in_its_own_folder() -> None:
    """Contract, record model, state machine and storage lie in docs/replay/wal, nothing else."""
    assert sorted(path.name for path in WAL_DOCS.iterdir()) == sorted(WAL_NAMES)


@pytest.mark.conformance("WAL-2.1")
def test_the_contract_lists_its_folder_and_says_where_the_rest_lives() -> None:
    """The layout names each document, and code and schemas by places that exist."""
    layout = section(read(WAL_DOCS / "README.md"), "Layout")
    for name in WAL_NAMES:
        assert re.search(rf"[├└]── {re.escape(name)} ", layout), name
    for place in ("src/tallgrass/ledger/", "src/tallgrass/storage/", "docs/reference/schemas/"):
        assert place in layout
        assert (ROOT / place).is_dir()


@pytest.mark.conformance("WAL-2.1")
@pytest.mark.parametrize("path", GOVERNED, ids=name_of)
def test_each_document_has_purpose_history_and_governance(path: Path) -> None:
    """A governed document says what it is for, how it changed, and who may change it."""
    text = read(path)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-2:] == ["Version history", "Governance"]
    assert len(section(text, "Purpose").strip()) > 80
    assert re.search(
        r"^\| \d+\.\d+\.\d+ \| \d{4}-\d{2}-\d{2} \|", section(text, "Version history"), re.MULTILINE
    )
    found = [(path.parent / link.partition("#")[0]) for link in links(section(text, "Governance"))]
    governing = {target.resolve() for target in found}
    assert ROOT / "CONTRIBUTING.md" in governing
    assert path == DOCS / "concepts" / "decisions.md" or (
        DOCS / "concepts" / "decisions.md" in governing
    )


@pytest.mark.parametrize("path", all_documents(), ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    """Each relative link names a file that exists, each anchor a heading in it."""
    text = read(path)
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert file == ROOT or ROOT in file.parents, f"{link} leaves the project"
        if anchor:
            assert anchor in anchors(read(file)), link


@pytest.mark.parametrize("path", all_documents(), ids=name_of)
def test_no_document_promises_exactly_once(path: Path) -> None:
    """Delivery is at least once; a sentence with `exactly once` may only deny it."""
    prose = re.sub(r"\s+", " ", read(path))
    for sentence in re.split(r"(?<=[.!?])\s|\|", prose):
        if re.search(r"exactly[- ]once (delivery|semantics|processing)", sentence, re.IGNORECASE):
            assert re.search(r"\b(never|not|no)\b", sentence), sentence


@pytest.mark.parametrize("path", all_documents(), ids=name_of)
def test_documents_read_as_plain_text(path: Path) -> None:
    """No tabs, no trailing blanks, one top heading, headings without gaps in rank."""
    text = read(path)
    assert "\t" not in text
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)
    assert text.endswith("\n")
    outside_code = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    ranks = [len(found) for found in re.findall(r"^(#+) ", outside_code, re.MULTILINE)]
    assert ranks[0] == 1
    assert ranks.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(ranks))

"""Just enough Markdown to hold documents to their word."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WAL_DOCS = DOCS / "replay" / "wal"

_CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_WORD = re.compile(r"`([^`]+)`")


def read(path: Path) -> str:
    """Return a document's text."""
    return path.read_text(encoding="utf-8")


def all_documents() -> list[Path]:
    """Return every Markdown file that the project ships."""
    return sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next of its rank or above."""
    match = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert match, f"no section {heading!r}"
    rest = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str) -> list[list[str]]:
    """Return the cells of the first table in a text, without its head."""
    lines = iter(text.splitlines())
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif table:
            break
    assert len(table) > 2, "no table"
    return table[2:]


def words(text: str) -> list[str]:
    """Return what stands in back quotes."""
    return _WORD.findall(text)


def code_blocks(text: str, language: str) -> list[str]:
    """Return all code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def code_block(text: str, language: str) -> str:
    """Return the first code block of a language."""
    found = code_blocks(text, language)
    assert found, f"no {language} block"
    return found[0]


def links(text: str) -> list[str]:
    """Return the targets of all links outside code."""
    return _LINK.findall(_CODE_BLOCK.sub("", text))


def anchors(text: str) -> set[str]:
    """Return the anchors of all headings, as GitHub makes them."""
    headings = _HEADING.findall(_CODE_BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}

"""Hooks of the documents' site (`make docs`): what links lead to outside of docs/ comes along.

The documents are read on code hosts too, so their links are plain paths in the checkout. On the
site the project's own pages become pages, other files are copied, and a link to a folder is text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages of the project that are no part of docs/.
PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md")
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_files(files: Any, *, config: Any) -> Any:
    """Add the project's pages, and each file outside of docs/ that a page links to."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - an extra that only `make docs` needs

    for name in PROJECT:
        files.append(File.generated(config, f"project/{name}", abs_src_path=str(ROOT / name)))
    for path in sorted(_linked_files()):
        address = f"files/{path.relative_to(ROOT).as_posix()}"
        files.append(File.generated(config, address, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead links to where their targets are on the site."""
    address = PurePosixPath(page.file.src_uri)
    source = ROOT / address.name if address.parts[0] == "project" else DOCS / address

    def led(match: re.Match[str]) -> str:
        place = _place(source, match["target"])
        if place is None:
            return match[0]
        if not place:
            return match["text"]
        target = os.path.relpath(place, address.parent)
        return f"[{match['text']}]({target}{match['anchor'] or ''})"

    return _outside_code(markdown, lambda text: _LINK.sub(led, text))


def _place(source: Path, target: str) -> str | None:
    """Return where a link's target is on the site; "" for nowhere, None for an address."""
    if re.match(r"[a-z]+:", target):
        return None
    path = (source.parent / target).resolve()
    if path.is_relative_to(DOCS):
        if path == DOCS or path.is_dir():
            path = path / "README.md"
        return path.relative_to(DOCS).as_posix()
    if path.parent == ROOT and path.name in PROJECT:
        return f"project/{path.name}"
    if path == ROOT / "README.md":
        return "README.md"
    return f"files/{path.relative_to(ROOT).as_posix()}" if path.is_file() else ""


def _linked_files() -> set[Path]:
    found = set()
    for page in [*DOCS.rglob("*.md"), *(ROOT / name for name in PROJECT)]:
        for match in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
            place = _place(page, match["target"])
            if place and place.startswith("files/"):
                found.add(ROOT / place.removeprefix("files/"))
    return found


def _outside_code(text: str, change: Any) -> str:
    """Change what stands outside of code blocks."""
    parts, end = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])

from __future__ import annotations

import re
import struct
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.documents.markdown import DOCS, all_documents, read
from tools.screenshots import IMAGES, SCHEMES, SIZES

if TYPE_CHECKING:
    from pathlib import Path

#: What the tool promises: the main pages, by the names of their pictures.
PAGES = (
    "overview", "records", "unit", "map", "replay", "dead-letters", "governance", "outbox", "nodes",
)  # fmt: skip
BYTES_MAX = 4_000_000
_PICTURE = re.compile(r"<picture>(.*?)</picture>", re.DOTALL)
_FILE = re.compile(r'(?:srcset|src)="([^"]+)"')


def test_every_main_page_is_there_in_both_colours_and_sizes() -> None:
    """As a PNG of the width that it was taken at; all of them together stay small."""
    found = {path.name: path for path in IMAGES.glob("*.png")}
    wanted = {f"{p}-{size}-{scheme}.png" for p, size, scheme in product(PAGES, SIZES, SCHEMES)}
    assert set(found) == wanted
    for name, path in found.items():
        head = path.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n", name
        (width,) = struct.unpack(">I", head[16:20])
        assert width == SIZES["phone" if "-phone-" in name else "desktop"][0], name
    assert sum(path.stat().st_size for path in found.values()) < BYTES_MAX


@pytest.mark.parametrize("path", all_documents(), ids=lambda path: path.name)
def test_a_picture_has_its_files_in_both_colours_and_words(path: Path) -> None:
    """Whoever cannot see it reads what it shows."""
    for told in _PICTURE.findall(read(path)):
        files = _FILE.findall(told)
        assert len(files) == 2, told
        dark, light = ((path.parent / each).resolve() for each in files)
        assert dark.is_file(), dark
        assert light.is_file(), light
        assert dark.name == light.name.replace("-light", "-dark")
        assert re.search(r'alt="[^"]{10,}"', told), told


def test_readme_and_the_pages_of_the_console_use_them() -> None:
    """The first thing that a newcomer sees is the product."""
    texts = [read(path) for path in all_documents()]
    used = {name for text in texts for name in re.findall(r"images/([\w-]+)-light", text)}
    assert {f"{page}-desktop" for page in PAGES} <= used
    assert "docs/images/overview-desktop-light.png" in read(DOCS.parent / "README.md")

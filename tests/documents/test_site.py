"""The site of the documents: every page has its place, and every link arrives."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.documents.markdown import DOCS, ROOT, read
from tools import docs_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SITE: dict[str, Any] = yaml.safe_load(read(ROOT / "mkdocs.yml"))


def pages(nav: Any) -> Iterator[str]:
    """Yield the page of each entry, in reading order."""
    for entry in nav:
        for below in entry.values():
            yield from [below] if isinstance(below, str) else pages(below)


def test_every_page_has_one_place() -> None:
    """Each document is in the navigation once, and nothing is in it that is not there."""
    listed = list(pages(SITE["nav"]))
    assert len(listed) == len(set(listed))
    documents = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(listed) == documents | {f"project/{name}" for name in docs_site.PROJECT}


def test_the_reading_order_is_that_of_a_newcomer() -> None:
    """Start, then what one wants to do, then why, then what to look up."""
    assert [name for entry in SITE["nav"] for name in entry] == [
        "Start", "How to", "Concepts", "Ledger and replay", "Idempotency", "Governance",
        "Reference", "Project",
    ]  # fmt: skip


def test_whoever_reads_is_told_to_nobody() -> None:
    """No font, script or picture is fetched from elsewhere; a broken link fails the build."""
    assert SITE["theme"]["font"] is False
    assert not any("http" in str(SITE.get(key, "")) for key in ("extra_css", "extra_javascript"))
    assert set(SITE["validation"]["links"].values()) == {"warn"}
    recipe = read(ROOT / "Makefile").partition("\ndocs:")[2].partition("\n\n")[0]
    assert "mkdocs build --quiet --strict" in recipe


@pytest.mark.parametrize(
    ("page", "link", "led"),
    [
        ("replay/wal/README.md", "[c](../../../CONTRIBUTING.md)",
         "[c](../../project/CONTRIBUTING.md)"),
        ("idempotency/outbox.md", "[c](../../CONTRIBUTING.md#migrations)",
         "[c](../project/CONTRIBUTING.md#migrations)"),
        ("how-to/monitoring.md", "[r](../../ops/prometheus/rules.yaml)",
         "[r](../files/ops/prometheus/rules.yaml)"),
        ("concepts/datasets.md", "[files](../../src/tallgrass/datasets/files)", "files"),
        ("README.md", "[t](tutorial.md)", "[t](tutorial.md)"),
        ("README.md", "[x](https://example.org/a)", "[x](https://example.org/a)"),
        ("project/CONTRIBUTING.md", "[d](docs/concepts/decisions.md)",
         "[d](../concepts/decisions.md)"),
        ("README.md", "```\n[c](../CONTRIBUTING.md)\n```", "```\n[c](../CONTRIBUTING.md)\n```"),
    ],
)  # fmt: skip
def test_links_out_of_the_documents_are_led_along(page: str, link: str, led: str) -> None:
    """Pages of the project are pages, other files copies, folders plain text; code is as it was."""
    there = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert docs_site.on_page_markdown(link, page=there) == led


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` does it, where its extra is installed."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "files" / "ops" / "prometheus" / "rules.yaml").is_file()
    assert "Tutorial" in read(tmp_path / "site" / "index.html")

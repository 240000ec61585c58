"""Writes what a proving command counted into docs/reference/reliability.md, if PUBLISH=1.

Each command has its part between two markers; nobody writes these figures by hand.
"""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "reliability.md"


def publish(command: str, counts: Mapping[str, int | str], page: Path = PAGE) -> None:
    """Replace a command's part of the page, if PUBLISH=1 asks for it."""
    if os.environ.get("PUBLISH") != "1":
        return
    text = page.read_text(encoding="utf-8")
    part = figures(counts, date=f"{datetime.now(UTC):%Y-%m-%d}", commit=_commit())
    page.write_text(replaced(text, command, part), encoding="utf-8")
    print(f"Published in {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")


def figures(counts: Mapping[str, int | str], *, date: str, commit: str) -> str:
    """Return a table of one run."""
    rows = {"date": date, "commit": f"`{commit}`", **counts}
    lines = [
        f"| {name} | {f'{value:,}' if isinstance(value, int) else value} |"
        for name, value in rows.items()
    ]
    return "\n".join(["| | |", "|---|---|", *lines])


def replaced(text: str, command: str, part: str) -> str:
    """Return the page with another part between a command's markers."""
    begin, end = f"<!-- {command} -->\n", f"<!-- /{command} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"the page has no markers of {command}")
    return f"{before}{begin}{part}\n{end}{after}"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - the checkout's own
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "tests", "tools")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")

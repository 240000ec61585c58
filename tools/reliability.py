"""Writes what a proving command counted into docs/reference/reliability.md, if PUBLISH asks for it.

PUBLISH=1 replaces the command's figures, PUBLISH=add adds to them: a long run may be made in parts.
Each command has its part between two markers; nobody writes these figures by hand.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tools.checkout import commit

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "reliability.md"


def publish(command: str, counts: Mapping[str, int | str], page: Path = PAGE) -> None:
    """Replace a command's part of the page, or add to it, if PUBLISH asks for that."""
    wish = os.environ.get("PUBLISH")
    if wish not in {"1", "add"}:
        return
    text = page.read_text(encoding="utf-8")
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    rows: dict[str, int | str] = {
        "date": date,
        "commit": f"`{commit('src', 'tests', 'tools')}`",
        **counts,
    }
    if wish == "add":
        rows = together(table_rows(parted(text, command)[1]), rows)
    page.write_text(replaced(text, command, table(rows)), encoding="utf-8")
    print(f"Published in {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")


def table(rows: Mapping[str, int | str]) -> str:
    """Return a table of one run."""
    lines = [
        f"| {name} | {f'{value:,}' if isinstance(value, int) else value} |"
        for name, value in rows.items()
    ]
    return "\n".join(["| | |", "|---|---|", *lines])


def table_rows(text: str) -> dict[str, str]:
    """Return what a table says; nothing of a text that has none."""
    return dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text, re.MULTILINE))


def together(before: Mapping[str, str], rows: Mapping[str, int | str]) -> dict[str, int | str]:
    """Return the figures of both parts of a run: counts are added, all else is listed."""
    found: dict[str, int | str] = {}
    for name, value in rows.items():
        was = before.get(name)
        if was is None:
            found[name] = value
        elif isinstance(value, int):
            found[name] = value + int(was.replace(",", ""))
        else:
            found[name] = was if value in was.split(", ") else f"{was}, {value}"
    return found


def replaced(text: str, command: str, part: str) -> str:
    """Return the page with another part between a command's markers."""
    before, _, after = parted(text, command)
    return f"{before}{part}\n{after}"


def parted(text: str, command: str) -> tuple[str, str, str]:
    """Return what stands before, between and after a command's markers, these outside."""
    begin, end = f"<!-- {command} -->\n", f"<!-- /{command} -->"
    before, found, rest = text.partition(begin)
    part, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"the page has no markers of {command}")
    return f"{before}{begin}", part, f"{end}{after}"

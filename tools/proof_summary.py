"""The README's table of proof runs, from the figures in docs/reference/reliability.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.reliability import table_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = "No long run is published yet; `PUBLISH=1 make chaos` writes its figures.\n"

_SECTION = re.compile(
    r"^## (?P<title>[^\n]*?)(?:: `(?P<command>make [\w-]+)[^`]*`)?\n"
    r"(?P<text>(?:(?!^## ).)*?)^<!-- (?P<name>[\w-]+) -->\n(?P<table>.*?)^<!-- /(?P=name) -->$",
    re.DOTALL | re.MULTILINE,
)
#: Rows that tell of the run and not of what it found.
_ABOUT = frozenset({"date", "commit", "first seed", "queue of PostgreSQL"})
#: Between a figure of the run's middle and one of its end; its page has them.
_THROUGH_TIME = " → "


def proof_summary(page: str) -> str:
    """Return a line for each run whose figures are published."""
    lines = [
        f"| {title} (`{command}`) | {_told(figures)} | {figures.get('date', '')} |\n"
        for title, command, figures in published(page)
    ]
    head = "| what is broken | what was counted | last run |\n|---|---|---|\n"
    return "".join([head, *lines]) if lines else NOTHING


def published(page: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield title, command and figures of each run that wrote its part of the page."""
    for found in _SECTION.finditer(page):
        if rows := table_rows(found["table"]):
            yield found["title"], found["command"] or f"make {found['name']}", rows


def _told(figures: dict[str, str]) -> str:
    """Return the figures in words, those of one store together; those of a module say too much."""
    told: dict[str, list[str]] = {}
    for name, value in figures.items():
        if name not in _ABOUT and not name.startswith("`") and _THROUGH_TIME not in value:
            where, _, what = name.rpartition(": ")
            told.setdefault(where, []).append(_figure(what, value))
    return "; ".join(
        f"{where}: {', '.join(found)}" if where else ", ".join(found)
        for where, found in told.items()
    )


def _figure(what: str, value: str) -> str:
    """Return a count with what it counts; a nought is what was hoped for and stands out."""
    if what == "verdict":
        return value
    return f"**0** {what}" if value == "0" else f"{value} {what}"

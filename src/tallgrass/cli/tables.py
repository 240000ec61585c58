"""Tables and progress for people.

rich is imported by the first line that is drawn: JSON and `--help` do not pay for it.
"""

import errno
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from tallgrass.cli.text import printable, wants_colour

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

#: A pipe has no width: no line is cut for it.
_PIPE_WIDTH = 10_000

STATUS_STYLES = {
    "succeeded": "green",
    "applied": "green",
    "current": "green",
    "ok": "green",
    "pending": "cyan",
    "in_progress": "blue",
    "failed": "yellow",
    "rolled_back": "yellow",
    "quarantined": "red",
}

Cell: TypeAlias = "str | int | float | datetime | Text | None"


@cache
def console() -> "Console":
    """Return stdout as rich sees it: colours on a terminal only, data never read as markup."""
    from rich.console import Console  # noqa: PLC0415 - see above

    class Output(Console):
        """Raises an error when the reader of the output has gone, and lets the caller decide."""

        def on_broken_pipe(self) -> None:
            """Raise what happened; rich would end the program."""
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output")

    terminal = sys.stdout.isatty()
    return Output(
        file=sys.stdout,
        width=None if terminal else _PIPE_WIDTH,
        color_system="auto" if wants_colour(sys.stdout) else None,
        force_terminal=terminal,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
    )


def on_terminal() -> bool:
    """Tell whether somebody looks at stdout."""
    return sys.stdout.isatty()


def cell(value: Cell, style: str = "") -> "Text":
    """Return a value as a cell that cannot steer the terminal."""
    from rich.text import Text  # noqa: PLC0415 - see above

    if isinstance(value, Text):
        return value
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, datetime):
        return Text(value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ"), style=style)
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}", style=style)
    return Text(printable(str(value)), style=style)


def status(word: str, note: str = "") -> "Text":
    """Return a status in its colour, with a note behind it."""
    from rich.text import Text  # noqa: PLC0415 - see above

    text = Text(printable(word), style=STATUS_STYLES.get(word, ""))
    return text.append(f" {note}", style="dim") if note else text


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    wide: Sequence[str] = (),
) -> None:
    """Print rows under their columns: `right` are aligned there, `wide` give way first."""
    from rich import box  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table(
        box=box.SIMPLE_HEAD if on_terminal() else None,
        padding=(0, 1 if on_terminal() else 2, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for name in columns:
        justify: JustifyMethod = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in wide)
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    print_lines(table)


def show_facts(facts: Iterable[tuple[str, Cell]], *, title: str = "") -> None:
    """Print names with their values, one a line."""
    from rich.table import Table  # noqa: PLC0415 - see above

    if title:
        say(title, style="bold")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(f"  {name}" if title else name, cell(value))
    print_lines(table)


def print_lines(table: "Table") -> None:
    """Print a table without blanks at the ends of its lines."""
    target = console()
    lines = target.render_lines(table, pad=False)
    if target.is_terminal:
        target.print(table)
        return
    for line in lines:
        target.file.write("".join(segment.text for segment in line).rstrip() + "\n")


def say(text: "str | Text" = "", style: str = "") -> None:
    """Print one line of our own words; data in it go through `cell`."""
    from rich.text import Text  # noqa: PLC0415 - see above

    console().print(Text(text, style=style) if isinstance(text, str) else text, soft_wrap=True)


@contextmanager
def progress(what: str, total: int | None) -> "Iterator[Progress | None]":
    """Show a bar on stderr while something long runs; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
    )

    colours = wants_colour(sys.stderr)
    target = Console(stderr=True, color_system="auto" if colours else None, markup=False)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
    )
    with Progress(*columns, console=target, transient=True) as bar:
        bar.add_task(what, total=total)
        yield bar

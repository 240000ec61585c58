"""How the demo looks: live progress on a terminal, a story, ticks, and where to look next."""

import shlex
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from tallgrass.cli.tables import Cell, cell, console, on_terminal, say, show_table, status
from tallgrass.ledger.vocabulary import Status
from tallgrass.simulate.ledger_demo import Watcher
from tallgrass.simulate.play import DemoResult

_PROOF_WIDTH = 72


class Screen(Watcher):
    """Shows the chapter that runs, and tells each when it is over."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            console=console(),
            transient=True,
            disable=not on_terminal(),
        )

    def __enter__(self) -> Self:
        say(Text("Tallgrass: the ledger at work", style="bold green"))
        say("Units and outcomes are made up; the ledger and its SQLite database are real.", "dim")
        say()
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, title: str, units: int) -> None:
        """Begin a bar."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(title, total=units)

    def advance(self, units: int) -> None:
        """Move the bar on."""
        self._progress.advance(self._progress.task_ids[0], units)

    def end(self, title: str, told: str) -> None:
        """Tell what happened, above the bar."""
        say(Text.assemble(("▸ ", "green"), (title, "bold")))
        text = Text(told)
        if on_terminal():
            console().print(Padding(text, (0, 2)))
        else:
            say(f"  {told}")


def called_as() -> str:
    """Return how this program was called, so that a suggested command works as it stands."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return "python -m tallgrass"
    on_path = shutil.which(program.name)
    if on_path is not None and Path(on_path).samefile(program):
        return program.name
    here = Path.cwd()
    shown = program.absolute()
    return shlex.quote(str(shown.relative_to(here) if shown.is_relative_to(here) else shown))


def show_result(result: DemoResult, anchors: Path) -> None:
    """Print what became of the units, the proof, and what to try next."""
    _show_counts(result)
    _show_proofs(result)
    _show_next(result, anchors)


def _show_counts(result: DemoResult) -> None:
    words = [
        word for word in Status if word in (Status.SUCCEEDED, Status.FAILED, Status.QUARANTINED)
    ]
    by_dataset = sorted(result.stats.by_dataset.items())
    rows: list[list[Cell]] = [
        [name, *(counts.get(word, 0) for word in words), sum(counts.values())]
        for name, counts in by_dataset
    ]
    totals = [sum(counts.get(word, 0) for _, counts in by_dataset) for word in words]
    rows.append(
        [cell("all", "bold"), *(cell(n, "bold") for n in totals), cell(sum(totals), "bold")]
    )
    say()
    say("What became of them", "bold")
    names = [word.value for word in words]
    show_table(("dataset", *names, "units"), rows, right=(*names, "units"))
    say(
        Text.assemble(
            status("succeeded"), ": done  ",
            status("failed"), ": open to repair  ",
            status("quarantined"), ": held for a person",
        )
    )  # fmt: skip


def _show_proofs(result: DemoResult) -> None:
    say()
    say("What was promised, counted in the tables", "bold")
    for proof in result.proofs:
        mark = ("✔", "green") if proof.holds else ("✘", "bold red")
        line = Text.assemble(" ", mark, f" {proof.promise:<{_PROOF_WIDTH}} ")
        line.append(f"{proof.found:>6,}", style="bold")
        if not proof.holds:
            line.append(f"  must be {proof.expected:,}", style="red")
        say(line)


def _show_next(result: DemoResult, anchors: Path) -> None:
    database = shlex.quote(f"sqlite:///{result.database}")
    lines = (
        ("wal stats", "how many stand where"),
        ("wal list --status quarantined", "what waits for a person"),
        (f"wal history {result.story.killer}", "the life of the killer"),
        ("audit list --action quarantine", "who held what, and why"),
        (f"audit verify --anchor {shlex.quote(str(anchors))}", "walk the sealed log"),
    )
    say()
    say(Text.assemble(("The database is ", "bold"), cell(str(result.database)), ". Look into it:"))
    say()
    say(f"  export TALLGRASS_DATABASE_URL={database}")
    for words, why in lines:
        say(Text.assemble((f"  # {why}\n", "dim"), f"  {called_as()} {words}"))
    if on_terminal() and not result.broken:
        say()
        console().print(
            Panel.fit(f"All {len(result.proofs)} promises hold.", border_style="green"),
        )
    elif not result.broken:
        say()
        say(f"All {len(result.proofs)} promises hold.")

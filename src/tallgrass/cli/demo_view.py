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
from tallgrass.simulate.demo_folder import ANCHORS_NAME, CONFIG_NAME
from tallgrass.simulate.demo_telling import DemoResult, Watcher
from tallgrass.simulate.feed_plan import Fate

_PROOF_WIDTH = 73
_NAME_WIDTH = 14


class Screen(Watcher):
    """Shows a bar for the chapter that runs, and a line for each chapter that is over."""

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
        say(Text("Tallgrass: the pipeline at work", style="bold green"))
        say("The feed and its clock are made up; queue, files, ledger and catalog are real.", "dim")
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

    def begin(self, title: str, total: int) -> None:
        """Begin a bar."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(title, total=total)

    def advance(self, number: int) -> None:
        """Move the bar on."""
        self._progress.advance(self._progress.task_ids[0], number)

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


def show_result(result: DemoResult) -> None:
    """Print what came in, what became of it, the proof, and what to try next."""
    _show_arrivals(result)
    _show_counts(result)
    _show_proofs(result)
    _show_next(result)


def _show_arrivals(result: DemoResult) -> None:
    """Tell every message by what it brought."""
    manifest = result.manifest
    fates = [unit.fate for unit in manifest.units]
    written_again = sum(fate in (Fate.OVERWRITTEN, Fate.STALE) for fate in fates)
    ignored = sum(result.ignored.values())
    say()
    say(f"What came in: {manifest.messages:,} messages", "bold")
    show_table(
        ("messages", "which"),
        [
            (
                manifest.announcements,
                f"announced {len(fates):,} units, {written_again:,} of them written again",
            ),
            (manifest.duplicates, "came a second time"),
            (ignored, f"were no units and were let go: {_list(result.ignored)}"),
            (result.poison, f"made no sense and were kept aside: {_list(manifest.poison)}"),
        ],
        right=("messages",),
        wide=("which",),
    )


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


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
    say("What became of each unit", "bold")
    names = [word.value for word in words]
    show_table(("dataset", *names, "units"), rows, right=(*names, "units"))
    say(
        Text.assemble(
            status("succeeded"), ": in the catalog  ",
            status("failed"), ": its object is missing or broken  ",
            status("quarantined"), ": tried too often, held for a person",
        )
    )  # fmt: skip
    rate = len(result.manifest.units) / max(result.seconds, 0.001)
    say(f"{result.seconds:.1f} s of work, {rate:,.0f} units a second", "dim")


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


def _show_next(result: DemoResult) -> None:
    anchors = shlex.quote(str(result.folder / ANCHORS_NAME))
    lines = (
        ("status", "the whole pipeline on one page"),
        ("wal list --status failed", "what failed, and why"),
        (f"wal history {_example(result)}", "the life of a unit whose worker died"),
        ("audit list", "who did what"),
        (f"audit verify --anchor {anchors}", "walk the sealed log"),
    )
    say()
    say("Where it is", "bold")
    for name, what in (
        ("ledger.db", f"ledger and catalog: {result.items:,} STAC items with their provenance"),
        ("queue.db", f"the queue, with {result.queue.dead:,} dead letters"),
        ("manifest.json", "what had to become of each unit"),
        ("objects/", "the files that the feed announced"),
        ("tallgrass.toml", "the configuration that points to all of them"),
    ):
        say(Text.assemble(f"  {name:<{_NAME_WIDTH}}  ", (what, "dim")))
    say(Text.assemble("  all in ", cell(str(result.folder), "bold")))
    say(f"  The catalog's bytes have the SHA-256 {result.catalog_sha256}", "dim")
    say()
    say("What to try next", "bold")
    say(f"  export TALLGRASS_CONFIG={shlex.quote(str(result.folder / CONFIG_NAME))}")
    for words, why in lines:
        say(Text.assemble((f"  # {why}\n", "dim"), f"  {called_as()} {words}"))
    _show_verdict(result)


def _example(result: DemoResult) -> str:
    """Return a unit whose life is worth a look: its worker died, another one finished it."""
    units = result.manifest.units
    plain = {unit.object_uri for unit in units if unit.fate == Fate.PLAIN}
    finished = (uri for uri in result.taken_over if uri in plain)
    return shlex.quote(next(finished, units[0].object_uri))


def _show_verdict(result: DemoResult) -> None:
    if result.broken:
        return
    say()
    verdict = f"All {len(result.proofs)} promises hold."
    if on_terminal():
        console().print(Panel.fit(verdict, border_style="green"))
    else:
        say(verdict)

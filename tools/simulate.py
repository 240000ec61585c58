"""Run the deterministic simulator: `python -m tools.simulate --seeds N [--from SEED] [--jobs N]`.

One seed is one history, whatever else runs beside it: with several processes seeds are still told
in their order. A seed that breaks a promise is told with its history and the command that repeats
it. A run that is stopped (Ctrl-C, SIGTERM) sums up what it played. With `--backend postgres` the
ledger of each world is a database of its own on a server that is started for the run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.plugins.postgres import Databases
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.simulation.simulator import SHARED_MEMORY, Player, failure
from tests.simulation.template import is_on_files
from tools.reliability import publish
from tools.seeds import add_seed_option, first_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.simulation.simulator import History

PROGRESS_EVERY_S = 10.0
#: Seeds that a process plays before it is asked for more.
CHUNK = 20
#: So many broken seeds are told with their histories; of the others their numbers.
TOLD_MAX = 5

#: The player of a process that plays chunks of seeds.
_player: list[Player] = []


@dataclass
class Tally:
    """What was played so far."""

    seeds: int = 0
    on_files: int = 0
    events: int = 0
    violations: int = 0
    broken: list[int] = field(default_factory=list)

    def add(self, history: History) -> None:
        """Count a history."""
        self.seeds += 1
        self.on_files += history.backend == "sqlite" and is_on_files(history.seed)
        self.events += history.events
        self.violations += len(history.violations)
        if history.violations:
            self.broken.append(history.seed)

    def line(self) -> str:
        """Return the one line that sums it up."""
        return f"{self.seeds:,} seeds, {self.events:,} events, {self.violations:,} violations"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play a range of seeds; 1 if any breaks a promise."""
    options = _options(arguments)
    first = first_seed(options)
    began = told_at = time.monotonic()
    tally = Tally()
    seeds = range(first, first + options.seeds)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for history in played(seeds, options.jobs, options.backend):
            tally.add(history)
            if history.violations and len(tally.broken) <= TOLD_MAX:
                print(failure(history, options.lines), flush=True)
            elif time.monotonic() - told_at > PROGRESS_EVERY_S:
                told_at = time.monotonic()
                rate = tally.seeds / (told_at - began)
                print(f"  {tally.seeds:,} of {options.seeds:,}, {rate:.0f} a second", flush=True)
    except KeyboardInterrupt:
        print("Stopped: what follows is what was played so far.")
    finally:
        signal.signal(signal.SIGTERM, before)
    if tally.broken:
        print(f"Seeds that broke a promise: {', '.join(map(str, tally.broken))}")
    print(tally.line())
    on_files: dict[str, int | str] = {"of these on files": tally.on_files}
    is_on_sqlite = options.backend == "sqlite"
    publish(
        "simulate" if is_on_sqlite else "simulate-postgres",
        {
            "first seed": str(first),
            "seeds": tally.seeds,
            **(on_files if is_on_sqlite else {}),
            "events": tally.events,
            "violations": tally.violations,
        },
    )
    return 1 if tally.broken else 0


def played(seeds: range, jobs: int, backend: str = "sqlite") -> Iterator[History]:
    """Play seeds in one process or in several; yield their histories in the order of seeds."""
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-simulation-") as folder,
        _server(backend) as url,
    ):
        if jobs == 1:
            player = _new_player(Path(folder), url)
            try:
                yield from map(player.play, seeds)
            finally:
                player.close()
            return
        chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
        # Spawned, not forked: each process opens databases of its own.
        context = multiprocessing.get_context("spawn")
        with context.Pool(jobs, initializer=_begin, initargs=(folder, url)) as pool:
            for histories in pool.imap(_play, chunks):
                yield from histories


@contextmanager
def _server(backend: str) -> Iterator[str | None]:
    """Start a server of the run's own, if one is asked for; yield its address."""
    if backend == "sqlite":
        yield None
        return
    server = PostgresServer(new_folder("tallgrass-simulation-"), fast=True)
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


def _new_player(folder: Path, url: str | None) -> Player:
    return Player(folder, None if url is None else Databases(url, folder))


def _begin(folder: str, url: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to hear; it ends its children
    own = Path(folder) / str(os.getpid())
    own.mkdir()
    _player.append(_new_player(own, url))


def _play(seeds: range) -> list[History]:
    return [_player[0].play(seed) for seed in seeds]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    add_seed_option(parser)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (1)")
    parser.add_argument(
        "--backend",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where ledgers are (sqlite)",
    )
    parser.add_argument("--lines", type=int, default=200, help="lines of a failing history (200)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

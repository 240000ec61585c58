"""Kill real processes: `python -m tools.chaos --cycles N [--from SEED] [--only ARENA]`.

Workers, dispatchers, replays and nodes on SQLite, and on PostgreSQL with SQS, are killed or frozen
at random moments and at every named crash point; then all comes to rest and is judged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.arena import open_arena
from tests.chaos.run import Chaos
from tests.simulation.simulator import SHARED_MEMORY
from tools.reliability import publish
from tools.seeds import add_seed_option, first_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.run import Outcome

ARENAS = ("sqlite", "postgres")
#: A run of its own each so many cycles: tables stay small enough to be judged at once.
CYCLES_A_RUN = 250
SHOWN_MAX = 20


def play(name: str, cycles: int, seed: int) -> Outcome:
    """Play one run in an arena of its own."""
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-chaos-") as folder:
        arena = open_arena(name, Path(folder))
        try:
            return Chaos(arena, cycles, random.Random(seed)).run()  # noqa: S311 - one seed, one order
        finally:
            arena.close()


def runs(cycles: int, arenas: Sequence[str]) -> list[tuple[str, int]]:
    """Share cycles out among arenas, in runs that are not too long."""
    found = []
    for number, name in enumerate(arenas):
        left = cycles // len(arenas) + (number < cycles % len(arenas))
        while left > 0:
            found.append((name, min(left, CYCLES_A_RUN)))
            left -= CYCLES_A_RUN
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all cycles; 1 if anything was lost, is there twice, or was written too late."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200, help="how many (200)")
    add_seed_option(parser)
    parser.add_argument("--only", choices=ARENAS, help="one arena (both)")
    options = parser.parse_args(arguments)
    first = first_seed(options)
    total: Counter[str] = Counter()
    points: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {"lost": [], "duplicate": [], "stale": []}
    arenas = ARENAS if options.only is None else (options.only,)
    for number, (name, cycles) in enumerate(runs(options.cycles, arenas)):
        began = time.monotonic()
        outcome = play(name, cycles, first + number)
        done = {
            "kills": outcome.kills,
            "freezes": outcome.freezes,
            "server restarts": outcome.restarts,
            **outcome.judgement["counts"],
        }
        total.update(done)
        points.update(outcome.points)
        for kind, found in wrong.items():
            found += [f"{name}, seed {first + number}: {text}" for text in outcome.judgement[kind]]
        told = ", ".join(f"{count:,} {what}" for what, count in done.items())
        print(f"  {name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)
    _tell(points, wrong)
    counts = {kind: len(found) for kind, found in wrong.items()}
    print(", ".join([f"{total['kills']:,} kills", *(f"{n} {kind}" for kind, n in counts.items())]))
    publish(
        "chaos",
        {
            "cycles": options.cycles,
            "first seed": str(first),
            **total,
            # As words: parts of a run strike the same ones, which are not to be added up.
            "named crash points struck": str(sum(": " in name for name in points)),
            **counts,
        },
    )
    return 1 if any(counts.values()) else 0


def _tell(points: Counter[str], wrong: dict[str, list[str]]) -> None:
    struck = ", ".join(f"{name} ×{count}" for name, count in sorted(points.items()))
    print(f"  crash points: {struck or 'none'}")
    for kind, found in wrong.items():
        for text in found[:SHOWN_MAX]:
            print(f"  {kind.upper()} {text}")


if __name__ == "__main__":
    sys.exit(main())

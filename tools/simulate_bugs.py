"""Look for every planted bug: `python -m tools.simulate_bugs [--from SEED] [--bug TEXT]`.

Each bug of tests/simulation/planted.py is planted by itself, and seeds are played until one breaks
a promise. 1 if any bug is not found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.planted import BUGS
from tests.simulation.simulator import SHARED_MEMORY, Player
from tools.reliability import publish
from tools.seeds import add_seed_option, first_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.planted import Bug


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant each bug, and tell how many seeds it took to find it."""
    parser = argparse.ArgumentParser(prog="make simulate-bugs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="at most so many (10000)")
    add_seed_option(parser)
    parser.add_argument("--bug", default="", help="only bugs whose name contains this")
    options = parser.parse_args(arguments)
    first = first_seed(options)
    wanted = [bug for bug in BUGS if options.bug in bug.name]
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    took: list[int] = []
    with tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-simulation-") as folder:
        player = Player(Path(folder))
        for bug in wanted:
            number = search(player, bug, range(first, first + options.seeds))
            took += [] if number is None else [number]
            said = "NOT FOUND" if number is None else f"found by seed {number:,} of them"
            print(f"  {bug.name}: {said}", flush=True)
        player.close()
    longest = max(took, default=0)
    print(f"{len(took)} of {len(wanted)} planted bugs found, the last after {longest:,} seeds")
    counts: dict[str, int | str] = {
        "first seed": str(first),
        "planted": len(wanted),
        "found": len(took),
        "most seeds that one took": longest,
    }
    publish("simulate-bugs", counts)
    return 0 if len(took) == len(wanted) else 1


def search(player: Player, bug: Bug, seeds: range) -> int | None:
    """Return how many seeds it took until one broke a promise; None if none did."""
    for number, seed in enumerate(seeds, start=1):
        with bug.plant():
            if player.play(seed).violations:
                return number
    return None


if __name__ == "__main__":
    sys.exit(main())

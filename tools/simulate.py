"""Run the deterministic simulator: `python -m tools.simulate --seeds N [--from SEED]`."""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.simulator import failure, report, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.simulator import History

#: Seeds are drawn below this, so that they are short to type.
SEEDS_BELOW = 1_000_000_000
PROGRESS_EVERY_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Play a range of seeds; 1 if any breaks a promise."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    parser.add_argument("--from", dest="first", type=int, help="the first seed (drawn at random)")
    parser.add_argument("--lines", type=int, default=200, help="lines of a failing history (200)")
    options = parser.parse_args(arguments)
    first = options.first
    if first is None:
        first = random.SystemRandom().randrange(SEEDS_BELOW)
    print(f"Seeds from FROM={first}", flush=True)
    told_at = time.monotonic()

    def each(history: History) -> None:
        nonlocal told_at
        if history.violations:
            print(failure(history, options.lines), flush=True)
        elif time.monotonic() - told_at > PROGRESS_EVERY_S:
            told_at = time.monotonic()
            print(f"  {history.seed - first + 1:,} of {options.seeds:,}", flush=True)

    histories = simulate(range(first, first + options.seeds), each=each)
    print(report(histories))
    return 1 if any(history.violations for history in histories) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Try every order of events of small worlds: `python -m tools.explore [--larger]`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.exploration.exploring import beginning, explore
from tests.exploration.test_exploration import WORLDS
from tools.reliability import publish

if TYPE_CHECKING:
    from collections.abc import Sequence

#: More of everything: minutes, and some gigabytes of memory.
LARGER: dict[str, dict[str, Any]] = {
    "two crashes": {"crashes": 2, "endings": 2, "failures": 2},
    "overwritten, crashes and lost leases": {"messages": ((0, 1), (0, 2))},
    "two units, lost leases": {"units": 2, "messages": ((0, 1), (1, 1)), "failures": 0},
    "replayed twice": {"replays": 2, "failures": 2},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore all worlds; 1 if any breaks a promise."""
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--larger", action="store_true", help="larger worlds too (minutes)")
    options = parser.parse_args(arguments)
    states = edges = broken = 0
    worlds = {**WORLDS, **(LARGER if options.larger else {})}
    for name, world in worlds.items():
        began = time.monotonic()
        found = explore(beginning(**world))
        states, edges = states + found.states, edges + found.edges
        took_s = time.monotonic() - began
        counts = f"{found.states:,} states, {found.edges:,} edges, {found.at_rest:,} at rest"
        print(f"  {name}: {counts} ({took_s:.0f} s)", flush=True)
        if found.broken is not None:
            broken += 1
            print("\n".join([f"  BROKEN {found.broken}", *(f"    {step}" for step in found.way)]))
    print(f"{states:,} states, {edges:,} edges, {broken} broken promises")
    publish("explore", {"worlds": len(worlds), "states": states, "edges": edges, "broken": broken})
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

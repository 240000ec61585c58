"""The first seed of a run: the one that was asked for, or one drawn by chance, told either way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

#: Seeds are drawn below this, so that they are short to type.
_BELOW = 1_000_000_000


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Add `--from`."""
    parser.add_argument("--from", dest="first", type=int, help="the first seed (drawn at random)")


def first_seed(options: argparse.Namespace) -> int:
    """Return the first seed; print it, so that the run can be repeated."""
    first: int | None = options.first
    if first is None:
        first = random.SystemRandom().randrange(_BELOW)
    print(f"Seeds from FROM={first}", flush=True)
    return first

"""Inputs for a parser: noise, and mutations of what is valid.

Hypothesis draws the first ones of each run, with all its cunning; the many others come from plain
chance with a seed, which is twenty times as fast.
"""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PIECES, mutated, read_one

if TYPE_CHECKING:
    from tests.fuzz.parsers import Parser

#: So many of a run are Hypothesis's.
BY_HYPOTHESIS_MAX = 2_000
#: No input may take longer than this by the process's own clock, however slow the machine.
CPU_S_MAX = 2.0


def inputs(parser: Parser) -> st.SearchStrategy[bytes]:
    """Return what is drawn for a parser."""
    edit = st.tuples(
        st.integers(0, 1 << 16),
        st.sampled_from((0, 1, 1, 4, 30, 100_000)),
        st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)),
    )
    mutations = st.builds(mutated, st.sampled_from(list(parser.seeds)), st.lists(edit, max_size=4))
    return st.one_of(mutations, mutations, mutations, st.binary(max_size=120))


def fuzz(parser: Parser, cases: int, first_seed: int) -> Counter[str]:
    """Give a parser so many inputs; return how it answered. What it must not raise is raised."""
    answers: Counter[str] = Counter()
    first = min(cases, BY_HYPOTHESIS_MAX)
    _by_hypothesis(parser, first, first_seed, answers)
    chance = Random(f"{first_seed} {parser.name}")
    for _ in range(cases - first):
        data = drawn(parser, chance)
        try:
            answers[read_one(parser, data)] += 1
        except Exception as error:
            error.add_note(f"input: {data!r}")
            raise
    return answers


def drawn(parser: Parser, chance: Random) -> bytes:
    """Draw one input."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(200))
    edits = [_edit(chance) for _ in range(chance.choice((1, 1, 1, 2, 3, 8)))]
    return mutated(chance.choice(parser.seeds), edits)


def _edit(chance: Random) -> tuple[int, int, bytes]:
    kind = chance.random()
    piece = chance.choice(PIECES) if kind < 0.5 else chance.randbytes(3) if kind < 0.8 else b""
    return chance.randrange(1 << 16), chance.choice((0, 1, 1, 4, 30, 100_000)), piece


def _by_hypothesis(parser: Parser, cases: int, number: int, answers: Counter[str]) -> None:
    @seed(number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(parser))
    def play(data: bytes) -> None:
        began = time.process_time()
        answers[read_one(parser, data)] += 1
        took_s = time.process_time() - began
        assert took_s < CPU_S_MAX, f"{took_s:.1f} s for {len(data)} bytes"

    play()

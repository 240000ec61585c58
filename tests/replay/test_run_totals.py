"""Totals of a run that are kept while it goes on: right, and cheap however large it is."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.replay.run import RowCount, RowOutcome, RunReport
from tallgrass.replay.run_totals import SHARE, RunTotals
from tests.pipeline.scene import things
from tests.replay.scene import Replays

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

Row = tuple[RowOutcome, str | None, bool, bool]
DUE: Row = (RowOutcome.DUE, None, False, False)
#: Outcome, reason, whether it was tried, and whether it differs.
FINAL: list[Row] = [
    (RowOutcome.DONE, None, True, False),
    (RowOutcome.DONE, None, True, True),
    (RowOutcome.FAILED, "io_error", True, False),
    (RowOutcome.SKIPPED, "moved", False, False),
]


class Table:
    """The rows of a run, and how many of them were counted."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.counted = 0

    def count(self, after: str | None, upto: str) -> list[RowCount]:
        """Count rows as the database does."""
        looked_at = [row for name, row in self.rows.items() if (after or "") < name <= upto]
        self.counted += len(looked_at)
        found = Counter((outcome, reason, tried) for outcome, reason, tried, _ in looked_at)
        bad = Counter(row[:3] for row in looked_at if row[3])
        return [
            RowCount(
                outcome=kind[0], reason=kind[1], tried=kind[2], records=n, mismatches=bad[kind]
            )
            for kind, n in found.items()
        ]

    def close(self, *, share: float, chance: random.Random) -> None:
        """Let workers close a share of what is due."""
        for name in [name for name, row in self.rows.items() if row[0] is RowOutcome.DUE]:
            if chance.random() < share:
                self.rows[name] = chance.choice(FINAL)


def as_set(counts: list[RowCount]) -> set[tuple[object, ...]]:
    """Return counts in no order."""
    return {(c.outcome, c.reason, c.tried, c.records, c.mismatches) for c in counts}


@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_totals_are_those_of_the_rows(seed: int, share: float) -> None:
    """Right whenever nothing is due, and in any case for all but the rows that were due before.

    Each row is counted once, and again where rows were due, but never more than a few times.
    """
    chance, table = random.Random(seed), Table()
    before = chance.randrange(30)
    table.rows = {f"{n:06}": chance.choice([*FINAL, DUE]) for n in range(before)}
    totals = RunTotals(table.count, f"{before - 1:06}" if before else None)
    assert as_set(totals.counts) == as_set(table.count(None, "9"))
    table.counted, number = 0, before
    for _ in range(60):
        size = chance.randrange(1, 20)
        for _ in range(size):
            table.rows[f"{number:06}"] = DUE
            number += 1
        table.close(share=share, chance=chance)
        told = totals.add(size, f"{number - 1:06}")
        assert sum(each.records for each in told) == number
        if share == 1.0:
            counted = table.counted
            assert as_set(told) == as_set(table.count(None, "9"))
            table.counted = counted
    if share == 1.0 and not before:
        assert table.counted == number
    # Each eighth all are counted: a geometric sum, of 9 at most, and the first few rows.
    assert table.counted <= (SHARE + 1) * number + 20 * SHARE * 10


def test_rows_that_were_due_are_counted_anew_after_a_share() -> None:
    """What others close is seen when the run has grown by an eighth, not before."""
    table = Table()
    table.rows = {f"{n:04}": DUE for n in range(800)}
    totals = RunTotals(table.count, "0799")
    table.rows = dict.fromkeys(table.rows, FINAL[1])
    table.rows["0800"] = FINAL[0]
    assert sum(each.mismatches for each in totals.add(1, "0800")) == 0
    assert sum(each.mismatches for each in totals.add(99)) == 0
    assert sum(each.mismatches for each in totals.add(1)) == 800
    # Nothing is due any more: nothing is counted again.
    table.counted = 0
    totals.add(10_000)
    assert table.counted == 0


@pytest.mark.conformance("RP-8.2")
def test_two_engines_on_one_run_tell_the_same(backend: Backend, tmp_path: Path) -> None:
    """One carries out the whole plan in the middle of the other's: both come to the same totals."""
    replays = Replays(backend, tmp_path, replay__batch=2)
    failed = replays.failed(*things(12))
    path = replays.plan_file(replays.select(failed))
    told: list[RunReport] = []
    other: list[RunReport] = []

    def progress(report: RunReport) -> None:
        told.append(report)
        if report.done == 4 and not other:
            other.append(replays.run(plan_file=path, options=RunOptions(progress=other.append)))

    report = replays.run(plan_file=path, options=RunOptions(progress=progress))
    for each in (report, other[-1]):
        assert (each.planned, each.done, each.due, each.failed) == (12, 12, 0, 0)
    for each in (*told, *other):
        assert each.planned == each.done + each.skipped + each.failed + each.due
    # The rows that the other one applied are counted as this one comes to them.
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[-1].done == 12
    rows = replays.rows(report.replay_run_id)
    assert Counter(row["outcome"] for row in rows) == {"done": 12}

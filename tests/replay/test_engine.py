"""The engine's own decisions: when it goes on, when it waits, when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.policy import ReplayMode
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.engine import Engine, Pace, Surroundings, batches_of, wait_s, within_rate
from tallgrass.replay.plan import PlanAction, PlannedAction, SkipReason
from tallgrass.replay.run import (
    Fate,
    NewRun,
    RowCount,
    RowOutcome,
    Run,
    RunRules,
    RunState,
    report_of,
)
from tallgrass.replay.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence


def row(
    number: int, action: PlanAction = PlanAction.REPLAY, reason: str | None = None
) -> PlannedAction:
    """Return a row of a plan."""
    return PlannedAction(f"00000000-0000-8000-8000-{number:012}", 3, action, reason)


def run_of(planned: int, applied_to: str | None = None, **changes: object) -> Run:
    """Return a run of so many records."""
    order = NewRun(
        replay_run_id="r-1",
        mode=ReplayMode.RANGE,
        intent=Intent.INGEST,
        reason="backfill",
        selection=Selection(datasets=("goes-glm",)),
        plan_sha256="0" * 64,
        code_version="1.0.0",
        config_version="c",
        planned=planned,
        **changes,  # type: ignore[arg-type]
    )
    now = datetime(2026, 6, 1, tzinfo=UTC)
    return Run(
        order=order, actor="ann", approvals=0, started_at=now, finished_at=None,
        applied_to=applied_to,
    )  # fmt: skip


def pace_of(batch: int, records_per_s: float = float("inf")) -> Pace:
    """Return a pace for batches alone."""
    return Pace(batch=batch, records_per_s=records_per_s, lag_s_max=60.0, mismatches_max=0)


@dataclass
class Stage:
    """A store that notes what is asked of it, on a clock of its own."""

    lags: list[float] = field(default_factory=list)
    mismatches: int = 0
    stop_after: int | None = None
    now: float = 0.0
    applied: list[list[str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    finished: bool = False
    waits: int = 0
    #: Records that a switch held, and how long a batch of the worker takes.
    held: list[str] = field(default_factory=list)
    work_s: float = 0.0
    #: When each batch was applied.
    applied_at: list[float] = field(default_factory=list)
    #: Records and seconds of each batch, as the engine tells them.
    batched: list[tuple[int, float]] = field(default_factory=list)
    #: Between which ids rows were counted.
    counted: list[tuple[str | None, str | None]] = field(default_factory=list)

    def apply(self, _run: Run, rows: Sequence[PlannedAction], _rules: RunRules) -> list[Fate]:
        """Note a batch."""
        self.applied.append([each.wal_id for each in rows])
        self.applied_at.append(self.now)
        self.events.append("apply")
        return [Fate(RowOutcome.DUE) for _ in rows]

    def apply_held(self, _run: Run, _rules: RunRules, *, after: str | None, size: int) -> list[str]:
        """Look at what is held, after those that were looked at."""
        return [wal_id for wal_id in self.held if after is None or wal_id > after][:size]

    def settle(self, _run: Run) -> int:
        """Lose nothing."""
        return 0

    def finish(self, _run: Run) -> None:
        """Note the end."""
        self.finished = True

    def counts(
        self, _run: Run, *, after: str | None = None, upto: str | None = None
    ) -> list[RowCount]:
        """Tell that all that was applied is done."""
        self.counted.append((after, upto))
        applied = [wal_id for batch in self.applied for wal_id in batch]
        done = sum((after or "") < wal_id <= (upto or "f") for wal_id in applied)
        in_the_first = bool(applied) and (after or "") < applied[0]
        return [
            RowCount(
                outcome=RowOutcome.DONE, reason=None, tried=True, records=done,
                mismatches=self.mismatches if in_the_first else 0,
            )
        ]  # fmt: skip

    def waiting(self, _run: Run) -> int:
        """Let the engine wait for others a few times."""
        self.waits -= 1
        return max(0, self.waits + 1)

    def run_due(self) -> int:
        """Have nothing due."""
        self.events.append("work")
        self.now += self.work_s
        return 0

    def recover(self) -> None:
        """Recover nothing."""
        self.events.append("recover")

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.events.append("sleep")

    def play(
        self, run: Run, rows: Sequence[PlannedAction], *, work: bool = True, **pace: object
    ) -> RunState:
        """Run the engine on this stage."""
        usual = {"batch": 2, "records_per_s": float("inf"), "lag_s_max": 60.0, "mismatches_max": 0}
        values: dict[str, object] = {**usual, **pace}
        rules = RunRules(
            ledger=LedgerRules(),
            selection=run.order.selection,
            denies=lambda *_: None,
            code_version="1.0.0",
        )
        engine = Engine(
            self, self, rules, Pace(**values),  # type: ignore[arg-type]
            Surroundings(
                sleep=self.sleep,
                monotonic=lambda: self.now,
                ingest_lag_s=lambda: self.lags.pop(0) if self.lags else 0.0,
                stop=lambda: self.stop_after is not None and len(self.applied) >= self.stop_after,
                batched=lambda _run, records, seconds: self.batched.append((records, seconds)),
            ),
            work=self if work else None,
        )  # fmt: skip
        return engine.run(run, rows).state


ROWS = [row(number) for number in range(1, 6)]


def test_it_applies_in_order_batch_by_batch_and_ends() -> None:
    """Batches of two in the plan's order, worked off each; then the run is finished."""
    stage = Stage()
    assert stage.play(run_of(5), ROWS) is RunState.FINISHED
    assert [len(batch) for batch in stage.applied] == [2, 2, 1]
    assert [wal_id for batch in stage.applied for wal_id in batch] == [r.wal_id for r in ROWS]
    assert stage.events[:4] == ["apply", "work", "apply", "work"]
    assert stage.finished


def test_it_tells_each_batch_with_the_time_of_its_work() -> None:
    """What a switch held is taken up in batches too, before and after the plan's rows."""
    stage = Stage(held=["x1", "x2", "x3"], work_s=0.5)
    stage.play(run_of(5), ROWS)
    held = [(2, 0.5), (1, 0.5)]
    assert stage.batched == [*held, (2, 0.5), (2, 0.5), (1, 0.5), *held]


def test_a_batch_counts_its_own_rows_and_only_the_end_counts_all() -> None:
    """However much was done before: what it comes to is added up."""
    stage, ids = Stage(), [each.wal_id for each in ROWS]
    stage.play(run_of(5), ROWS)
    assert stage.counted == [(None, ids[1]), (ids[1], ids[3]), (ids[3], ids[4]), (None, None)]
    resumed = Stage()
    resumed.play(run_of(5, applied_to=ids[2]), ROWS)
    assert resumed.counted == [(None, ids[2]), (ids[2], ids[4]), (None, None)]


def test_it_goes_on_behind_what_was_applied_before() -> None:
    """A run that is resumed skips the rows up to its last one."""
    stage = Stage()
    stage.play(run_of(5, applied_to=ROWS[2].wal_id), ROWS)
    assert stage.applied == [[ROWS[3].wal_id, ROWS[4].wal_id]]


def test_it_stops_between_batches_when_told() -> None:
    """What was applied stays; the run is not finished."""
    stage = Stage(stop_after=1)
    assert stage.play(run_of(5), ROWS) is RunState.UNFINISHED
    assert [len(batch) for batch in stage.applied] == [2]
    assert not stage.finished


@pytest.mark.parametrize(("allowed", "batches"), [(0, 1), (2, 1), (3, 3)])
def test_it_stops_beyond_the_allowed_mismatches(allowed: int, batches: int) -> None:
    """Three mismatches: allowed three, the run ends as it should."""
    stage = Stage(mismatches=3)
    state = stage.play(run_of(5), ROWS, mismatches_max=allowed)
    assert (state is RunState.MISMATCHED) == (batches == 1)
    assert len(stage.applied) == batches


def test_it_waits_while_ingest_lags_and_helps_it() -> None:
    """No batch begins before the lag is below its bound; meanwhile due units are worked on."""
    stage = Stage(lags=[500.0, 61.0, 60.0])
    stage.play(run_of(1), ROWS[:1])
    assert stage.events[: stage.events.index("apply")] == ["work", "sleep", "work", "sleep"]


def test_it_keeps_to_its_rate() -> None:
    """Five records at two a second take at least two seconds and a half."""
    stage = Stage()
    stage.play(run_of(5), ROWS, records_per_s=2.0)
    assert stage.now >= 2.5
    assert wait_s(10, 2.0, 5.0) == 0.0
    assert wait_s(11, 2.0, 5.0) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("batch", "per_s", "together"),
    [(500, 50.0, 50), (500, 2.7, 2), (500, 0.1, 1), (20, 50.0, 20), (500, float("inf"), 500)],
)
def test_no_more_goes_at_once_than_a_second_allows(batch: int, per_s: float, together: int) -> None:
    """Whole records, at least one, and never more than the batch that is set."""
    assert within_rate(batch, per_s) == together


def test_its_rate_holds_in_every_second() -> None:
    """A large batch is cut to a second's worth, and time lost to ingest is not made up in haste."""
    rows = [row(number) for number in range(1, 13)]
    stage = Stage(lags=[0.0, 0.0, *[500.0] * 20], work_s=0.25)
    stage.play(run_of(12), rows, batch=500, records_per_s=3.0)
    assert [len(batch) for batch in stage.applied] == [3, 3, 3, 3]
    # Twenty looks at ingest, a second and the helping worker's quarter each.
    assert stage.applied_at == [0.0, 1.0, 27.0, 28.0]


def test_what_a_switch_held_is_taken_up_at_the_rate() -> None:
    """Five held records at two a second: batches of two, a second apart."""
    stage = Stage(held=["x1", "x2", "x3", "x4", "x5"])
    stage.play(run_of(0), [], batch=500, records_per_s=2.0)
    assert [records for records, _ in stage.batched] == [2, 2, 1] * 2
    assert stage.now == pytest.approx(5.0)


def test_it_sees_through_what_others_work_on() -> None:
    """As long as a record is being worked on it waits and recovers lost ones; without work, not."""
    stage = Stage(waits=3)
    stage.play(run_of(1), ROWS[:1])
    assert stage.events.count("recover") == 3
    idle = Stage(waits=3)
    idle.play(run_of(1), ROWS[:1], work=False)
    assert idle.events == ["apply"]


def test_rows_beyond_the_cap_make_no_batch() -> None:
    """They are counted by the plan; other skips are kept as rows."""
    beyond = row(7, PlanAction.SKIP, SkipReason.BEYOND_MAX_EVENTS.value)
    other = row(8, PlanAction.SKIP, "succeeded")
    assert list(batches_of([ROWS[0], beyond, other], pace_of(10))) == [[ROWS[0], other]]


def test_rows_that_put_nothing_to_work_take_none_of_the_rate() -> None:
    """A batch ends before one more record would be put to work, or when it is full."""
    hits = [row(number, PlanAction.HIT) for number in range(6, 10)]
    skip = row(10, PlanAction.SKIP, "succeeded")
    rows = [hits[0], ROWS[0], skip, ROWS[1], hits[1], hits[2], hits[3], ROWS[2]]
    found = list(batches_of(rows, pace_of(4, records_per_s=1.0)))
    assert found == [rows[:3], rows[3:7], rows[7:]]


def test_the_report_adds_up() -> None:
    """Planned is done, skipped, failed and due together, whatever the rows are."""
    counts = [
        RowCount(outcome=outcome, reason=reason, tried=tried, records=n, mismatches=m)
        for outcome, reason, tried, n, m in (
            (RowOutcome.DONE, None, True, 5, 2),
            (RowOutcome.HIT, None, False, 3, 0),
            (RowOutcome.SKIPPED, "moved", False, 2, 0),
            (RowOutcome.FAILED, "size_zero", True, 1, 0),
            (RowOutcome.DUE, "io_error", True, 4, 0),
            (RowOutcome.DUE, "kill_switch_active", False, 6, 0),
            (RowOutcome.DUE, None, False, 7, 0),
        )
    ]
    report = report_of(run_of(40, skipped={"beyond_max_events": 12}), counts)
    assert (report.done, report.hits, report.skipped) == (8, 3, 14)
    assert (report.failed, report.retrying, report.due, report.held) == (5, 4, 13, 6)
    assert report.planned == report.done + report.skipped + report.failed + report.due
    assert (report.state, report.mismatches) == (RunState.PAUSED, 2)

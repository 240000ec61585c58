"""The error budget: zones by counting, what they forbid, and a log that any process can rebuild."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import (
    ApprovalInvalid,
    GovernanceError,
    InvalidInput,
    NodeFailed,
    NodeParked,
    TransientError,
    ValidationError,
)
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes import NodeHooks, RetryPolicy
from tallgrass.nodes.entries import TaskId
from tallgrass.nodes.error_budget import (
    BudgetPolicy,
    ErrorBudgets,
    Outcome,
    OutcomeLog,
    as_json_value,
    budget_state,
    require_rerun_allowed,
)
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.protocols import NodeStatus
from tallgrass.telemetry.slo import Zone
from tests.nodes.governed import governed_gate
from tests.nodes.running import Watched, failing_first
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
ONE_TRY = RetryPolicy(max_attempts=1)


def outcome(number: int, *, succeeded: bool, at: datetime = NOW, pipeline: str = "p") -> Outcome:
    """An outcome of its own."""
    return Outcome(
        pipeline=pipeline,
        run_id="r",
        task=TaskId(node_id="n", task_id=str(number)),
        at=at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        succeeded=succeeded,
        work=f"w{number}",
    )


@pytest.mark.parametrize(
    ("outcomes", "failures", "remaining", "zone"),
    [
        (0, 0, 1, "green"),
        (1000, 0, 1, "green"),
        (1000, 5, Fraction(1, 2), "green"),
        (1000, 6, Fraction(2, 5), "yellow"),
        (1000, 8, Fraction(1, 5), "yellow"),
        (1000, 9, Fraction(1, 10), "red"),
        (1000, 10, 0, "black"),
        (1000, 25, Fraction(-3, 2), "black"),
        (1, 1, -99, "black"),
    ],
)
def test_zones_are_those_of_the_counted_failures(
    outcomes: int, failures: int, remaining: Fraction | int, zone: str
) -> None:
    """With 99 % promised, 10 of 1,000 may fail; the bounds belong to the better zone, 0 to none."""
    state = budget_state("p", outcomes, failures, BudgetPolicy())
    assert state.remaining == remaining
    assert state.zone == zone
    assert as_json_value(state)["zone"] == zone


@pytest.mark.parametrize(
    "options",
    [
        {"objective": 0},
        {"objective": 1},
        {"objective": float("nan")},
        {"window_days": 0},
        {"window_days": 2.5},
        {"window_days": 400},
    ],
)
def test_a_budget_that_is_none_is_refused(options: dict[str, Any]) -> None:
    """No failures at all, none but failures, or no end."""
    with pytest.raises(InvalidInput):
        BudgetPolicy(**options)


class Approvals:
    """Knows one approval."""

    def __init__(self, known: str = "a-1") -> None:
        self.known = known
        self.asked: list[tuple[str, str, TaskId]] = []

    def allow_rerun(self, approval: str, run_id: str, task: TaskId) -> None:
        """Refuse all others."""
        self.asked.append((approval, run_id, task))
        if approval != self.known:
            raise ApprovalInvalid(f"{approval} is not known")


@pytest.mark.conformance("NR-11.5")
@pytest.mark.parametrize(
    ("zone", "dataset", "rerun", "approval"),
    list(
        product(
            ["green", "yellow", "red", "black"],
            ["tribal_wells", "river_flow", None],
            [False, True],
            [None, "a-1", "a-2"],
        )
    ),
)
def test_sovereign_data_are_not_run_again_in_red_without_an_approval(
    watched: Watched,
    zone: str,
    dataset: str | None,
    rerun: bool,  # noqa: FBT001
    approval: str | None,
) -> None:
    """Of all 72 cases just those of a re-run, of sovereign data, in red or black, unapproved."""
    calls = []

    class Budget:
        def admit(self, call: Any, *, rerun: bool) -> None:
            calls.append((call, rerun))

    runner = watched.runner(gate=governed_gate(), hooks=NodeHooks(budget=Budget()))
    runner.run(node_id="n", inputs={}, exec_fn=lambda _: 1, dataset=dataset, approval=approval)
    ((call, _),) = calls
    forbidden = zone in {"red", "black"} and dataset == "tribal_wells" and rerun
    refused = forbidden and approval != "a-1"
    if not refused:
        require_rerun_allowed(call, Zone(zone), rerun=rerun, approvals=Approvals())
        return
    with pytest.raises(GovernanceError, match=f"is {zone}") as raised:
        require_rerun_allowed(call, Zone(zone), rerun=rerun, approvals=Approvals())
    assert (raised.value.guard, raised.value.code) == ("slo_risk", "node_rerun_refused")


def fail_often(budgets: ErrorBudgets, number: int) -> None:
    """Let a pipeline look bad."""
    now = datetime.now(UTC)
    failures = [outcome(n, succeeded=False, at=now, pipeline="hydrology") for n in range(number)]
    budgets.log.add(failures)


@pytest.mark.conformance("NR-1.5", "NR-11.5")
def test_a_spent_budget_changes_what_a_run_may_do(watched: Watched, tmp_path: Path) -> None:
    """A first run goes on; a retry, the same work in another run, and a resumed one do not."""
    approvals = Approvals()
    budgets = ErrorBudgets(tmp_path / "outcomes", approvals=approvals)
    hooks = NodeHooks(budget=budgets, watchers=(budgets, watched))
    wells: dict[str, Any] = {
        "node_id": "n",
        "code_version": "1",
        "inputs": {"x": 1},
        "dataset": "tribal_wells",
    }
    fail_often(budgets, 3)
    assert budgets.state("hydrology").zone == "black"

    node = failing_first(1, lambda: TransientError("later"))
    with pytest.raises(GovernanceError, match="slo_risk"):
        watched.runner(gate=governed_gate(), hooks=hooks).run(exec_fn=node, **wells)
    assert len(node.calls) == 1  # type: ignore[attr-defined]
    assert [each.status for each in watched.outcomes] == [NodeStatus.PARKED]
    assert watched.view("run-1/n/failed.json") is None

    resumed = watched.runner(gate=governed_gate(), hooks=hooks)
    with pytest.raises(GovernanceError, match="a-2 is not known"):
        resumed.run(exec_fn=node, approval="a-2", **wells)
    assert resumed.run(exec_fn=node, approval="a-1", **wells) == {"calls": 2}
    assert [asked[0] for asked in approvals.asked] == ["a-2", "a-1"]

    other = watched.runner(run_id="run-2", gate=governed_gate(), hooks=hooks)
    assert other.run(exec_fn=node, **wells) == {"calls": 2}  # the cache runs nothing again
    with pytest.raises(GovernanceError, match="no approval was given"):
        other.run(exec_fn=node, **{**wells, "code_version": "2"})
    assert other.run(exec_fn=node, **{**wells, "inputs": {"x": 2}}) == {"calls": 3}
    rivers: dict[str, Any] = {**wells, "dataset": "river_flow", "code_version": "3"}
    assert other.run(exec_fn=node, **rivers) == {"calls": 4}


@pytest.mark.conformance("NR-11.5")
def test_one_approval_serves_all_attempts_of_its_task(watched: Watched, tmp_path: Path) -> None:
    """Approvals are for one use: a retry does not ask again, another task does."""
    approvals = Approvals()
    budgets = ErrorBudgets(tmp_path / "outcomes", approvals=approvals)
    fail_often(budgets, 3)
    runner = watched.runner(gate=governed_gate(), hooks=NodeHooks(budget=budgets))
    node = failing_first(3, lambda: TransientError("later"))
    wells: dict[str, Any] = {
        "node_id": "n",
        "inputs": {},
        "dataset": "tribal_wells",
        "approval": "a-1",
    }
    assert runner.run(exec_fn=node, **wells) == {"calls": 4}
    assert len(approvals.asked) == 1
    node = failing_first(1, lambda: TransientError("later"))
    runner.run(exec_fn=node, task_id="t-2", **wells)
    assert [asked[2].task_id for asked in approvals.asked[1:]] == ["t-2"]


def test_a_wrapped_node_has_the_approval_of_its_runner(watched: Watched, tmp_path: Path) -> None:
    """A graph calls its nodes itself: what allows them is said when the runner is made."""
    budgets = ErrorBudgets(tmp_path / "outcomes", approvals=Approvals())
    fail_often(budgets, 3)
    hooks = NodeHooks(budget=budgets)
    node = failing_first(1, lambda: TransientError("later"))
    given: dict[str, Any] = {"node_id": "n", "dataset": "tribal_wells", "code_version": "1"}
    refused = watched.runner(gate=governed_gate(), hooks=hooks).wrap(node, **given)
    with pytest.raises(GovernanceError):
        refused({})
    allowed = watched.runner(gate=governed_gate(), hooks=hooks, approval="a-1").wrap(node, **given)
    assert allowed({}) == {"calls": 2}


def test_without_anybody_who_checks_no_approval_counts(watched: Watched, tmp_path: Path) -> None:
    """A text alone opens nothing."""
    budgets = ErrorBudgets(tmp_path / "outcomes")
    fail_often(budgets, 3)
    runner = watched.runner(gate=governed_gate(), hooks=NodeHooks(budget=budgets))
    with pytest.raises(GovernanceError, match="nobody here can check"):
        runner.run(
            node_id="n",
            inputs={},
            exec_fn=failing_first(1, lambda: TransientError("later")),
            dataset="tribal_wells",
            approval="a-1",
        )


def test_calls_that_ended_are_counted_once(watched: Watched, tmp_path: Path) -> None:
    """Success and failure for good; not hits, resumes, parked ones, retries or interrupts."""
    budgets = ErrorBudgets(tmp_path / "outcomes")
    hooks = NodeHooks(watchers=(budgets,))

    def counts() -> tuple[int, int]:
        state = ErrorBudgets(tmp_path / "outcomes").state("hydrology")
        return state.outcomes, state.failures

    runner = watched.runner(hooks=hooks)
    good: dict[str, Any] = {"node_id": "n", "code_version": "1", "inputs": {"x": 1}}
    runner.run(exec_fn=failing_first(2, lambda: TransientError("later")), **good)
    assert counts() == (1, 0)
    runner.run(exec_fn=lambda _: 0, **good)
    watched.runner(run_id="2", hooks=hooks).run(exec_fn=lambda _: 0, **good)
    assert counts() == (1, 0)
    for _ in range(2):
        with pytest.raises((ValidationError, NodeFailed)):
            runner.run(
                node_id="bad", inputs={}, exec_fn=failing_first(9, lambda: ValidationError("no"))
            )
    assert counts() == (2, 1)
    with pytest.raises(TransientError):
        runner.run(
            node_id="slow",
            inputs={},
            exec_fn=failing_first(9, lambda: TransientError("later")),
            retry=ONE_TRY,
        )
    assert counts() == (3, 2)
    switched = GovernanceGate(switches=lambda: SwitchedOff(("*",)))
    with pytest.raises(NodeParked):
        watched.runner(hooks=hooks, gate=switched).run(node_id="m", inputs={}, exec_fn=len)
    assert counts() == (3, 2)


def test_what_a_killed_process_could_not_count_is_counted_on_resume(
    watched: Watched, tmp_path: Path
) -> None:
    """The result was durable, the count not yet: the next process makes up for it, once."""
    given: dict[str, Any] = {"node_id": "n", "inputs": {}, "exec_fn": lambda _: 1}
    watched.runner().run(**given)
    budgets = ErrorBudgets(tmp_path / "outcomes")
    for _ in range(2):
        watched.runner(hooks=NodeHooks(watchers=(budgets,))).run(**given)
    assert budgets.state("hydrology").outcomes == 1


def test_the_log_is_rebuilt_from_the_journals_alone(watched: Watched, tmp_path: Path) -> None:
    """With the folder gone the same lines come back, and a second rebuild finds nothing to do."""
    root = tmp_path / "outcomes"
    budgets = ErrorBudgets(root, approvals=Approvals())
    hooks = NodeHooks(watchers=(budgets,))

    class Anyone:
        def allow_clearing(self, approval: str, run_id: str, task: TaskId) -> None:
            pass

    for run_id in ("1", "2"):
        runner = watched.runner(run_id=run_id, hooks=hooks, approvals=Anyone())
        runner.run(node_id="good", inputs={"x": run_id}, exec_fn=lambda _: 1)
        with pytest.raises(ValidationError):
            runner.run(
                node_id="bad",
                inputs={"x": run_id},
                exec_fn=failing_first(1, lambda: ValidationError("no")),
            )
        runner.clear(run_id=run_id, node_id="bad", approval="a-1")
        runner.run(node_id="bad", inputs={"x": run_id}, exec_fn=lambda _: 2)
    (file,) = (root / "hydrology").iterdir()
    before = sorted(file.read_bytes().splitlines())
    assert [json.loads(line)["succeeded"] for line in before].count(False) == 2
    assert len(before) == 6
    file.unlink()
    rebuilt = ErrorBudgets(root)
    wal = watched.runners[0].wal
    assert [rebuilt.rebuild(run_id, wal.entries(run_id)) for run_id in ("1", "2")] == [3, 3]
    assert sorted(file.read_bytes().splitlines()) == before
    assert [rebuilt.rebuild(run_id, wal.entries(run_id)) for run_id in ("1", "2")] == [0, 0]
    file.unlink()
    # Also by who knew the file that is gone, and without counting anything twice.
    assert [budgets.rebuild(run_id, wal.entries(run_id)) for run_id in ("1", "2")] == [3, 3]
    assert rebuilt.state("hydrology").failures == 2
    assert budgets.state("hydrology").failures == 2


def test_only_the_window_counts_and_each_pipeline_has_its_own(tmp_path: Path) -> None:
    """By the hour: what is 28 days and an hour old is forgotten, what is younger is not."""
    log = OutcomeLog(tmp_path)
    policy = BudgetPolicy()
    old, young = NOW - timedelta(days=28, hours=1), NOW - timedelta(days=28)
    log.add([outcome(1, succeeded=False, at=old), outcome(2, succeeded=False, at=young)])
    log.add([outcome(3, succeeded=True), outcome(4, succeeded=True, pipeline="q")])
    state = log.state("p", NOW, policy)
    assert (state.outcomes, state.failures) == (2, 1)
    assert log.state("q", NOW, policy).outcomes == 1
    later = log.state("p", NOW + timedelta(days=2), policy)
    assert (later.outcomes, later.failures) == (1, 0)
    assert log.was_done("p", "w3", NOW, policy)
    assert not log.was_done("p", "w4", NOW, policy)


def test_a_line_that_a_crash_tore_costs_nobody_else(tmp_path: Path) -> None:
    """The next one begins a line of its own; what was torn comes back by the same line."""
    log = OutcomeLog(tmp_path)
    log.add([outcome(1, succeeded=True)])
    (file,) = (tmp_path / "p").iterdir()
    whole = outcome(2, succeeded=False).line
    with file.open("ab") as open_file:
        open_file.write(whole[:20])
    other = OutcomeLog(tmp_path)
    assert other.add([outcome(3, succeeded=True)]) == 1
    assert other.add([outcome(2, succeeded=False)]) == 1
    for each in (log, other, OutcomeLog(tmp_path)):
        state = each.state("p", NOW, BudgetPolicy())
        assert (state.outcomes, state.failures) == (3, 1)


WRITER = """
import sys
from pathlib import Path
from tests.nodes.test_error_budget import outcome
from tallgrass.nodes.error_budget import OutcomeLog
log = OutcomeLog(Path(sys.argv[1]))
first = int(sys.argv[2])
for number in range(first, first + 100):
    log.add([outcome(number, succeeded=number % 10 != 0)])
"""


def test_processes_add_to_one_log_and_see_each_other(tmp_path: Path) -> None:
    """Four at once, half of their outcomes the same: none lost, none doubled."""
    children = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(first)], cwd=ROOT)
        for first in (0, 50, 100, 150)
    ]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    state = OutcomeLog(tmp_path).state("p", NOW, BudgetPolicy())
    assert (state.outcomes, state.failures) == (250, 25)
    (file,) = (tmp_path / "p").iterdir()
    lines = file.read_bytes().splitlines()
    assert len(lines) == len(set(lines)) == 250

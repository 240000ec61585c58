"""The races and crashes of this folder belong to every run, not to a special one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

#: What must be among the tests of an ordinary run, on each database.
REQUIRED = (
    "test_many_claims.py::test_sixteen_processes_never_hold_a_unit_twice",
    "test_forced_races.py::test_two_processes_at_one_unit_have_one_winner",
    "test_forced_races.py::test_two_that_both_saw_a_unit_pending_cannot_both_claim_it",
    "test_forced_races.py::test_a_commit_lands_or_its_worker_is_recovered_never_both",
    "test_stopped_workers.py::test_a_worker_stopped_past_its_lease_can_write_nothing",
    "test_killed_workers.py::test_a_worker_killed_at_any_step_is_replaced",
    "test_killed_workers.py::test_a_unit_that_kills_its_worker_stops_at_the_limit",
)


@pytest.mark.conformance("SM-6.3")
def test_an_ordinary_run_contains_the_races_and_the_crashes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without any option pytest collects contended claims and crashes for both databases."""
    monkeypatch.delenv("TALLGRASS_TEST_FULL", raising=False)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/processes"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    collected = done.stdout.splitlines()
    missing = [
        f"{name} on {database}"
        for name in REQUIRED
        for database in ("sqlite", "postgres")
        if not any(f"{name}[{database}" in line for line in collected)
    ]
    assert missing == []


@pytest.mark.conformance("SM-6.3")
def test_make_test_leaves_no_test_out() -> None:
    """`make test` runs pytest on all test paths without choosing among them."""
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [call] = [line for line in recipe.splitlines() if re.search(r"-m pytest\b", line)]
    options = call.split("-m pytest", 1)[1]
    assert not re.search(r"(?<!\S)(-k|-m|--deselect|--ignore\S*)(?!\S)", options)

"""Runs of nodes by the API and by their pages; the folder is the one of the command's tests."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from tallgrass.nodes import NodeHooks, NodeRunner
from tallgrass.nodes.lineage import FileLineage, Lineage
from tests.cli.command import here
from tests.cli.test_nodes import double, folder, put, run_node, take_back  # noqa: F401 - a fixture
from tests.support.governance import People, set_up
from tests.support.replay_console import console_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend
    from tests.support.console import Console

API = "/api/v1/nodes"
ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def people(backend: Backend) -> People:
    """Who acts."""
    return set_up(backend)


@pytest.fixture
def console(
    people: People,
    backend: Backend,
    folder: Path,  # noqa: F811
    tmp_path: Path,
) -> Iterator[Console]:
    """The console over a runner's folder."""
    config = backend.config()
    values = {
        **config.values,
        "nodes.folder": str(folder),
        "console.plans_folder": str(tmp_path / "plans"),
    }
    with console_of(replace(config, values=values)) as made:
        yield made


@ON_SQLITE
def test_runs_are_told_as_the_command_tells_them(
    console: Console,
    folder: Path,  # noqa: F811
) -> None:
    """The same documents: runs, one run, one node, budgets, cache."""
    vera = console.program("vera")
    for path, words in (
        ("/runs", ("runs",)),
        ("/runs?status=failed", ("runs", "--status", "failed")),
        ("/runs/good", ("show", "good")),
        ("/runs/good?node=flaky", ("show", "good", "flaky")),
        ("/cache", ("cache", "stats")),
    ):
        told = here("nodes", *words, "--dir", str(folder)).json
        assert vera.get(f"{API}{path}").json() == told, path
    newest = vera.get(f"{API}/runs?limit=2")
    assert newest.json()["runs"] == here("nodes", "runs", "--dir", str(folder)).json["runs"][:2]
    older = vera.get(newest.links["next"]["url"]).json()
    assert [each["run_id"] for each in older["runs"]] == ["hit", "good"]
    assert older["next_cursor"] is None
    budgets = here("nodes", "budget", "--dir", str(folder)).json["pipelines"]
    assert vera.get(f"{API}/budgets").json()["pipelines"] == budgets
    assert vera.get(f"{API}/runs/none").json()["code"] == "node_run_unknown"
    assert vera.get(f"{API}/runs/good?node=none").status_code == 400


@ON_SQLITE
def test_a_damaged_run_is_told_as_what_it_is(
    console: Console,
    people: People,
    folder: Path,  # noqa: F811
) -> None:
    """409 with the code, and the list shows it beside the others; never a 500."""
    journal = folder / "wal" / "bad" / ".journal"
    journal.write_bytes(b"x" + journal.read_bytes()[1:])
    vera = console.program("vera")
    answer = vera.get(f"{API}/runs/bad")
    assert (answer.status_code, answer.json()["code"]) == (409, "node_wal_damaged")
    for plan in ("clear-plan", "clear-plan?task=put"):
        answer = console.program("otto").get(f"{API}/runs/bad/nodes/put/{plan}")
        assert (answer.status_code, answer.json()["code"]) == (409, "node_wal_damaged")
    assert console.browser_of(people.vera).get("/nodes/bad").status_code == 409
    statuses = {each["run_id"]: each["status"] for each in vera.get(f"{API}/runs").json()["runs"]}
    assert (statuses["bad"], statuses["good"]) == ("damaged", "succeeded")
    assert "damaged" in console.browser_of(people.vera).get("/nodes").text


@ON_SQLITE
def test_of_sensitive_tasks_a_viewer_sees_nothing_that_trying_could_find(
    console: Console,
    people: People,
    folder: Path,  # noqa: F811
) -> None:
    """Hashes and keys are null, and ids are sealed, to ask by as well; operators see all of it."""
    hooks = NodeHooks(lineage=Lineage(FileLineage(folder / "lineage")))
    with NodeRunner(folder, hooks=hooks) as runner:
        run_node(runner, "double", double, 5, run_id="secret", sensitive=True)
        with pytest.raises(ValueError, match="too large"):
            run_node(
                runner, "put", put, 7, run_id="secret", sensitive=True, compensate_fn=take_back
            )
    path, page = f"{API}/runs/secret", "/nodes/secret"
    vera, otto = console.program("vera"), console.program("otto")
    exact = here("nodes", "show", "secret", "--dir", str(folder)).json
    assert otto.get(path).json() == exact
    made, failed = exact["tasks"]
    # By hand: the bytes of {"x": 10} and of the effect's key, as they are stored.
    result, key = (sha256(data).hexdigest() for data in (b'{"x":10}', b'"object-7"'))
    assert made["result_hash"] == result
    assert failed["effects"][0]["key"]["$apart"]["sha256"] == key
    telling = {result, key, failed["failed"]["identity"]}
    for task in (made, failed):
        telling |= {task["task_id"], task["inputs_hash"], task["lineage"][0]["identity"]}
    telling |= {made["cache_key"], made["task_id"].removeprefix("t-")}

    answer = vera.get(path)
    assert [each for each in telling if each in answer.text] == []
    salt = re.search(rb'"salt":"([0-9a-f]{32})"', (folder / "wal/secret/.journal").read_bytes())
    assert salt is not None
    for shown, task in zip(answer.json()["tasks"], (made, failed), strict=True):
        named = salt[1] + b"|" + task["task_id"].encode()
        assert shown["task_id"] == sha256(named).hexdigest()
        assert (shown["inputs_hash"], shown["cache_key"], shown["result_hash"]) == (None,) * 3
        for name in ("node_id", "status", "code_version", "attempts", "rolled_back"):
            assert shown[name] == task[name]
        at = f"{path}?node={task['node_id']}&task="
        assert vera.get(at + task["task_id"]).status_code == 400
        assert vera.get(at + shown["task_id"]).json()["tasks"] == [shown]
        assert otto.get(at + task["task_id"]).json()["tasks"] == [task]
    assert [each["key"] for each in shown["effects"] + shown["compensations"]] == [None, None]

    for actor, sees in ((people.otto, True), (people.vera, False), (None, False)):
        text = console.browser_of(actor).get(page).text
        assert (made["task_id"] in text, result[:16] in text) == (sees, sees)
    assert vera.get(f"{API}/runs/good").json() == otto.get(f"{API}/runs/good").json()


@ON_SQLITE
def test_cached_results_go_when_an_operator_says_so(console: Console, backend: Backend) -> None:
    """One node's, or all; the log has who; a viewer removes nothing."""
    otto = console.program("otto")
    before = otto.get(f"{API}/cache").json()["entries"]
    assert before > 0
    for path in ("prune", "clear"):
        body = {} if path == "prune" else {"everything": True}
        answer = console.program("vera").post(f"{API}/cache/{path}", json=body)
        assert answer.status_code == 403
    assert otto.post(f"{API}/cache/clear", json={}).status_code == 400
    one = otto.post(f"{API}/cache/clear", json={"node": "flaky"}).json()
    assert (one["removed"], one["entries"]) == (1, before - 1)
    rest = otto.post(f"{API}/cache/prune", json={"max_bytes": 0}).json()
    assert (rest["removed"], rest["entries"]) == (before - 1, 0)
    logged = backend.sql("SELECT actor, action FROM audit_log WHERE subject = 'node-cache'")
    assert logged == [("otto", "node_cache_clear"), ("otto", "node_cache_prune")]


def test_a_failed_node_is_cleared_under_an_approval(console: Console, people: People) -> None:
    """The plan is kept and approved by its hash; without the approval it is refused."""
    otto, ann = console.program("otto"), console.program("ann")
    path = f"{API}/runs/bad/nodes/put"
    plan = otto.get(f"{path}/clear-plan").json()
    refused = otto.post(f"{path}/clear", json={})
    assert (refused.status_code, refused.json()["guard"]) == (409, "approval_missing")
    wish = {"plan_sha256": plan["sha256"], "reason": "INC-7"}
    approval = otto.post("/api/v1/approvals", json=wish).json()["approval"]
    there = f"/api/v1/approvals/{approval['approval_id']}"
    tag = {"If-Match": ann.get(there).headers["etag"]}
    assert ann.post(f"{there}/decision", json={"verdict": "approve"}, headers=tag).is_success
    cleared = otto.post(f"{path}/clear", json={"approval_id": approval["approval_id"]})
    assert (cleared.status_code, cleared.json()["cleared"]) == (200, 1), cleared.text
    assert otto.get(f"{API}/runs/bad").json()["run"]["status"] == "unfinished"


@ON_SQLITE
def test_a_plan_to_clear_is_for_operators(console: Console, people: People) -> None:
    """It names tasks and keys of effects as they are; no viewer learns that a guess is right."""
    path = f"{API}/runs/bad/nodes/put/clear-plan"
    (task,) = console.program("otto").get(path).json()["tasks"]
    assert task["effects"][0]["key"] == "object-7"
    for viewer in (console.program("vera"), console.browser_of(people.vera), console.browser_of()):
        for asked in (path, f"{path}?task={task['task_id']}", f"{path}?task=other"):
            assert viewer.get(asked).json()["code"] == "not_authorized"


@ON_SQLITE
def test_only_plans_of_operators_are_kept(console: Console, people: People, tmp_path: Path) -> None:
    """A viewer pushes out no plan that waits for its approval."""
    path, plans = f"{API}/runs/bad/nodes/put", tmp_path / "plans"
    for each in ("clear-plan", "rerun-plan"):
        for viewer in (console.program("vera"), console.browser_of(people.vera)):
            assert viewer.get(f"{path}/{each}").json()["code"] == "not_authorized"
        assert list(plans.glob("*")) == []
        seen = console.program("otto").get(f"{path}/{each}").json()
        (kept,) = plans.glob("*")
        assert kept.stem == seen["sha256"]
        kept.unlink()


@ON_SQLITE
def test_pages_show_runs_and_tasks(console: Console, people: People) -> None:
    """Runs by state, the tasks of one; what a node was given or made is on no page."""
    browser = console.browser_of(people.vera)
    page = browser.get("/nodes").text
    assert all(f'href="/nodes/{name}"' in page for name in ("good", "hit", "bad", "asks"))
    assert "/nodes/good" not in browser.get("/nodes?status=failed").text
    task = browser.get("/nodes/bad").text
    assert "ValueError" in task
    assert "plan-clear bad put" in task
    assert "object-7" not in task
    assert browser.get("/nodes/none").status_code == 404

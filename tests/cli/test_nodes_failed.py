"""`tallgrass nodes plan-clear|clear-failed|plan-rerun`: the approved way back for a node."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ValidationError
from tallgrass.nodes import NodeRunner, effect
from tests.cli.command import Done, here, tallgrass
from tests.support.governance import set_up, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@dataclass
class Desk:
    """A run with a failed node, and people."""

    backend: Backend
    folder: Path

    def as_(self, who: str, *args: str) -> Done:
        """Run a command as somebody."""
        return tallgrass(
            *args,
            at=self.backend,
            env={"TALLGRASS_TOKEN": token_of(who), "TALLGRASS_NODES_FOLDER": str(self.folder)},
        )

    def quick(self, who: str, *args: str) -> Done:
        """Run a command as somebody, in this process, for its JSON."""
        env = {"TALLGRASS_TOKEN": token_of(who), "TALLGRASS_NODES_FOLDER": str(self.folder)}
        return here(*args, at=self.backend, env=env)

    def approval(self, plan: Path) -> str:
        """Have a plan asked for by otto and approved by ann."""
        asked = self.quick("otto", "approvals", "request", "--plan", str(plan), "--reason", "INC-7")
        assert asked.code == 0, asked.err
        approval: str = asked.json["approval_id"]
        assert self.quick("ann", "approvals", "approve", approval).code == 0
        return approval


@pytest.fixture
def desk(backend: Backend, tmp_path: Path) -> Desk:
    """A node that failed in two tasks, with an effect that could not be undone."""
    set_up(backend)

    def node(state: Any) -> Any:
        effect("put", key=f"object-{state['x']}", do=lambda: None)
        raise ValidationError("wrong shape")

    with NodeRunner(tmp_path / "nodes", run_id="run-1") as runner:
        for x in (1, 2):
            with pytest.raises(ValidationError):
                runner.run(
                    node_id="publish", inputs={"x": x}, exec_fn=node, code_version="1",
                    has_effects=True, task_id=f"task-{x}",
                )  # fmt: skip
    return Desk(backend, tmp_path / "nodes")


@pytest.mark.conformance("NR-12.7")
def test_a_failed_node_is_planned_approved_and_cleared(desk: Desk, tmp_path: Path) -> None:
    """The plan names failures and effects; the approval is for its bytes, and is used once."""
    plan = tmp_path / "clear.json"
    made = desk.as_("otto", "nodes", "plan-clear", "run-1", "publish", "--file", str(plan),
                    "--output", "json")  # fmt: skip
    assert made.code == 0, made.err
    assert made.json["sha256"] == hashlib.sha256(plan.read_bytes()).hexdigest()
    assert [task["task_id"] for task in made.json["tasks"]] == ["task-1", "task-2"]
    assert made.json["tasks"][0]["effects"] == [
        {"effect": "put", "key": "object-1", "state": "stuck"}
    ]
    approval = desk.approval(plan)
    clear = ("nodes", "clear-failed", "run-1", "publish", "--approval-id", approval)
    done = desk.as_("otto", *clear, "--output", "json")
    assert done.code == 0, done.err
    assert done.json == {"run_id": "run-1", "node_id": "publish", "cleared": 2}
    assert not (desk.folder / "wal" / "run-1" / "publish" / "failed.json").exists()
    again = desk.as_("otto", *clear)
    assert (again.code, "did not fail" in again.err) == (2, True)


def test_one_task_is_cleared_alone(desk: Desk, tmp_path: Path) -> None:
    """`--task` names it in the plan and in the clearing; `--dir` says where."""
    plan = tmp_path / "clear.json"
    place = ("--dir", str(desk.folder))
    made = desk.as_("otto", "nodes", "plan-clear", "run-1", "publish", "--task", "task-2",
                    "--file", str(plan), *place)  # fmt: skip
    assert "task-2" in made.out
    assert "task-1" not in made.out
    approval = desk.approval(plan)
    clear = ("nodes", "clear-failed", "run-1", "publish", "--approval-id", approval)
    refused = desk.as_("otto", *clear, "--task", "task-1", *place)
    assert (refused.code, "plan_changed" in refused.err) == (3, True)
    done = desk.as_("otto", *clear, "--task", "task-2", *place)
    assert (done.code, "Cleared 1 task of publish" in done.out) == (0, True)
    elsewhere = desk.as_("otto", *clear, "--dir", str(tmp_path / "nowhere"))
    assert "node_run_unknown" in elsewhere.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.conformance("NR-12.7")
def test_refusals_clear_nothing_and_are_in_the_log(desk: Desk, tmp_path: Path) -> None:
    """No token, somebody who may only look, no approval, one that nobody approved."""
    plan = tmp_path / "clear.json"
    desk.quick("otto", "nodes", "plan-clear", "run-1", "publish", "--file", str(plan))
    request = ("approvals", "request", "--plan", str(plan), "--reason", "INC-7")
    asked = desk.quick("otto", *request).json["approval_id"]
    own = desk.quick("otto", "approvals", "approve", asked)
    assert own.code == 3
    clear = ("nodes", "clear-failed", "run-1", "publish")
    bare = desk.quick("otto", *clear)
    assert (bare.code, json.loads(bare.err)["error"]["guard"]) == (3, "approval_missing")
    assert desk.quick("otto", *clear, "--approval-id", asked).code == 3
    viewer = desk.quick("vera", *clear, "--approval-id", asked)
    assert (viewer.code, "not_authorized" in viewer.err) == (3, True)
    nobody = tallgrass(*clear, "--approval-id", asked, "--dir", str(desk.folder), at=desk.backend)
    assert (nobody.code, "unknown_actor" in nobody.err) == (3, True)
    assert (desk.folder / "wal" / "run-1" / "publish" / "failed.json").exists()
    logged = desk.backend.rows("SELECT actor FROM audit_log WHERE action = 'node_clear_refused'")
    assert sorted(row["actor"] for row in logged) == ["otto", "otto", "unknown", "vera"]


def test_a_plan_that_was_changed_is_no_plan(desk: Desk, tmp_path: Path) -> None:
    """Not even by a blank; and there is none for what did not fail."""
    plan = tmp_path / "clear.json"
    desk.quick("otto", "nodes", "plan-clear", "run-1", "publish", "--file", str(plan))
    plan.write_bytes(plan.read_bytes().replace(b'":', b'": ', 1))
    asked = desk.quick("otto", "approvals", "request", "--plan", str(plan), "--reason", "x")
    assert (asked.code, "plan_invalid" in asked.err) == (2, True)
    none = desk.quick("otto", "nodes", "plan-clear", "run-1", "other", "--file", str(plan))
    assert (none.code, "did not fail" in none.err) == (2, True)


def test_a_plan_to_run_again_can_be_approved(desk: Desk, tmp_path: Path) -> None:
    """It names run, node, task and dataset; each changes what is approved."""
    plan = tmp_path / "rerun.json"
    made = desk.quick("otto", "nodes", "plan-rerun", "run-2", "publish", "--task", "task-1",
                    "--dataset", "goes-glm", "--file", str(plan))  # fmt: skip
    assert made.code == 0, made.err
    assert {name: made.json[name] for name in ("run_id", "node_id", "task_id", "dataset")} == {
        "run_id": "run-2", "node_id": "publish", "task_id": "task-1", "dataset": "goes-glm",
    }  # fmt: skip
    assert made.json["sha256"] == hashlib.sha256(plan.read_bytes()).hexdigest()
    shown = desk.quick("otto", "approvals", "show", desk.approval(plan)).json
    assert (shown["purpose"], shown["state"]) == ("node-rerun", "approved")
    unknown = desk.quick("otto", "nodes", "plan-rerun", "run-2", "publish", "--dataset", "nobody",
                       "--file", str(plan))  # fmt: skip
    assert unknown.code == 2
    said = desk.as_("otto", "nodes", "plan-rerun", "run-2", "publish", "--file", str(plan))
    assert "approvals request" in said.out

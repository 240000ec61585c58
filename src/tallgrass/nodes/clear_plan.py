"""What an approval to clear a failed node is bound to: the run, the node, and its failures.

A plan names each failure by the task and the time at which it failed, so an approval clears these
and none that comes later. It shows the effects of each, for the approver decides on them too: what
stands as done is kept, and all else may be made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import InvalidInput
from tallgrass.governance.plan_lines import read_plan_line
from tallgrass.nodes.effect_states import compensation_of, effects_of
from tallgrass.nodes.entries import RunState, TaskState

#: Of approvals.
PURPOSE: Final = "node-clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearPlan:
    """Failures that somebody wants cleared, and how many approvers that takes."""

    run_id: str
    node_id: str
    #: As the plan shows them: `task_id`, `failed_at`, the error, the effects.
    tasks: tuple[Mapping[str, Any], ...]
    approvals_needed: int = 1

    @property
    def subject(self) -> str:
        """Its name in the log."""
        return f"{PURPOSE}:{self.run_id}/{self.node_id}"

    def document(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        return {
            "purpose": PURPOSE,
            "approvals_needed": self.approvals_needed,
            "run_id": self.run_id,
            "node_id": self.node_id,
            "tasks": [dict(task) for task in self.tasks],
        }

    def line(self) -> bytes:
        """Return the bytes that an approval is bound to: one line of canonical JSON."""
        return canonical_bytes(self.document()) + b"\n"

    @property
    def sha256(self) -> str:
        """The hash of these bytes."""
        return sha256_hex(self.line())

    def clears(self, run_id: str, node_id: str, task_id: str, failed_at: str) -> bool:
        """Tell whether it names that failure."""
        named = {(task["task_id"], task["failed_at"]) for task in self.tasks}
        return (run_id, node_id) == (self.run_id, self.node_id) and (task_id, failed_at) in named


def clear_plan_of(
    run: RunState, node_id: str, task_id: str | None = None, *, approvals_needed: int = 1
) -> ClearPlan:
    """Return the plan for a node's failed tasks, or for one; where none failed it is refused."""
    tasks = failed_tasks(run, node_id, task_id)
    if not tasks:
        which = node_id if task_id is None else f"{node_id}, task {task_id},"
        raise InvalidInput(f"{which} did not fail for good in run {run.run_id}")
    return ClearPlan(
        run_id=run.run_id,
        node_id=node_id,
        tasks=tuple(_shown(task) for task in tasks),
        approvals_needed=approvals_needed,
    )


def failed_tasks(run: RunState, node_id: str, task_id: str | None = None) -> list[TaskState]:
    """Return the tasks of a node that failed for good, or the one that is named."""
    return [
        task
        for task in run.tasks.values()
        if task.id.node_id == node_id
        and task_id in {None, task.id.task_id}
        and task.failed is not None
    ]


def read_clear_plan(data: bytes) -> tuple[ClearPlan, str] | None:
    """Return the plan that the bytes are, and their SHA-256; None for another kind of plan.

    One that is not exactly as a plan is written is refused.
    """
    said = read_plan_line(data, PURPOSE)
    if said is None:
        return None
    plan = plan_from(said)
    if plan is None or plan.line() != data:
        raise InvalidInput("not as a plan to clear a node is written", code="plan_invalid")
    return plan, sha256_hex(data)


def plan_from(said: Mapping[str, Any]) -> ClearPlan | None:
    """Return the plan that a document says; None if it says none."""
    try:
        return ClearPlan(
            run_id=said["run_id"],
            node_id=said["node_id"],
            tasks=tuple({**task, "task_id": task["task_id"]} for task in said["tasks"]),
            approvals_needed=said["approvals_needed"],
        )
    except (KeyError, TypeError):
        return None


def _shown(task: TaskState) -> dict[str, Any]:
    failed = task.failed
    return {
        "task_id": task.id.task_id,
        "failed_at": "" if failed is None else failed.at,
        "error": {} if failed is None else dict(failed.body["error"]),
        "why": "" if failed is None else failed.body["why"],
        "dataset": None if task.pre is None else task.pre.body.get("dataset"),
        "compensation": compensation_of(task).value,
        "effects": [
            {"effect": each.name, "key": each.key, "state": each.state.value}
            for each in effects_of(task)
        ],
    }

"""What an approval to run a node again is bound to, where its error budget's zone asks for one.

It names the run and the node, and one task of it or any; the first task that uses it has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import InvalidInput
from tallgrass.governance.plan_lines import read_plan_line
from tallgrass.nodes.entries import TaskId

#: Of approvals.
PURPOSE: Final = "node-rerun"


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunPlan:
    """A node that somebody wants to run again, and how many approvers that takes."""

    run_id: str
    node_id: str
    #: None: whichever task of the node comes first.
    task_id: str | None = None
    dataset: str | None = None
    approvals_needed: int = 1

    def document(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        return {
            "purpose": PURPOSE,
            "approvals_needed": self.approvals_needed,
            "run_id": self.run_id,
            "node_id": self.node_id,
            "task_id": self.task_id,
            "dataset": self.dataset,
        }

    def line(self) -> bytes:
        """Return the bytes that an approval is bound to: one line of canonical JSON."""
        return canonical_bytes(self.document()) + b"\n"

    @property
    def sha256(self) -> str:
        """The hash of these bytes."""
        return sha256_hex(self.line())

    def allows(self, run_id: str, task: TaskId, dataset: str | None) -> bool:
        """Tell whether it names that task; the dataset must be the one that it shows, if any."""
        named = (self.run_id, self.node_id) == (run_id, task.node_id)
        return named and self.task_id in {None, task.task_id} and self.dataset in {None, dataset}


def rerun_plan_from(said: Mapping[str, Any]) -> RerunPlan | None:
    """Return the plan that a document says; None if it says none."""
    names = ("run_id", "node_id", "task_id", "dataset", "approvals_needed")
    if said.get("purpose") != PURPOSE or not all(name in said for name in names):
        return None
    return RerunPlan(**{name: said[name] for name in names})


def read_rerun_plan(data: bytes) -> tuple[RerunPlan, str] | None:
    """Return the plan that the bytes are, and their SHA-256; None for another kind of plan."""
    said = read_plan_line(data, PURPOSE)
    if said is None:
        return None
    plan = rerun_plan_from(said)
    if plan is None or plan.line() != data:
        raise InvalidInput("not as a plan to run a node again is written", code="plan_invalid")
    return plan, sha256_hex(data)

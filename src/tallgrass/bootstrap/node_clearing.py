"""Lets a node that failed for good run again, under an approval."""

from pathlib import Path

from tallgrass.bootstrap.nodes import open_node_runner
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.errors import GuardRefused, InvalidInput
from tallgrass.governance.actors import Actor
from tallgrass.governance.gate import Rule


def clear_failed(  # noqa: PLR0913 - what a clearing names
    config: Config,
    stores: Stores,
    root: Path,
    run_id: str,
    node_id: str,
    *,
    task_id: str | None,
    approval_id: str | None,
    by: Actor,
    wait_s: float,
) -> int:
    """Let a node that failed for good run again; the approval names exactly these failures."""
    if approval_id is None:
        message = "no failed node is cleared without one; `tallgrass nodes plan-clear` begins"
        refused = GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)
        subject = f"node:{run_id}/{node_id}"
        raise stores.actors.refuse(by.name, "node_clear", refused, subject=subject)
    with open_node_runner(config, pipeline="-", root=root, by=by, lock_timeout_s=wait_s) as runner:
        cleared = runner.clear(
            run_id=run_id, node_id=node_id, task_id=task_id, approval=approval_id
        )
    if not cleared:
        raise InvalidInput(f"{node_id} did not fail for good in run {run_id}")
    return cleared

"""``tallgrass nodes plan-clear|clear-failed|plan-rerun``: failed nodes run again by approval."""

from __future__ import annotations

from pathlib import Path

import click

from tallgrass.bootstrap.node_clearing import clear_failed as clear
from tallgrass.bootstrap.nodes import plan_clearing, plan_rerun
from tallgrass.cli.governed_options import approval_option
from tallgrass.cli.identity import proved
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.nodes_folder import folder_option, nodes_folder
from tallgrass.cli.tables import say, show_table
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_whole

#: How long a command waits for a run that is at work.
_WAIT_S = 5.0

_task_option = click.option(
    "--task", "task_id", metavar="TASK", help="Only this task of the node; else all that failed."
)
_file_option = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Where the plan is written.",
)


@click.command(
    name="plan-clear",
    epilog=examples(
        "tallgrass nodes plan-clear 2026-11-16 publish --file clear.json",
        "tallgrass approvals request --plan clear.json --reason INC-7",
    ),
)
@click.argument("run_id", metavar="RUN")
@click.argument("node_id", metavar="NODE")
@_task_option
@_file_option
@folder_option
@output_option
@pass_invocation
def plan_clear(
    invocation: Invocation,
    *,
    run_id: str,
    node_id: str,
    task_id: str | None,
    file: Path,
    folder: str | None,
    as_json: bool,
) -> None:
    """Write down which failures of a node are to be cleared, for an approval.

    It names each failure and shows what became of the node's effects: the approver decides on them
    too. What stands as done is kept, and all else may be made again.
    """
    root = nodes_folder(invocation, folder)
    plan = plan_clearing(invocation.config, root, run_id, node_id, task_id)
    with appearing_whole(file) as opened:
        opened.write(plan.line())
    if as_json:
        print_json({**plan.document(), "sha256": plan.sha256, "file": str(file)})
        return
    show_table(
        ("task", "failed", "because", "compensation", "effects"),
        [
            (
                task["task_id"],
                task["failed_at"],
                task["error"].get("message") or task["error"].get("type"),
                task["compensation"],
                len(task["effects"]),
            )
            for task in plan.tasks
        ],
        wide=("because",),
    )
    say(f"To ask: tallgrass approvals request --plan {file} --reason …", style="dim")


@click.command(
    name="plan-rerun",
    epilog=examples(
        "tallgrass nodes plan-rerun 2026-11-16 publish --dataset sites --file rerun.json",
        "tallgrass approvals request --plan rerun.json --reason INC-7",
    ),
)
@click.argument("run_id", metavar="RUN")
@click.argument("node_id", metavar="NODE")
@click.option("--task", "task_id", metavar="TASK", help="Only this task; else the first that asks.")
@click.option(
    "--dataset", metavar="ID", help="The node's dataset, whose policy says how many approve."
)
@_file_option
@output_option
@pass_invocation
def plan_rerun_command(
    invocation: Invocation,
    *,
    run_id: str,
    node_id: str,
    task_id: str | None,
    dataset: str | None,
    file: Path,
    as_json: bool,
) -> None:
    """Write down that a node is to run again on sovereign data, for an approval.

    It is needed where the pipeline's error budget is red or black. The runner is then given the
    approval's id with the call.
    """
    plan = plan_rerun(invocation.config, run_id, node_id, task_id, dataset)
    with appearing_whole(file) as opened:
        opened.write(plan.line())
    if as_json:
        print_json({**plan.document(), "sha256": plan.sha256, "file": str(file)})
        return
    say(f"To ask: tallgrass approvals request --plan {file} --reason …")


@click.command(
    name="clear-failed",
    epilog=examples("tallgrass nodes clear-failed 2026-11-16 publish --approval 3f0a5b1c-…"),
)
@click.argument("run_id", metavar="RUN")
@click.argument("node_id", metavar="NODE")
@_task_option
@approval_option("The approval; `tallgrass nodes plan-clear` writes the plan to ask for one.")
@folder_option
@output_option
@pass_invocation
def clear_failed(
    invocation: Invocation,
    *,
    run_id: str,
    node_id: str,
    task_id: str | None,
    approval_id: str | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Let a node that failed for good run again in its run.

    The approval must name exactly these failures, and is used up.
    """
    root = nodes_folder(invocation, folder)
    with invocation.stores(read_only=False) as stores:
        cleared = clear(
            invocation.config,
            stores,
            root,
            run_id,
            node_id,
            task_id=task_id,
            approval_id=approval_id,
            by=proved(stores, action="node_clear"),
            wait_s=_WAIT_S,
        )
    if as_json:
        print_json({"run_id": run_id, "node_id": node_id, "cleared": cleared})
        return
    say(f"Cleared {cleared} task{'s' * (cleared > 1)} of {node_id}: its run may go on.")

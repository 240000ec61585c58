"""``tallgrass nodes``: what reliable nodes wrote down, and what is made from it. No database."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import click

from tallgrass.bootstrap.node_reports import newest_runs, read_run
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.nodes_budget import budget
from tallgrass.cli.nodes_cache import cache
from tallgrass.cli.nodes_failed import clear_failed, plan_clear, plan_rerun_command
from tallgrass.cli.nodes_folder import folder_option, nodes_folder
from tallgrass.cli.nodes_view import show_rebuilt, show_run, show_runs, show_tasks
from tallgrass.cli.text import plain, print_json
from tallgrass.errors import InvalidInput, TallgrassError
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.lineage import FileLineage, LineageSink
from tallgrass.nodes.rebuild import Rebuilt, rebuild_run
from tallgrass.nodes.run_summary import RunStatus
from tallgrass.nodes.wal_store import WalStore

#: How long a command waits for a run that is at work.
_WAIT_S = 2.0


@click.group(
    name="nodes",
    epilog=examples(
        "tallgrass nodes runs --status failed",
        "tallgrass nodes show RUN NODE",
        "tallgrass nodes rebuild --all",
    ),
)
def command() -> None:
    """Nodes: runs, show, rebuild, budget, plan-clear, clear-failed, plan-rerun, cache."""


@command.command(
    epilog=examples(
        "tallgrass nodes runs --status failed", "tallgrass nodes runs --dir work --output json"
    )
)
@folder_option
@click.option(
    "--status",
    type=click.Choice([each.value for each in RunStatus]),
    help="Only runs that stand so.",
)
@page_options("Runs")
@output_option
@pass_invocation
def runs(
    invocation: Invocation,
    *,
    folder: str | None,
    status: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List runs, the newest first.

    `succeeded` says that every node which was begun has a result; `unfinished` that one is at work,
    waits for its next try, or was cut off.
    """
    root = nodes_folder(invocation, folder)
    wanted = None if status is None else RunStatus(status)
    found, next_cursor = newest_runs(root, wanted, limit, after=after)
    if as_json:
        print_json({"runs": plain(found), "next_cursor": next_cursor})
    else:
        show_runs(found, root, status=status, next_cursor=next_cursor)


@command.command(
    epilog=examples(
        "tallgrass nodes show 2026-11-16",
        "tallgrass nodes show 2026-11-16 smooth --task TASK --output json",
    )
)
@click.argument("run_id", metavar="RUN")
@click.argument("node_id", metavar="[NODE]", required=False)
@folder_option
@click.option("--task", metavar="TASK", help="Only this task of the node: of a loop or a fan-out.")
@output_option
@pass_invocation
def show(
    invocation: Invocation,
    *,
    run_id: str,
    node_id: str | None,
    folder: str | None,
    task: str | None,
    as_json: bool,
) -> None:
    """Show a run's nodes; with NODE its attempts, effects, compensations, lineage and result hash.

    Inputs and results themselves are not shown: they may be sensitive.
    """
    root = nodes_folder(invocation, folder)
    summary, chosen = read_run(root, run_id, node_id=node_id, task_id=task)
    if as_json:
        print_json({"run": plain(summary), "tasks": chosen})
    elif node_id is None:
        show_run(summary, chosen)
    else:
        show_tasks(chosen)


@command.command(
    epilog=examples("tallgrass nodes rebuild 2026-11-16", "tallgrass nodes rebuild --all")
)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--all", "all_runs", is_flag=True, help="Every run of the folder.")
@click.option(
    "--salvage",
    is_flag=True,
    help="Of a damaged journal keep what stands before the damage; the whole stays beside it.",
)
@click.option(
    "--outbox",
    is_flag=True,
    help="Also lineage that was handed to the outbox: what is missing there is recorded again.",
)
@folder_option
@output_option
@pass_invocation
def rebuild(
    invocation: Invocation,
    *,
    run_id: str | None,
    all_runs: bool,
    salvage: bool,
    outbox: bool,
    folder: str | None,
    as_json: bool,
) -> None:
    """Make files, cache and lineage again from a run's journal; say what was missing or wrong."""
    if (run_id is None) == (not all_runs):
        raise InvalidInput("name one RUN, or say --all")
    root = nodes_folder(invocation, folder)
    wal, cache = WalStore(root / "wal", lock_timeout_s=_WAIT_S), FolderCache(root / "cache")
    done: list[Rebuilt] = []
    problems: dict[str, TallgrassError] = {}
    with _lineage_sinks(invocation, root, outbox=outbox) as sinks:
        for each in wal.run_ids() if run_id is None else [run_id]:
            try:
                done.append(rebuild_run(wal, cache, each, salvage=salvage, lineage=sinks))
            except TallgrassError as error:
                if run_id is not None:
                    raise
                problems[each] = error
    wal.close()
    told = {each: {"code": error.code, "message": str(error)} for each, error in problems.items()}
    if as_json:
        print_json({"runs": plain(done), "problems": told})
    else:
        show_rebuilt(done, told)
    if problems:
        raise click.exceptions.Exit(1)


@contextmanager
def _lineage_sinks(
    invocation: Invocation, root: Path, *, outbox: bool
) -> Iterator[list[LineageSink]]:
    """Yield the places of lineage: files below the folder, and the outbox if it is asked for."""
    with ExitStack() as closes:
        sinks: list[LineageSink] = [FileLineage(root / "lineage")]
        if outbox:
            from tallgrass.bootstrap.node_lineage import (  # noqa: PLC0415 - loads the drivers
                open_node_lineage,
            )

            sinks.append(closes.enter_context(closing(open_node_lineage(invocation.config))))
        yield sinks


command.add_command(budget)
command.add_command(cache)
command.add_command(plan_clear)
command.add_command(clear_failed)
command.add_command(plan_rerun_command)

"""Reads the journals of reliable nodes, for the command line, the API and the pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tallgrass.errors import InvalidInput, NodeRunUnknown, TallgrassError, did_you_mean
from tallgrass.nodes.error_budget import ErrorBudgets, as_json_value
from tallgrass.nodes.run_summary import (
    RunStatus,
    RunSummary,
    sealed_document,
    summary_of,
    task_document,
)
from tallgrass.nodes.wal_store import WalStore


def newest_runs(
    root: Path,
    wanted: RunStatus | None,
    limit: int,
    *,
    after: str | None = None,
    among: int | None = None,
) -> tuple[list[RunSummary], str | None]:
    """Return a page of runs with the wanted status, newest first, and the run it ended with.

    That run is None on the last page. No more journals are read than it takes. With `among`, a page
    looks at so many of them at most: it may be short, even empty, and others follow all the same.
    """
    wal = WalStore(root / "wal")
    run_ids = wal.newest_run_ids()
    if after is not None:
        if after not in run_ids:
            raise NodeRunUnknown(f"there is no run {after!r} below {root}")
        run_ids = run_ids[run_ids.index(after) + 1 :]
    looked_at = run_ids[:among]
    found: list[RunSummary] = []
    for run_id in looked_at:
        summary = _summary(wal, run_id)
        if wanted not in {None, summary.status}:
            continue
        if len(found) == limit:
            return found, found[-1].run_id
        found.append(summary)
    return found, looked_at[-1] if len(looked_at) < len(run_ids) else None


def _summary(wal: WalStore, run_id: str) -> RunSummary:
    try:
        return summary_of(wal.read(run_id))
    except TallgrassError as error:
        return RunSummary(run_id=run_id, status=RunStatus.DAMAGED, problem=str(error))


def read_run(
    root: Path,
    run_id: str,
    *,
    node_id: str | None = None,
    task_id: str | None = None,
    sealed: bool = False,
) -> tuple[RunSummary, list[dict[str, Any]]]:
    """Return a run and its tasks, or those of a node; inputs and results are not told.

    `sealed`: nor is what sensitive ones could be found by; a task is then asked for as it is told.
    """
    if task_id is not None and node_id is None:
        raise InvalidInput("--task needs the NODE whose task it is")
    state = WalStore(root / "wal").read(run_id)
    document_of = sealed_document if sealed else task_document
    told = [
        document_of(each) for each in state.tasks.values() if node_id in {None, each.id.node_id}
    ]
    chosen = [each for each in told if task_id in {None, each["task_id"]}]
    if not chosen and node_id is not None:
        known = ", ".join(sorted({each.node_id for each in state.tasks})) or "none"
        raise InvalidInput(f"run {run_id} has no such node or task; its nodes: {known}")
    return summary_of(state), chosen


def read_budgets(
    budgets: ErrorBudgets, root: Path, pipeline: str | None = None
) -> Sequence[dict[str, Any]]:
    """Return the error budget of each pipeline, or of one."""
    known = budgets.log.pipelines()
    if pipeline is not None and pipeline not in known:
        hint = did_you_mean(pipeline, known)
        raise InvalidInput(f"pipeline {pipeline!r} has no outcomes below {root}{hint}")
    return [as_json_value(budgets.state(each)) for each in known if pipeline in {None, each}]

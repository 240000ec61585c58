"""Nodes: runs of reliable nodes, their error budgets and their cache."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from tallgrass.api.nodes import folder_of, read_runs, run_of
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.node_reports import read_budgets
from tallgrass.clock import parse_instant
from tallgrass.console.pages import next_page, page
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.error_budget import BudgetPolicy, ErrorBudgets
from tallgrass.nodes.run_summary import RunStatus

PLACE = "Nodes"
PATH = "/nodes"
_TEXT_MAX = 200

router = APIRouter()


@router.get(PATH)
def show_runs(
    request: Request,
    here: Here,
    signed: Viewer,
    status: Annotated[str, Query(max_length=_TEXT_MAX)] = "",
    cursor: Cursor = None,
) -> Response:
    """List runs, the newest first, and how much failure each pipeline has left."""
    root = folder_of(here)
    wanted = RunStatus(status) if status in set(RunStatus) else None
    found, following = read_runs(here, wanted, limit=LIMIT_DEFAULT, cursor=cursor)
    budgets = ErrorBudgets(root / "outcomes", policy=BudgetPolicy())
    return page(
        request,
        "nodes.html",
        signed=signed,
        place=PLACE,
        runs=found,
        following=next_page(PATH, {"status": wanted and wanted.value}, following),
        given=status,
        statuses=[each.value for each in RunStatus],
        budgets=read_budgets(budgets, root),
        cache=FolderCache(root / "cache").stats(),
        folder=str(root),
        time=_time,
        now=here.clock(),
    )


@router.get(PATH + "/{run_id}")
def show_run(
    request: Request,
    here: Here,
    signed: Viewer,
    run_id: Annotated[str, Path(max_length=_TEXT_MAX)],
) -> Response:
    """Show a run's tasks: attempts, effects, results by their hash. Values are not shown."""
    summary, tasks = run_of(here, signed, run_id)
    return page(
        request,
        "node_run.html",
        signed=signed,
        place=PLACE,
        run=summary,
        tasks=tasks,
        time=_time,
        now=here.clock(),
    )


def _time(text: str | None) -> datetime | None:
    """Return an instant of a journal."""
    return None if text is None else parse_instant(text)

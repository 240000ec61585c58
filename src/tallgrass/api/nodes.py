"""Runs of reliable nodes: journals, error budgets, the cache, and clearing failed nodes."""

from datetime import timedelta
from http import HTTPStatus
from pathlib import Path as Folder
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.filters import TEXT_MAX, Text
from tallgrass.api.paging import (
    LIMIT_DEFAULT,
    Cursor,
    Limit,
    decode_cursor,
    encode_cursor,
    next_link,
)
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Signed, Viewer, require_actor, writer
from tallgrass.bootstrap.node_clearing import clear_failed
from tallgrass.bootstrap.node_reports import newest_runs, read_budgets, read_run
from tallgrass.bootstrap.nodes import plan_clearing, plan_rerun
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.audit import AuditEntry
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.error_budget import BudgetPolicy, ErrorBudgets
from tallgrass.nodes.rebuild import forget_node
from tallgrass.nodes.run_summary import RunStatus, RunSummary
from tallgrass.views.text import plain

_KIND = "node_runs"
#: Journals that a request reads at most: one whose state is rare must not cost all of them.
_RUNS_MAX = 1000
#: How long a request waits for a run that is at work.
_WAIT_S = 5.0
_DEFAULT = BudgetPolicy()

router = APIRouter(prefix="/nodes", tags=["nodes"])

Id = Annotated[str, Path(max_length=TEXT_MAX)]
Task = Annotated[str | None, Query(max_length=TEXT_MAX, description="only this task")]
Name = Annotated[Words, Field(max_length=TEXT_MAX)]


@router.get(
    "/runs",
    responses=documented()
    | documents("A page of runs, the newest first.", runs=OBJECTS, next_cursor=NEXT_CURSOR),
    response_class=Response,
)
def list_runs(
    request: Request,
    here: Here,
    _signed: Viewer,
    status: RunStatus | None = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List runs; `unfinished`: at work, waiting, or cut off.

    A page looks at a thousand runs at most: where few have the status it may be short, even empty,
    and still have a `next_cursor`.
    """
    found, following = read_runs(here, status, limit=limit, cursor=cursor)
    document = {"runs": plain(found), "next_cursor": following}
    return answer(request, document, headers=next_link(request, following))


def read_runs(
    here: Service, status: RunStatus | None, *, limit: int, cursor: str | None
) -> tuple[list[RunSummary], str | None]:
    """Return a page of runs, and the cursor of the next."""
    after = decode_cursor(_KIND, cursor)
    found, place = newest_runs(folder_of(here), status, limit, after=after, among=_RUNS_MAX)
    return found, place and encode_cursor(_KIND, place)


@router.get(
    "/runs/{run_id}",
    responses=documented(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    | documents("A run and its tasks.", run={"type": "object"}, tasks=OBJECTS),
    response_class=Response,
)
def show_run(
    request: Request,
    here: Here,
    signed: Viewer,
    run_id: Id,
    node: Text = None,
    task: Task = None,
) -> Response:
    """Show a run's nodes; inputs and results themselves are not shown: they may be sensitive.

    Of sensitive tasks hashes and ids are for operators: without such a token hashes are null, and
    ids are sealed.
    """
    summary, tasks = run_of(here, signed, run_id, node_id=node, task_id=task)
    return answer(request, {"run": plain(summary), "tasks": tasks})


@router.get(
    "/budgets",
    responses=documented()
    | documents("Each pipeline's budget, and the zone it is in.", pipelines=OBJECTS),
    response_class=Response,
)
def budgets(
    request: Request,
    here: Here,
    _signed: Viewer,
    pipeline: Text = None,
    objective: Annotated[float, Query(gt=0, lt=1)] = _DEFAULT.objective,
    days: Annotated[int, Query(ge=1, le=366)] = _DEFAULT.window_days,
) -> Response:
    """Show how much failure the pipelines have left."""
    root = folder_of(here)
    policy = BudgetPolicy(objective=objective, window_days=days)
    found = read_budgets(ErrorBudgets(root / "outcomes", policy=policy), root, pipeline)
    return answer(request, {"pipelines": found})


@router.get(
    "/cache",
    responses=documented()
    | documents("What the cache holds.", entries={"type": "integer"}, bytes={"type": "integer"}),
    response_class=Response,
)
def cache(request: Request, here: Here, _signed: Viewer) -> Response:
    """Say how many results the cache holds, and how large they are."""
    return answer(request, plain(FolderCache(folder_of(here) / "cache").stats()))


class PruneBody(Body):
    """Which old results may go."""

    max_bytes: int | None = Field(default=None, ge=0, le=2**63 - 1)
    older_than_days: float | None = Field(default=None, ge=0, le=36_500)


class ClearCacheBody(Body):
    """Which results go: those of one node, or all."""

    node: Name | None = None
    everything: bool = False


_REMOVED = documented(HTTPStatus.UNSUPPORTED_MEDIA_TYPE) | documents(
    "How many went, and what is left.", removed={"type": "integer"}, entries={"type": "integer"}
)


@router.post("/cache/prune", responses=_REMOVED, response_class=Response)
def prune_cache(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "node_cache_prune"))],
    body: PruneBody,
) -> Response:
    """Remove old results: those that were used longest ago go first."""
    opened = FolderCache(folder_of(here) / "cache")
    days = body.older_than_days
    since = None if days is None else here.clock() - timedelta(days=days)
    _log(here, actor, "node_cache_prune", body.model_dump())
    removed = opened.prune(body.max_bytes, unused_since=since)
    return done({"removed": removed, **plain(opened.stats())})


@router.post("/cache/clear", responses=_REMOVED, response_class=Response)
def clear(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "node_cache_clear"))],
    body: ClearCacheBody,
) -> Response:
    """Remove all results, or those of one node. Runs keep what they recorded."""
    if (body.node is None) == (not body.everything):
        raise InvalidInput("name one node, or say everything")
    opened = FolderCache(folder_of(here) / "cache")
    _log(here, actor, "node_cache_clear", body.model_dump())
    removed = opened.clear() if body.node is None else forget_node(opened, body.node)
    return done({"removed": removed, **plain(opened.stats())})


_PLAN = documented(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT) | documents(
    "The plan, for an approval; it is kept here by its hash.", sha256={"type": "string"}
)


@router.get("/runs/{run_id}/nodes/{node_id}/clear-plan", responses=_PLAN, response_class=Response)
def clear_plan(
    request: Request, here: Here, signed: Viewer, run_id: Id, node_id: Id, task: Task = None
) -> Response:
    """Write down which failures of a node are to be cleared; tasks and effects stand in it exactly.

    So an operator's token is needed.
    """
    require_actor(request, signed, Role.OPERATOR, "node_clear_plan")
    plan = plan_clearing(here.config, folder_of(here), run_id, node_id, task)
    here.plans.keep([plan.line()])
    return answer(request, {**plan.document(), "sha256": plan.sha256})


@router.get("/runs/{run_id}/nodes/{node_id}/rerun-plan", responses=_PLAN, response_class=Response)
def rerun_plan(
    request: Request,
    here: Here,
    signed: Viewer,
    run_id: Id,
    node_id: Id,
    task: Task = None,
    dataset: Text = None,
) -> Response:
    """Write down that a node is to run again on sovereign data. An operator's token is needed."""
    require_actor(request, signed, Role.OPERATOR, "node_rerun_plan")
    plan = plan_rerun(here.config, run_id, node_id, task, dataset)
    here.plans.keep([plan.line()])
    return answer(request, {**plan.document(), "sha256": plan.sha256})


class ClearBody(Body):
    """The approval that names exactly these failures."""

    approval_id: Name | None = None
    task: Name | None = None


@router.post(
    "/runs/{run_id}/nodes/{node_id}/clear",
    responses=ACTING | documents("How many tasks may run again.", cleared={"type": "integer"}),
    response_class=Response,
)
def clear_node(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "node_clear"))],
    run_id: Id,
    node_id: Id,
    body: ClearBody,
) -> Response:
    """Let a node that failed for good run again in its run."""
    with here.writing.lent() as stores:
        cleared = clear_failed(
            here.config,
            stores,
            folder_of(here),
            run_id,
            node_id,
            task_id=body.task,
            approval_id=body.approval_id,
            by=actor,
            wait_s=_WAIT_S,
        )
    return done({"run_id": run_id, "node_id": node_id, "cleared": cleared})


def run_of(
    here: Service,
    signed: Signed,
    run_id: str,
    *,
    node_id: str | None = None,
    task_id: str | None = None,
) -> tuple[RunSummary, list[dict[str, Any]]]:
    """Read a run as somebody may see it."""
    sealed = not signed.role.includes(Role.OPERATOR)
    return read_run(folder_of(here), run_id, node_id=node_id, task_id=task_id, sealed=sealed)


def folder_of(here: Service) -> Folder:
    """Return the folder of the runner whose nodes are shown."""
    return Folder(here.config.text("nodes.folder"))


def _log(here: Service, actor: Actor, action: str, detail: dict[str, object]) -> None:
    entry = AuditEntry(
        actor=actor.name,
        action=action,
        subject="node-cache",
        reason="asked for by the API",
        detail=detail,
    )
    with here.writing.lent() as stores:
        stores.audit.append([entry])

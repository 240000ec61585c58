"""One replay run: how far it is, what came of each record, what it changed field by field."""

from typing import Any

from fastapi import APIRouter, Request, Response

from tallgrass.api.job_routes import stop
from tallgrass.api.jobs import JobState
from tallgrass.api.paging import decode_cursor, encode_cursor
from tallgrass.api.replay_starting import job_of, resuming, start_replay
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.replay_preparing import ReplayRequest
from tallgrass.bootstrap.replay_runs import find_run, page_of_changes, page_of_records, report_run
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import page
from tallgrass.console.replay import pacing_of
from tallgrass.errors import UnknownRecord
from tallgrass.governance.actors import Role
from tallgrass.governance.policy import ReplayMode
from tallgrass.replay.run import RunState
from tallgrass.views.records import require_cursor

_RECORDS = 50
_CHANGES = 10
_CURSOR_MAX = 500
_KIND = "run-records"

router = APIRouter()


@router.get("/replay/runs/{run_id}")
def show_run(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show a run, its records and its changes."""
    query = request.query_params
    places = {name: _place(query.get(name, "")[:_CURSOR_MAX]) for name in ("records", "changes")}
    with here.reading.lent() as stores:
        records, more_records = page_of_records(
            stores, find_run(stores, run_id).order.replay_run_id,
            after=places["records"], limit=_RECORDS,
        )  # fmt: skip
        changes, more_changes = page_of_changes(
            stores, run_id, after=places["changes"], limit=_CHANGES
        )
    return page(
        request,
        "replay_run.html",
        signed=signed,
        place="Replay",
        records=records,
        changes=changes,
        next_records=more_records and encode_cursor(_KIND, more_records),
        next_changes=more_changes and encode_cursor(_KIND, more_changes),
        begun=any(places.values()),
        done=query.get("done", "")[:200],
        may_act=signed.role.includes(Role.OPERATOR),
        **_progress(here, run_id),
    )


@router.get("/fragments/replay/runs/{run_id}")
def fragment(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show what of it is live."""
    may_act = signed.role.includes(Role.OPERATOR)
    return page(
        request, "replay_progress.html", signed=signed, may_act=may_act, **_progress(here, run_id)
    )


@router.post("/replay/runs/start")
def start(here: Here, sent: Sent) -> Response:
    """Run an approved plan that is kept here."""
    actor = sent.actor(Role.OPERATOR, "replay_run")
    request = ReplayRequest(
        plan_file=here.plans.path(sent.text("plan_sha256")), approval_id=sent.text("approval_id")
    )
    job = start_replay(here, actor, request, pacing_of(sent))
    return back_to(f"/replay/runs/{job.title.removeprefix('replay ')}", "The run has begun.")


@router.post("/replay/runs/{run_id}/resume")
def resume(here: Here, sent: Sent, run_id: str) -> Response:
    """Go on with a run that was stopped, cut off or held."""
    actor = sent.actor(Role.OPERATOR, "replay_run")
    with here.reading.lent() as stores:
        request = resuming(here, stores, run_id)
    start_replay(here, actor, request, pacing_of(sent))
    return back_to(f"/replay/runs/{run_id}", "It goes on.")


@router.post("/replay/runs/{run_id}/stop")
def stop_run(here: Here, sent: Sent, run_id: str) -> Response:
    """Ask a run to end after its batch."""
    actor = sent.actor(Role.OPERATOR, "job_stop")
    job = job_of(here, run_id)
    if job is None:
        raise UnknownRecord(f"no job of the run {run_id[:80]} is known here", code="job_unknown")
    stop(here, actor, job.job_id)
    return back_to(f"/replay/runs/{run_id}", "It ends after the batch that it has in hand.")


def _progress(here: Service, run_id: str) -> dict[str, Any]:
    with here.reading.lent() as stores:
        run = find_run(stores, run_id)
        report = report_run(stores, run)
        kept = here.plans.has(run.order.plan_sha256)
    here.figures.start()
    job = job_of(here, run_id)
    running = job is not None and job.state is JobState.RUNNING
    by_plan = kept or run.order.approval_id is None
    return {
        "run": run,
        "order": run.order,
        "report": report,
        "job": job,
        "running": running,
        "kept": kept,
        "resumable": not running
        and run.finished_at is None
        and report.state is not RunState.FINISHED
        and run.order.mode is not ReplayMode.DLQ
        and by_plan,
        "parts": {
            "done": report.done,
            "failed": report.failed,
            "skipped": report.skipped,
            "due": report.due,
        },
        "now": here.clock(),
    }


def _place(cursor: str) -> str | None:
    after = decode_cursor(_KIND, cursor or None)
    return None if after is None else require_cursor(after)

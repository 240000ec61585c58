"""One replay run: how far it is, what came of each record, what it changed field by field."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from tallgrass.api.job_routes import stop
from tallgrass.api.jobs import JobState
from tallgrass.api.paging import decode_cursor, encode_cursor
from tallgrass.api.replay_starting import job_of, resuming, start_replay
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Signed, Viewer
from tallgrass.bootstrap.replay_preparing import ReplayRequest
from tallgrass.bootstrap.replay_runs import find_run, page_of_changes, page_of_records, report_run
from tallgrass.bootstrap.stores import Stores
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import page
from tallgrass.console.replay import pacing_of
from tallgrass.errors import UnknownRecord
from tallgrass.governance.actors import Role
from tallgrass.governance.policy import ReplayMode
from tallgrass.replay.run import Run, RunState
from tallgrass.views.places import changes_as_told
from tallgrass.views.records import require_cursor

_RECORDS = 25
_CHANGES = 10
_CURSOR_MAX = 500
_KIND = "run-records"

router = APIRouter()


@router.get("/replay/runs/{run_id}")
def show_run(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show a run, its records and its changes."""
    values = _values(request, here, signed, run_id)
    done = request.query_params.get("done", "")[:200]
    return page(request, "replay_run.html", signed=signed, place="Replay", done=done, **values)


@router.get("/fragments/replay/runs/{run_id}")
def fragment(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show what of it is live."""
    values = _values(request, here, signed, run_id)
    return page(request, "replay_run_body.html", signed=signed, **values)


def _values(request: Request, here: Service, signed: Signed, run_id: str) -> dict[str, Any]:
    cursors = {
        name: cursor
        for name in ("records", "changes")
        if (cursor := request.query_params.get(name, "")[:_CURSOR_MAX])
    }
    places = {name: _place(cursor) for name, cursor in cursors.items()}
    with here.reading.lent() as stores:
        run = find_run(stores, run_id)
        records, more_records = page_of_records(
            stores, run_id, after=places.get("records"), limit=_RECORDS
        )
        changes, more_changes = page_of_changes(
            stores, run_id, after=places.get("changes"), limit=_CHANGES
        )
        progress = _progress(here, stores, run)
    return {
        **progress,
        "records": changes_as_told(here.policies, records),
        "changes": changes_as_told(here.policies, changes),
        "next_records": more_records and encode_cursor(_KIND, more_records),
        "next_changes": more_changes and encode_cursor(_KIND, more_changes),
        "query": urlencode(cursors),
        "begun": bool(cursors),
        "may_act": signed.role.includes(Role.OPERATOR),
    }


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


def _progress(here: Service, stores: Stores, run: Run) -> dict[str, Any]:
    """Return how far a run is, and whether it can be stopped or taken up again here."""
    order, report = run.order, report_run(stores, run)
    kept = here.plans.has(order.plan_sha256)
    here.figures.start()
    job = job_of(here, order.replay_run_id)
    running = job is not None and job.state is JobState.RUNNING
    at_end = run.finished_at is not None or report.state is RunState.FINISHED
    return {
        "run": run,
        "order": order,
        "report": report,
        "job": job,
        "running": running,
        "live": running or not at_end,
        "kept": kept,
        "resumable": not (running or at_end or order.mode is ReplayMode.DLQ)
        and (kept or order.approval_id is None),
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

"""Dead letters: what they died of, a plan, its drain and its end."""

import io
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.dead_letters import (
    DrainBody,
    PlanBody,
    begin_drain,
    close_drain,
    desk_of,
    drain_line,
    kept_plan,
    latest_drains,
    look,
    plan,
)
from tallgrass.api.job_routes import stop
from tallgrass.api.jobs import Job, JobKind, JobState
from tallgrass.api.references import read_references
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.approving import subject_of_plan
from tallgrass.bootstrap.queue_report import queue_kind
from tallgrass.bootstrap.stores import Stores
from tallgrass.console.form_bodies import body_of
from tallgrass.console.forms import Form, Sent, back_to
from tallgrass.console.pages import page
from tallgrass.errors import InvalidInput, QueueMissing, UnknownRecord
from tallgrass.governance.actors import Role
from tallgrass.governance.references import ReferenceKind
from tallgrass.replay.dead_letters import Cause, DrainAction
from tallgrass.replay.drain_report import Thresholds
from tallgrass.views.dead_letters import plan_document

PLACE = "Dead letters"
#: Letters that the page looks at; a plan looks at more.
LETTERS_MAX = 1000
_TEXT_MAX = 200
_NAMES_MAX = 50
_REFERENCES_MAX = 20

#: What becomes of a letter, in words.
_ACTIONS = {
    DrainAction.REPLAY.value: "Its failed units are due again, and it goes back to the queue.",
    DrainAction.SEND.value: "It goes back to the queue as it is.",
    DrainAction.SETTLE.value: "The ledger needs it no more: it is removed.",
    DrainAction.QUARANTINE.value: "Its unit is held for a person: it is removed.",
    DrainAction.POISON.value: "No unit can be made of it: it is kept as not understood.",
    DrainAction.RECOVER.value: "A lost worker holds its unit, which is freed first.",
    DrainAction.LEAVE.value: "It stays where it is.",
}

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]


@router.get("/dead-letters")
def show_letters(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    cause: Annotated[list[Cause], Query(max_length=len(Cause))] = [],  # noqa: B006 - FastAPI copies it
    dataset: Text = "",
    code: Text = "",
    since: Text = "",
    until: Text = "",
    looked: bool = False,
) -> Response:
    """Show what letters died of; on SQS only when asked to, as looking hides them for a moment."""
    given = {
        "cause": [each.value for each in cause],
        "dataset": dataset,
        "code": code,
        "since": since,
        "until": until,
    }
    body = _plan_body(given)
    looks = looked or queue_kind(here.config) == "embedded"
    found = _found(here, body) if looks else None
    with here.reading.lent() as stores:
        drains = [drain_line(run) for run in latest_drains(stores)]
    return page(
        request,
        "dead_letters.html",
        signed=signed,
        place=PLACE,
        part="/dead-letters",
        found=found,
        looks=looks,
        given=given,
        filtered=any(given.values()),
        causes=[each.value for each in Cause],
        drains=drains,
        job=_latest_job(here),
        letters_max=LETTERS_MAX,
        queue=here.config.text("queue.name"),
        may_act=signed.role.includes(Role.OPERATOR),
        now=here.clock(),
        done=_done(request),
        query=_query,
    )


@router.post("/dead-letters/plans")
def make_plan(here: Here, sent: Sent) -> Response:
    """Make a plan of the letters that the page showed, and lead to it."""
    sent.actor(Role.OPERATOR, "dlq_plan")
    given = {
        "cause": sent.all("cause"),
        **{name: sent.text(name, needed=False) for name in ("dataset", "code", "since", "until")},
    }
    most = sent.text("max_events", needed=False)
    body = _plan_body(given, max_events=_number(most) if most else None)
    return back_to(f"/dead-letters/plans/{plan(here, body).sha256}")


@router.get("/dead-letters/plans/{sha256}")
def show_plan(request: Request, here: Here, signed: Viewer, sha256: str) -> Response:
    """Show a plan: what would become of the letters, and on what grounds."""
    found = kept_plan(here, sha256)
    with here.reading.lent() as stores:
        references = _open_references(stores)
        known = stores.replay_runs.find(found.header.replay_run_id)
    return page(
        request,
        "drain_plan.html",
        signed=signed,
        place=PLACE,
        part="/dead-letters",
        plan=plan_document(found),
        header=found.header,
        actions=_ACTIONS,
        rows=found.rows[:_NAMES_MAX],
        taken=sum(row.action is not DrainAction.LEAVE for row in found.rows),
        references=references,
        run=known,
        may_act=signed.role.includes(Role.OPERATOR),
        done=_done(request),
    )


@router.post("/dead-letters/plans/{sha256}/approvals")
def ask_for_approval(here: Here, sent: Sent, sha256: str) -> Response:
    """Ask somebody else to approve a plan."""
    actor = sent.actor(Role.OPERATOR, "approval_request")
    with here.plans.path(sha256).open("rb") as lines, here.writing.lent() as stores:
        subject = subject_of_plan(io.BytesIO(lines.read()))
        approval = stores.approvals.request(subject, reason=sent.text("reason"), by=actor)
    return back_to(
        f"/dead-letters/plans/{sha256}",
        f"Approval {approval.approval_id} is asked for. Somebody else must give it.",
    )


@router.post("/dead-letters/plans/{sha256}/drain")
def drain(here: Here, sent: Sent, sha256: str) -> Response:
    """Begin a drain, and lead to what comes of it."""
    actor = sent.actor(Role.OPERATOR, "dlq_drain")
    body = body_of(
        DrainBody,
        plan_sha256=sha256,
        to_replay_queue=sent.checked("to_replay_queue"),
        **_grounds(sent),
    )
    job = begin_drain(here, actor, body)
    return back_to(f"/dead-letters/drains/{job.title}")


@router.get("/dead-letters/drains/{run_id}")
def show_drain(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show what a drain has come to; while it runs, the page renews itself."""
    job = _job_of(here, run_id)
    return page(
        request,
        "drain.html",
        signed=signed,
        place=PLACE,
        part="/dead-letters",
        run_id=run_id,
        may_act=signed.role.includes(Role.OPERATOR),
        done=_done(request),
        **_drain_values(here, run_id, job),
    )


@router.get("/fragments/drains/{run_id}")
def drain_figures(request: Request, here: Here, signed: Viewer, run_id: str) -> Response:
    """Show the part of the page that changes while a drain runs."""
    job = _job_of(here, run_id)
    values = _drain_values(here, run_id, job)
    return page(request, "drain_figures.html", signed=signed, run_id=run_id, **values)


@router.post("/dead-letters/drains/{run_id}/stop")
def stop_drain(here: Here, sent: Sent, run_id: str) -> Response:
    """End a drain after the letters that it has in hand; the same plan goes on later."""
    actor = sent.actor(Role.OPERATOR, "job_stop")
    job = _job_of(here, run_id)
    if job is None:
        raise UnknownRecord(f"no drain {run_id[:80]!r} runs here", code="job_unknown")
    stop(here, actor, job.job_id)
    return back_to(f"/dead-letters/drains/{run_id}", "It ends after the letters it has in hand.")


@router.post("/dead-letters/drains/{run_id}/close")
def close(here: Here, sent: Sent, run_id: str) -> Response:
    """End a drain."""
    actor = sent.actor(Role.OPERATOR, "dlq_close")
    closed = close_drain(here, actor, run_id)
    gone = " Its queue is removed." if closed["queue_removed"] else ""
    return back_to(f"/dead-letters/drains/{run_id}", f"The drain is closed.{gone}")


def _plan_body(given: dict[str, Any], *, max_events: int | None = None) -> PlanBody:
    return body_of(
        PlanBody,
        cause=given["cause"],
        dataset=[given["dataset"]] if given["dataset"] else [],
        code=[given["code"]] if given["code"] else [],
        since=given["since"] or None,
        until=given["until"] or None,
        max_events=max_events,
    )


def _found(here: Service, body: PlanBody) -> dict[str, Any] | None:
    """Return the letters; None where there is no queue."""
    try:
        return look(here, body.wanted(), letters_max=LETTERS_MAX)
    except QueueMissing:
        return None


def _grounds(sent: Form) -> dict[str, str | None]:
    names = ("change_ref", "incident_ref", "remediation", "approval_id")
    return {name: sent.text(name, needed=False) or None for name in names}


def _drain_values(here: Service, run_id: str, job: Job | None) -> dict[str, Any]:
    """Return the report, if the run is registered, and the job, if it is this server's."""
    with here.reading.lent() as stores:
        run = stores.replay_runs.find(run_id)
        desk = desk_of(here, stores)
        if run is None and job is not None:
            return {"run": None, "report": None, "job": job}
        report = desk.report(desk.find(run_id), Thresholds())
    return {"run": run, "report": report, "job": job}


def _latest_job(here: Service) -> Job | None:
    jobs = here.jobs.all(JobKind.DRAIN)
    return jobs[0] if jobs and jobs[0].state is JobState.RUNNING else None


def _job_of(here: Service, run_id: str) -> Job | None:
    return next((job for job in here.jobs.all(JobKind.DRAIN) if job.title == run_id), None)


def _open_references(stores: Stores) -> dict[str, list[str]]:
    """Return the changes and incidents that are open, to be chosen from."""
    return {
        kind.value: [
            each.ref
            for each in read_references(stores, kind, state="open", limit=_REFERENCES_MAX)[0]
        ]
        for kind in ReferenceKind
    }


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len("1000000"):
        raise InvalidInput(f"not a number of letters: {text[:20]!r}")
    return int(text)


def _query(**fields: str | None) -> str:
    """Return the address of the letters that are like one line of the list."""
    return f"/dead-letters?{urlencode({name: value for name, value in fields.items() if value})}"


def _done(request: Request) -> str:
    return request.query_params.get("done", "")[:300]

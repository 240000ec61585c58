"""Replay: the runs, a selection by a form, its plan with its guards, and what to do with it."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from tallgrass.api.approvals import read_approvals, request_for_plan
from tallgrass.api.jobs import JobKind, JobState
from tallgrass.api.replay_plans import dry_run, keep_made, require_prefix
from tallgrass.api.replay_starting import Pacing, start_replay
from tallgrass.api.replay_wish import ReplayWish
from tallgrass.api.replays import read_runs
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.plan_making import COMPARED_MAX, datasets_of_ledger
from tallgrass.bootstrap.replay_preparing import ReplayRequest
from tallgrass.console.forms import Form, Sent, back_to
from tallgrass.console.pages import page
from tallgrass.console.replay_forms import fields_of, reasons, wish_of
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import ApprovalState
from tallgrass.governance.gate import Rule
from tallgrass.ledger.vocabulary import Status

_RUNS = 20
#: Units of a plan that its page shows.
_ROWS = 25
_APPROVALS = 5
_CURSOR_MAX = 500
_PLACE = "Replay"
#: Fields of the form that are always seen.
_FIRST = frozenset(
    {"dataset", "since", "until", "wal_id", "error_code"}
    | {"include_succeeded", "reason", "incident", "change"}
)

router = APIRouter()


@router.get("/replay")
def show_runs(request: Request, here: Here, signed: Viewer) -> Response:
    """Show what runs, what waits for an approval, and what ran."""
    return page(
        request,
        "replay.html",
        signed=signed,
        place=_PLACE,
        done=request.query_params.get("done", "")[:200],
        **_runs(here, request.query_params.get("cursor", "")[:_CURSOR_MAX]),
    )


@router.get("/fragments/replay")
def fragment(request: Request, here: Here, signed: Viewer) -> Response:
    """Show what of it is live."""
    cursor = request.query_params.get("cursor", "")[:_CURSOR_MAX]
    return page(request, "replay_runs.html", signed=signed, **_runs(here, cursor))


def _runs(here: Service, cursor: str) -> dict[str, Any]:
    with here.reading.lent() as stores:
        runs, following = read_runs(stores, cursor=cursor or None, limit=_RUNS)
        waiting = [
            each
            for state in (ApprovalState.APPROVED, ApprovalState.REQUESTED)
            for each in read_approvals(stores, state=state, purpose="replay", limit=_APPROVALS)[0]
        ]
    here.figures.start()
    job = next(iter(here.jobs.all(JobKind.REPLAY)), None)
    return {
        "runs": runs,
        "following": following,
        "cursor": cursor,
        "waiting": waiting,
        "running": job if job is not None and job.state is JobState.RUNNING else None,
        "now": here.clock(),
    }


@router.get("/replay/new")
def show_form(request: Request, here: Here, signed: Viewer) -> Response:
    """Show the form of a selection, filled with what the address says."""
    wish = wish_of(request.query_params.multi_items())
    with here.reading.lent() as stores:
        known = datasets_of_ledger(stores)
    return page(
        request,
        "replay_form.html",
        signed=signed,
        place=_PLACE,
        wish=wish,
        datasets=sorted({*known, *wish.dataset}),
        statuses=[each.value for each in Status],
        reasons=reasons(here.config),
        more=bool(wish.model_fields_set - _FIRST),
    )


@router.get("/replay/plan")
def show_plan(request: Request, here: Here, signed: Viewer) -> Response:
    """Show the plan of a selection: nothing is changed by it."""
    wish = wish_of(request.query_params.multi_items())
    compare = "compare" in request.query_params
    require_prefix(request, signed, wish)
    made, preview = dry_run(here, wish, rows=_ROWS, compare=compare)
    named = wish.model_copy(update={"replay_run_id": made.replay_run_id})
    document, fields = made.document, fields_of(named)
    guards = document["guards"]
    return page(
        request,
        "replay_plan.html",
        signed=signed,
        place=_PLACE,
        plan=document,
        rows=made.rows,
        preview=preview,
        comparable=document["summary"]["by_status"].get("succeeded", 0)
        and document["summary"]["candidates"] <= COMPARED_MAX,
        fields=fields,
        query=urlencode([each for each in fields if each[0] != "replay_run_id"]),
        named_query=urlencode(fields),
        seen=f'"{made.sha256}"',
        refusing=[
            each
            for each in guards
            if each["refuses"] and each["guard"] != Rule.APPROVAL_MISSING.value
        ],
        needs_approval=any(each["guard"] == Rule.APPROVAL_MISSING.value for each in guards),
        may_act=signed.role.includes(Role.OPERATOR),
    )


@router.post("/replay/request")
def ask(here: Here, sent: Sent) -> Response:
    """Keep the plan that was looked at, and ask for its approval."""
    actor = sent.actor(Role.OPERATOR, "approval_request")
    reason = sent.text("asking")
    made = keep_made(here, actor, _wish(sent), seen=sent.text("seen"))
    with here.writing.lent() as stores:
        approval = request_for_plan(here, stores, actor, made.sha256, reason=reason)
    return back_to(
        f"/governance/approvals/{approval.approval_id}",
        "Asked for. Somebody else must approve it now.",
    )


@router.post("/replay/run")
def run(here: Here, sent: Sent) -> Response:
    """Run the plan that was looked at; one that needs an approval is refused."""
    actor = sent.actor(Role.OPERATOR, "replay_run")
    wish, pacing = _wish(sent), pacing_of(sent)
    made = keep_made(here, actor, wish, seen=sent.text("seen"))
    start_replay(here, actor, ReplayRequest(plan_file=here.plans.path(made.sha256)), pacing)
    return back_to(f"/replay/runs/{made.replay_run_id}", "The run has begun.")


def pacing_of(sent: Form) -> Pacing:
    """Return how a form wants a run carried out."""
    try:
        rate = float(sent.text("rate", needed=False) or 0)
        mismatches = int(sent.text("max_mismatches", needed=False) or 0)
    except ValueError:
        raise InvalidInput("rate and mismatches are numbers") from None
    if not 0 <= rate <= 1e6 or not 0 <= mismatches <= 10**6:  # noqa: PLR2004 - as the API
        raise InvalidInput("rate and mismatches are between 0 and 1,000,000")
    return Pacing(records_per_s=rate or None, mismatches_max=mismatches)


def _wish(sent: Form) -> ReplayWish:
    pairs = [(name, value) for name, values in sent.fields.items() for value in values]
    return wish_of(pairs)

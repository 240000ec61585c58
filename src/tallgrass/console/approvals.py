"""Approvals: requests that wait, what each is for, and decisions on them."""

from fastapi import APIRouter, Request, Response

from tallgrass.api.approvals import DecisionWish, approval_as_read, decide, read_approvals
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.approving import require_approval_id
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import next_page, page
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import ApprovalState, Verdict

_PATH = "/governance/approvals"
_PAGE = 25
_CURSOR_MAX = 500
#: Units of a release that are told one by one.
_UNITS_MAX = 100

router = APIRouter()


@router.get(_PATH)
def list_approvals(request: Request, here: Here, signed: Viewer) -> Response:
    """List approvals, newest first."""
    query = request.query_params
    state = _state(query.get("state", ""))
    with here.reading.lent() as stores:
        found, following = read_approvals(
            stores, state=state, cursor=query.get("cursor", "")[:_CURSOR_MAX] or None, limit=_PAGE
        )
    return page(
        request,
        "approvals.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        found=found,
        state=state,
        states=[each.value for each in ApprovalState],
        following=next_page(_PATH, {"state": state and state.value}, following),
        now=here.clock(),
    )


@router.get(f"{_PATH}/{{approval_id}}")
def show(request: Request, here: Here, signed: Viewer, approval_id: str) -> Response:
    """Show what an approval is for, where it stands, and what one can do now."""
    with here.reading.lent() as stores:
        seen, _ = approval_as_read(stores, approval_id)
        approval, state = stores.approvals.find(require_approval_id(approval_id))
    is_open = state in {ApprovalState.REQUESTED, ApprovalState.APPROVED}
    decided = any(each.actor == signed.name for each in approval.decisions)
    return page(
        request,
        "approval.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        approval=approval,
        state=state,
        summary=dict(approval.summary),
        units_max=_UNITS_MAX,
        seen=seen,
        is_own=signed.actor is not None and signed.name == approval.requested_by,
        may_decide=is_open
        and signed.role.includes(Role.APPROVER)
        and signed.name != approval.requested_by
        and not decided,
        has_decided=decided,
        may_act=signed.role.includes(Role.OPERATOR),
        kept=here.plans.has(approval.subject_sha256),
        now=here.clock(),
        done=request.query_params.get("done", "")[:200],
    )


@router.post(f"{_PATH}/{{approval_id}}")
def decide_on(here: Here, sent: Sent, approval_id: str) -> Response:
    """Approve or reject a request as the page showed it."""
    actor = sent.actor(Role.APPROVER, "approval_decide")
    try:
        verdict = Verdict(sent.text("verdict"))
    except ValueError:
        raise InvalidInput("a request is approved or rejected") from None
    wish = DecisionWish(verdict=verdict, note=sent.text("note", needed=False)[:1000])
    decided = decide(here, actor, approval_id, wish, seen=sent.text("seen", needed=False) or None)
    return back_to(f"{_PATH}/{decided['approval_id']}", f"It is {decided['state']} now.")


def _state(text: str) -> ApprovalState | None:
    try:
        return ApprovalState(text) if text else None
    except ValueError:
        raise InvalidInput(f"no approval stands at {text[:50]!r}") from None

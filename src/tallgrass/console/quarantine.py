"""Quarantine: units that are held for a person, and the approved way out."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.paging import LIMIT_DEFAULT
from tallgrass.api.quarantine import ask_for_release, held_filter, release_now
from tallgrass.api.records import Order, as_told, read_page
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.approving import page_of_approvals, require_approval_id
from tallgrass.bootstrap.stores import Stores
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import next_page, page
from tallgrass.error_codes import registry
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import RELEASE, Approval, ApprovalState

PLACE = "Dead letters"
PATH = "/quarantine"
_TEXT_MAX = 2100
_APPROVALS_MAX = 10
_NUMBER_DIGITS_MAX = 19

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]


@router.get(PATH)
def show(
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    dataset: Text = "",
    error_code: Text = "",
    cursor: Text = "",
) -> Response:
    """List the units that are held, and why each of them is."""
    wanted = held_filter([dataset] if dataset else [], error_code or None)
    with here.reading.lent() as stores:
        units, following = read_page(
            stores, wanted, order=Order.NEWEST, cursor=cursor or None, limit=LIMIT_DEFAULT
        )
        approved = _releases(stores, ApprovalState.APPROVED)
        asked = _releases(stores, ApprovalState.REQUESTED)
    given = {"dataset": dataset, "error_code": error_code}
    return page(
        request,
        "quarantine.html",
        signed=signed,
        place=PLACE,
        part=PATH,
        units=as_told(here, units),
        given=given,
        codes={each.code: each for each in registry().values()},
        following=next_page(PATH, given, following),
        begun=bool(cursor),
        approved=approved,
        asked=asked,
        may_act=signed.role.includes(Role.OPERATOR),
        now=here.clock(),
        done=request.query_params.get("done", "")[:300],
    )


@router.post(f"{PATH}/requests")
def ask(here: Here, sent: Sent) -> Response:
    """Ask for the approval of a release of the units that were ticked, as the page showed them."""
    actor = sent.actor(Role.OPERATOR, "approval_request")
    units = [_seen(each) for each in sent.all("unit")]
    if not units:
        raise InvalidInput("tick the units that are to be released")
    approval = ask_for_release(here, actor, units, sent.text("reason"))
    told = f"Approval {approval.approval_id} is asked for. Somebody else must give it."
    return back_to(PATH, told)


@router.post(f"{PATH}/releases")
def release(here: Here, sent: Sent) -> Response:
    """Release the units that an approval names."""
    actor = sent.actor(Role.OPERATOR, "release")
    approval_id = require_approval_id(sent.text("approval_id"))
    with here.reading.lent() as stores:
        approval, _ = stores.approvals.find(approval_id)
    released = release_now(here, actor, _units_of(approval), approval_id)
    number = len(_units_of(approval))
    told = f"{number:,} unit{'s' * (number != 1)} released; a running worker takes them."
    return back_to(PATH, told if released else "")


def _releases(stores: Stores, state: ApprovalState) -> list[tuple[Approval, list[str]]]:
    """Return releases that stand so, each with its units."""
    found, _ = page_of_approvals(stores, state=state, purpose=RELEASE, limit=_APPROVALS_MAX)
    return [(approval, _units_of(approval)) for approval, _ in found]


def _units_of(approval: Approval) -> list[str]:
    units = approval.summary.get("units", [])
    return [str(each[0]) for each in units] if isinstance(units, list) else []


def _seen(text: str) -> tuple[str, int]:
    """Return a unit and its version, as a ticked box names them."""
    wal_id, _, version = text.rpartition(":")
    if not version.isascii() or not version.isdigit() or len(version) > _NUMBER_DIGITS_MAX:
        raise InvalidInput(f"not a unit of the list: {text[:80]!r}")
    return wal_id, int(version)

"""The audit log: who did what, whether its chain holds, and the proof of the catalog."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from tallgrass.api.audit import (
    EntryOrder,
    VerifyWish,
    read_entries,
    sealed,
    start_check,
    start_verify,
)
from tallgrass.api.jobs import JobKind
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.plan_making import datasets_of_ledger
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import next_page, page
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.views.governance import entry_document

_PATH = "/governance/audit"
_PAGE = 25
_TEXT_MAX = 300
_CURSOR_MAX = 500
_FILTERS = ("actor", "action", "subject")

router = APIRouter()


@router.get(_PATH)
def show(request: Request, here: Here, signed: Viewer) -> Response:
    """Show the log, newest first, and what the last checks found."""
    query = request.query_params
    given = {name: query.get(name, "").strip()[:_TEXT_MAX] or None for name in _FILTERS}
    cursor = query.get("cursor", "")[:_CURSOR_MAX] or None
    with here.reading.lent() as stores:
        entries, following = read_entries(
            stores, given, order=EntryOrder.NEWEST, cursor=cursor, limit=_PAGE
        )
        datasets = datasets_of_ledger(stores)
    return page(
        request,
        "audit.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        entries=[(each, entry_document(each)["detail"]) for each in entries],
        given=given,
        begun=cursor is not None,
        following=next_page(_PATH, given, following),
        datasets=datasets,
        may_act=signed.role.includes(Role.OPERATOR),
        done=query.get("done", "")[:200],
        **_checks(here),
    )


@router.get("/fragments/checks")
def fragment(request: Request, here: Here, signed: Viewer) -> Response:
    """Show what of it is live: what the checks have come to."""
    return page(request, "checks.html", signed=signed, **_checks(here))


def _checks(here: Service) -> dict[str, Any]:
    here.figures.start()
    return {
        "check": next(iter(here.jobs.all(JobKind.AUDIT_CHECK)), None),
        "proof": next(iter(here.jobs.all(JobKind.VERIFY)), None),
        "now": here.clock(),
    }


@router.post(f"{_PATH}/check")
def check(here: Here, sent: Sent) -> Response:
    """Walk the chain in the background."""
    start_check(here, sent.actor(Role.VIEWER, "audit_check"))
    return back_to(_PATH, "The chain is being checked.")


@router.post(f"{_PATH}/seal")
def seal(here: Here, sent: Sent) -> Response:
    """Chain all entries and write the head down."""
    found = sealed(here, sent.actor(Role.OPERATOR, "audit_seal"))
    head = found["head"]
    told = "Nothing to seal." if head is None else f"Sealed up to {head.position:,}."
    return back_to(_PATH, told)


@router.post(f"{_PATH}/verify")
def verify(here: Here, sent: Sent) -> Response:
    """Make items again in the background, and compare."""
    actor = sent.actor(Role.OPERATOR, "verify")
    try:
        wish = VerifyWish.model_validate(
            {
                "dataset": sent.all("dataset"),
                "sample": sent.text("sample", needed=False) or None,
                "reread": sent.checked("reread"),
            }
        )
    except ValidationError as exc:
        raise InvalidInput(exc.errors()[0]["msg"]) from None
    start_verify(here, actor, wish)
    return back_to(_PATH, "The catalog is being verified.")

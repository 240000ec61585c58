"""Approvals: asked for by one, decided by another, used once."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field, model_validator

from tallgrass.api.answers import NEXT_CURSOR, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.etags import Seen, require_tag, tag_of_bytes
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import ACTING, CHANGING, documented
from tallgrass.api.replay_plans import keep_brought
from tallgrass.api.replay_wish import PlanText, Word
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.approving import (
    page_of_approvals,
    require_approval_id,
    subject_of_plan,
    subject_of_release,
)
from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import (
    RELEASE_UNITS_MAX,
    Approval,
    ApprovalState,
    Subject,
    Verdict,
)
from tallgrass.views.governance import approval_document
from tallgrass.views.text import json_bytes

_KIND = "approvals"
_ID_MAX = 80
_NOTE_MAX = 1000
_APPROVAL = {"type": "object"}

router = APIRouter(tags=["governance"])

ApprovalId = Annotated[str, Path(max_length=_ID_MAX)]


class ApprovalWish(Body):
    """What is asked for: exactly one of a plan and a release; and why."""

    plan_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="a plan that this server keeps"
    )
    plan: PlanText | None = Field(None, description="a plan as a command wrote it")
    release: Annotated[list[Word], Field(min_length=1, max_length=RELEASE_UNITS_MAX)] | None = (
        Field(None, description="quarantined units")
    )
    reason: Words

    @model_validator(mode="after")
    def _one(self) -> "ApprovalWish":
        if sum(each is not None for each in (self.plan_sha256, self.plan, self.release)) != 1:
            message = "say what for: plan_sha256, plan or release"
            raise ValueError(message)
        return self


class DecisionWish(Body):
    """The decision of an approver."""

    verdict: Verdict
    note: Annotated[str, Field(max_length=_NOTE_MAX)] = ""


@router.get(
    "/approvals",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "A page of approvals, newest first.",
        approvals={"type": "array", "items": _APPROVAL},
        next_cursor=NEXT_CURSOR,
    ),
    response_class=Response,
)
def list_approvals(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    state: ApprovalState | None = None,
    purpose: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List approvals; all filters hold together."""
    with here.reading.lent() as stores:
        found, following = read_approvals(
            stores, state=state, purpose=purpose, cursor=cursor, limit=limit
        )
    documents_ = [approval_document(*each) for each in found]
    document = {"approvals": documents_, "next_cursor": following}
    return answer(request, document, headers=link_to(request, following))


def read_approvals(
    stores: Stores,
    *,
    state: ApprovalState | None = None,
    purpose: str | None = None,
    cursor: str | None = None,
    limit: int,
) -> tuple[list[tuple[Approval, ApprovalState]], str | None]:
    """Return a page of approvals, and the cursor of the next."""
    after = decode_cursor(_KIND, cursor)
    if after is not None:
        after = require_approval_id(after)
    found, place = page_of_approvals(stores, state=state, purpose=purpose, after=after, limit=limit)
    return found, place and encode_cursor(_KIND, place)


@router.get(
    "/approvals/{approval_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("The approval; its ETag is what a decision must name.", approval=_APPROVAL),
    response_class=Response,
)
def show_approval(
    request: Request, here: Here, _signed: Viewer, approval_id: ApprovalId
) -> Response:
    """Tell what an approval is for, who decided, where it stands."""
    with here.reading.lent() as stores:
        return answer(request, approval_as_read(stores, approval_id)[1])


@router.post(
    "/approvals",
    status_code=HTTPStatus.CREATED,
    responses=ACTING
    | {
        201: {
            "description": "The request.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["approval"],
                        "properties": {"approval": _APPROVAL},
                    }
                }
            },
        }
    },
    response_class=Response,
)
def request_approval(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "approval_request"))],
    wish: ApprovalWish,
) -> Response:
    """Ask for an approval of a plan, or of a release from quarantine.

    It is bound to the bytes of the plan, or to the units as they are now, ends by itself and is
    used once.
    """
    with here.writing.lent() as stores:
        approval = stores.approvals.request(
            _subject(here, stores, actor, wish), reason=wish.reason, by=actor
        )
    where = {"Location": f"/api/v1/approvals/{approval.approval_id}"}
    document = {"approval": approval_document(approval, ApprovalState.REQUESTED)}
    return done(document, status=HTTPStatus.CREATED, headers=where)


@router.post(
    "/approvals/{approval_id}/decision",
    responses=CHANGING | documents("The approval as it stands now.", approval=_APPROVAL),
    response_class=Response,
)
def decide_approval(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.APPROVER, "approval_decide"))],
    approval_id: ApprovalId,
    wish: DecisionWish,
    if_match: Seen = None,
) -> Response:
    """Approve or reject somebody else's request; nobody decides on their own."""
    return done({"approval": decide(here, actor, approval_id, wish, seen=if_match)})


def decide(
    here: Service, actor: Actor, approval_id: str, wish: DecisionWish, *, seen: str | None
) -> dict[str, Any]:
    """Decide on a request as it was seen; return it as it stands then."""
    with here.writing.lent() as stores:
        tag, now = approval_as_read(stores, approval_id)
        require_tag(seen, tag, now)
        decided = stores.approvals.decide(
            require_approval_id(approval_id), wish.verdict, by=actor, note=wish.note
        )
    return approval_document(*decided)


def request_for_plan(
    here: Service, stores: Stores, actor: Actor, plan_sha256: str, *, reason: str
) -> Approval:
    """Ask for an approval of a kept plan."""
    subject = _subject_of_kept(here, plan_sha256)
    return stores.approvals.request(subject, reason=reason, by=actor)


def approval_as_read(stores: Stores, approval_id: str) -> tuple[str, dict[str, Any]]:
    """Return the tag of an approval as `show_approval` gives it, and what it is now."""
    found = stores.approvals.find(require_approval_id(approval_id))
    now = {"approval": approval_document(*found)}
    return tag_of_bytes(json_bytes(now)), now


def _subject(here: Service, stores: Stores, actor: Actor, wish: ApprovalWish) -> Subject:
    if wish.release is not None:
        return subject_of_release(stores, here.policies, wish.release)
    if wish.plan is not None:
        return keep_brought(here, actor, wish.plan.encode(errors="replace"))
    return _subject_of_kept(here, wish.plan_sha256 or "")


def _subject_of_kept(here: Service, plan_sha256: str) -> Subject:
    with here.plans.path(plan_sha256).open("rb") as lines:
        return subject_of_plan(lines)

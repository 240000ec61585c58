"""Messages that could not be understood: list, show, feed them again."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.filters import Text
from tallgrass.api.paging import (
    LIMIT_DEFAULT,
    Cursor,
    Limit,
    decode_number,
    encode_cursor,
    next_link,
)
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, require_exact, writer
from tallgrass.bootstrap.feeding import FeedReport, FeedRequest, feed_poison
from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import InvalidInput, Refused
from tallgrass.governance.actors import Actor, Role
from tallgrass.intake.poison import PoisonFilter, PoisonState, StoredPoison
from tallgrass.poison_feeding import select_named
from tallgrass.views.poison import body_document, poison_document, poison_filter

_KIND = "poison"
_NUMBER_MAX = 2**63 - 1
#: Messages that one request feeds; the command line feeds any number.
FED_MAX = 500

router = APIRouter(prefix="/poison", tags=["poison"])

Number = Annotated[int, Field(ge=1, le=_NUMBER_MAX)]


class FeedBody(Body):
    """Which messages, and why."""

    poison_ids: list[Number] = Field(min_length=1, max_length=FED_MAX)
    reason: Words | None = None
    force: bool = False
    dry_run: bool = False


@router.get(
    "",
    responses=documented()
    | documents(
        "Messages without their bodies, oldest first.",
        messages=OBJECTS,
        next_cursor=NEXT_CURSOR,
    ),
    response_class=Response,
)
def list_messages(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    queue: Text = None,
    code: Text = None,
    since: Text = None,
    state: PoisonState | None = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List poison messages; all filters hold together."""
    wanted = poison_filter(queue=queue, code=code, since=since, state=state)
    with here.reading.lent() as stores:
        found, following = read_messages(stores, wanted, cursor=cursor, limit=limit)
    document = {"messages": [poison_document(one) for one in found], "next_cursor": following}
    return answer(request, document, headers=next_link(request, following))


@router.get(
    "/{poison_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("One message, with its body if that is asked for.", poison_id={"type": "integer"}),
    response_class=Response,
)
def show_message(
    request: Request,
    here: Here,
    signed: Viewer,
    poison_id: Annotated[int, Path(ge=1, le=_NUMBER_MAX)],
    *,
    body: bool = False,
) -> Response:
    """Show one message; a body that is no text comes in base64.

    Bodies are as they came: where places of a dataset are masked, an operator's token is needed.
    """
    if body:
        require_exact(request, signed, "poison_show")
    with here.reading.lent() as stores:
        return answer(request, read_message(stores, poison_id, with_body=body))


@router.post(
    "/feed",
    responses=ACTING
    | documents(
        "What became of each message.",
        fed={"type": "integer"},
        left_out={"type": "object", "additionalProperties": {"type": "integer"}},
        messages=OBJECTS,
    ),
    response_class=Response,
)
def feed(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "poison_feed"))],
    body: FeedBody,
) -> Response:
    """Put messages into the queue again, once they are understood."""
    return done(feed_now(here, actor, body).document())


def read_messages(
    stores: Stores, wanted: PoisonFilter, *, cursor: str | None, limit: int
) -> tuple[list[StoredPoison], str | None]:
    """Return a page of messages, and the cursor of the next."""
    after = decode_number(_KIND, cursor)
    found = list(stores.poison.page(wanted, after=after, size=limit + 1))
    page = found[:limit]
    more = len(found) > limit
    return page, encode_cursor(_KIND, str(page[-1].poison_id)) if more else None


def read_message(stores: Stores, poison_id: int, *, with_body: bool) -> dict[str, Any]:
    """Return one message, with its body if that is wanted."""
    (message,) = select_named(stores.poison, [poison_id])
    if not with_body:
        return poison_document(message)
    body = stores.poison.bodies([poison_id])[poison_id]
    return {**poison_document(message), "body": body_document(message, body)}


def feed_now(here: Service, actor: Actor, body: FeedBody) -> FeedReport:
    """Feed named messages; where one of them is left out, that is an error, as in the command."""
    if not body.dry_run and body.reason is None:
        raise InvalidInput("reason: it is kept in the audit log")
    wanted = FeedRequest(poison_ids=body.poison_ids, reason=body.reason or "", force=body.force)
    report = FeedReport(dry_run=body.dry_run)
    with here.writing.lent() as stores:
        by = None if body.dry_run else actor
        for candidate in feed_poison(here.config, stores, wanted, by=by):
            report.add(candidate)
    if report.left_out and not body.dry_run:
        number = report.left_out.total()
        reasons = ", ".join(sorted(report.left_out))
        message = f"{number} of {number + report.fed} messages were not fed: {reasons}"
        raise Refused(message, code="poison_not_fed")
    return report

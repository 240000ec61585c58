"""Poison: messages that could not be understood, what they give now, and feeding them again."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from tallgrass.api.paging import LIMIT_DEFAULT
from tallgrass.api.poison import FeedBody, feed_now, read_message, read_messages
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, reads_exactly
from tallgrass.bootstrap.feeding import FeedRequest, feed_poison
from tallgrass.bootstrap.stores import Stores
from tallgrass.console.form_bodies import body_of
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import next_page, page
from tallgrass.error_codes import registry
from tallgrass.governance.actors import Role
from tallgrass.intake.poison import PoisonState
from tallgrass.views.places import telling_of, told
from tallgrass.views.poison import candidate_document, poison_filter

PLACE = "Dead letters"
PATH = "/poison"
_TEXT_MAX = 2100
_NUMBER_MAX = 2**63 - 1

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]
PoisonId = Annotated[int, Path(ge=1, le=_NUMBER_MAX)]


@router.get(PATH)
def show_list(
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    code: Text = "",
    since: Text = "",
    state: Text = "",
    cursor: Text = "",
) -> Response:
    """List messages, oldest first."""
    chosen = PoisonState(state) if state in set(PoisonState) else None
    wanted = poison_filter(code=code or None, since=since or None, state=chosen)
    with here.reading.lent() as stores:
        found, following = read_messages(stores, wanted, cursor=cursor or None, limit=LIMIT_DEFAULT)
        counts = stores.poison.counts()
    given = {"code": code, "since": since, "state": state}
    return page(
        request,
        "poison.html",
        signed=signed,
        place=PLACE,
        part=PATH,
        messages=found,
        given=given,
        states=[each.value for each in PoisonState],
        counts=counts,
        following=next_page(PATH, given, following),
        begun=bool(cursor),
        now=here.clock(),
        done=request.query_params.get("done", "")[:300],
    )


@router.get(PATH + "/{poison_id}")
def show_message(request: Request, here: Here, signed: Viewer, poison_id: PoisonId) -> Response:
    """Show one message, and what it would give if it came now."""
    with here.reading.lent() as stores:
        exact = reads_exactly(here, signed)
        message = {"body": None, **read_message(stores, poison_id, with_body=exact)}
        verdict = _now(here, stores, poison_id)
    return page(
        request,
        "poison_message.html",
        signed=signed,
        place=PLACE,
        part=PATH,
        message=message,
        verdict=verdict,
        about=registry().get(str(message["error_code"])),
        may_act=signed.role.includes(Role.OPERATOR),
        done=request.query_params.get("done", "")[:300],
    )


@router.post(PATH + "/{poison_id}/feed")
def feed(here: Here, sent: Sent, poison_id: PoisonId) -> Response:
    """Put a message into the queue again."""
    actor = sent.actor(Role.OPERATOR, "poison_feed")
    body = body_of(
        FeedBody,
        poison_ids=[poison_id],
        reason=sent.text("reason"),
        force=sent.checked("force"),
    )
    feed_now(here, actor, body)
    return back_to(f"{PATH}/{poison_id}", "The message is in the queue again.")


def _now(here: Service, stores: Stores, poison_id: int) -> dict[str, Any]:
    """Tell what a message gives with the datasets and settings of now."""
    request = FeedRequest(poison_ids=[poison_id])
    (candidate,) = feed_poison(here.config, stores, request, by=None)
    document: dict[str, Any] = candidate_document(candidate)
    for unit in (document["now"] or {}).get("units", ()):
        unit["object_uri"] = told(unit["object_uri"], telling_of(here.policies, unit["dataset"]))
    return document

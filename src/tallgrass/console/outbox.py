"""Outbox: events on their way out, by target."""

from typing import Annotated

import orjson
from fastapi import APIRouter, Path, Query, Request, Response

from tallgrass.api.outbox import RequeueBody, read_deliveries, requeue_now
from tallgrass.api.paging import LIMIT_DEFAULT
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.outbox_status import (
    delivery_filter,
    find_delivery,
    read_outbox_status,
    status_document,
)
from tallgrass.console.form_bodies import body_of
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import as_json, next_page, page
from tallgrass.error_codes import registry
from tallgrass.governance.actors import Role
from tallgrass.outbox.dispatch_rules import DeliveryState

PLACE = "Outbox"
PATH = "/outbox"
_TEXT_MAX = 2100

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]


@router.get(PATH)
def show_list(
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    target: Text = "",
    dataset: Text = "",
    code: Text = "",
    state: Text = "",
    cursor: Text = "",
) -> Response:
    """Show where the events of each target stand, and list them."""
    chosen = DeliveryState(state) if state in set(DeliveryState) else None
    wanted = delivery_filter(
        target=target or None, dataset=dataset or None, code=code or None, state=chosen
    )
    with here.reading.lent() as stores:
        # What was delivered is not counted: that takes longer the more there is.
        status = read_outbox_status(here.config, stores, now=here.clock(), with_dispatched=False)
        found, following = read_deliveries(
            stores, wanted, cursor=cursor or None, limit=LIMIT_DEFAULT
        )
    given = {"target": target, "dataset": dataset, "code": code, "state": state}
    return page(
        request,
        "outbox.html",
        signed=signed,
        place=PLACE,
        targets=status_document(status)["targets"],
        events=found,
        given=given,
        states=[each.value for each in DeliveryState],
        following=next_page(PATH, given, following),
        begun=bool(cursor),
        cut=following is not None and len(found) < LIMIT_DEFAULT,
        may_act=signed.role.includes(Role.OPERATOR),
        now=here.clock(),
        done=request.query_params.get("done", "")[:300],
    )


@router.get(PATH + "/{outbox_id}")
def show_event(
    request: Request,
    here: Here,
    signed: Viewer,
    outbox_id: Annotated[str, Path(max_length=_TEXT_MAX)],
) -> Response:
    """Show one event: its payload, how far it has come, and every attempt."""
    with here.reading.lent() as stores:
        whole = find_delivery(stores, outbox_id)
    return page(
        request,
        "outbox_event.html",
        signed=signed,
        place=PLACE,
        one=whole.delivery,
        event=whole.event,
        attempts=whole.attempts,
        payload=_readable(whole.event.payload),
        about=registry().get(whole.delivery.error_code or ""),
        may_act=signed.role.includes(Role.OPERATOR),
        now=here.clock(),
        done=request.query_params.get("done", "")[:300],
    )


@router.post(PATH + "/requeue")
def requeue(here: Here, sent: Sent) -> Response:
    """Send one exhausted event again, or all of a target."""
    actor = sent.actor(Role.OPERATOR, "outbox_requeue")
    outbox_id, target = sent.text("outbox_id", needed=False), sent.text("target", needed=False)
    body = body_of(
        RequeueBody,
        outbox_ids=[outbox_id] if outbox_id else [],
        target=None if outbox_id else target or None,
        reason=sent.text("reason"),
    )
    number = requeue_now(here, actor, body)
    told = f"{number:,} event{'s are' if number != 1 else ' is'} due again."
    return back_to(f"{PATH}/{outbox_id}" if outbox_id else PATH, told)


def _readable(payload: bytes) -> str:
    """Return a payload for people: JSON with its lines, anything else as it is."""
    try:
        return as_json(orjson.loads(payload))
    except orjson.JSONDecodeError:
        return payload.decode(errors="backslashreplace")

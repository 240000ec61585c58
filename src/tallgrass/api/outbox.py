"""Events on their way out: status, list, show, send again, and the log of all deliveries."""

from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.filters import TEXT_MAX, Text
from tallgrass.api.paging import (
    LIMIT_DEFAULT,
    Cursor,
    Limit,
    decode_cursor,
    encode_cursor,
    next_link,
)
from tallgrass.api.problems import ACTING, documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.api.streaming import LINES, lines_from_stores
from tallgrass.bootstrap.outbox_status import (
    RequeueRequest,
    delivery_document,
    delivery_filter,
    event_id,
    find_delivery,
    read_outbox_status,
    refuse_left_out,
    requeue,
    status_document,
    whole_document,
)
from tallgrass.bootstrap.retaining import delivery_ledger
from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.outbox.deliveries import DeliveryFilter, StoredDelivery
from tallgrass.outbox.dispatch_rules import DeliveryState
from tallgrass.views.outbox import ledger_entry
from tallgrass.views.text import json_line

_KIND = "outbox"
_IDS_MAX = 1000
#: Deliveries that one page looks through for what no index tells: 0.2 s where there is none.
LOOK_AT_MOST = 100_000

router = APIRouter(prefix="/outbox", tags=["outbox"])

Name = Annotated[Words, Field(max_length=TEXT_MAX)]


class RequeueBody(Body):
    """Which exhausted events: by their ids, or by target and code, or all of them."""

    outbox_ids: list[Name] = Field(default=[], max_length=_IDS_MAX)
    target: Name | None = None
    code: Name | None = None
    everything: bool = False
    reason: Words

    def wanted(self) -> RequeueRequest:
        """Return which are meant; none, or several ways at once, is refused."""
        by_filter = self.target is not None or self.code is not None
        if [bool(self.outbox_ids), by_filter, self.everything].count(True) != 1:
            raise InvalidInput("say which events: outbox_ids, or target and code, or everything")
        return RequeueRequest(outbox_ids=self.outbox_ids, target=self.target, code=self.code)


@router.get(
    "/status",
    responses=documented()
    | documents(
        "Counts by target, and what keeps events.",
        targets=OBJECTS,
    ),
    response_class=Response,
)
def status(request: Request, here: Here, _signed: Viewer) -> Response:
    """Count the events of each target by where they stand."""
    with here.reading.lent() as stores:
        found = read_outbox_status(here.config, stores, now=here.clock())
    return answer(request, status_document(found))


@router.get(
    "/events",
    responses=documented()
    | documents(
        "Events with how far each has come, by their ids.",
        events=OBJECTS,
        next_cursor=NEXT_CURSOR,
    ),
    response_class=Response,
)
def list_events(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    target: Text = None,
    dataset: Text = None,
    event: Text = None,
    code: Text = None,
    state: DeliveryState | None = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List events; all filters hold together.

    Filters without an index are looked for in a bounded number of events: a page may be short,
    even empty, and still have a `next_cursor`.
    """
    wanted = delivery_filter(
        target=target, dataset=dataset, event_name=event, code=code, state=state
    )
    with here.reading.lent() as stores:
        found, following = read_deliveries(stores, wanted, cursor=cursor, limit=limit)
    document = {"events": [delivery_document(one) for one in found], "next_cursor": following}
    return answer(request, document, headers=next_link(request, following))


@router.get(
    "/events/{outbox_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "One event: its payload, and every attempt.",
        outbox_id={"type": "string"},
        event={"type": "object"},
        attempts=OBJECTS,
    ),
    response_class=Response,
)
def show_event(
    request: Request,
    here: Here,
    _signed: Viewer,
    outbox_id: Annotated[str, Path(max_length=TEXT_MAX)],
) -> Response:
    """Show one event."""
    with here.reading.lent() as stores:
        return answer(request, whole_document(find_delivery(stores, outbox_id)))


@router.post(
    "/requeue",
    responses=ACTING | documents("How many are due again.", requeued={"type": "integer"}),
    response_class=Response,
)
def requeue_events(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "outbox_requeue"))],
    body: RequeueBody,
) -> Response:
    """Send exhausted events again, with all their attempts anew; others stay as they are."""
    return done({"requeued": requeue_now(here, actor, body)})


@router.get(
    "/ledger",
    responses=documented() | LINES,
    response_class=StreamingResponse,
)
def export_ledger(here: Here, _signed: Viewer) -> StreamingResponse:
    """Return every attempt of a delivery that ended, one JSON document a line."""

    def lines(stores: Stores) -> Iterator[bytes]:
        with closing(delivery_ledger(here.config, stores)) as entries:
            for entry in entries:
                yield json_line(ledger_entry(entry))

    return lines_from_stores(here, lines, "pipeline_outbox_ledger.jsonl")


def read_deliveries(
    stores: Stores, wanted: DeliveryFilter, *, cursor: str | None, limit: int
) -> tuple[list[StoredDelivery], str | None]:
    """Return a page of deliveries, and the cursor of the next."""
    place = decode_cursor(_KIND, cursor)
    after = None if place is None else event_id(place)
    page = stores.deliveries.page(wanted, after=after, size=limit, look_at_most=LOOK_AT_MOST)
    return page.deliveries, page.next_cursor and encode_cursor(_KIND, page.next_cursor)


def requeue_now(here: Service, actor: Actor, body: RequeueBody) -> int:
    """Send events again; return how many."""
    with here.writing.lent() as stores:
        requeued = requeue(stores, body.wanted(), by=actor, reason=body.reason)
    refuse_left_out(requeued)
    return len(requeued.requeued)

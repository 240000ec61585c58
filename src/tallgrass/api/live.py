"""Live figures as server-sent events: the document of `/status`, after each look."""

from collections.abc import AsyncIterator
from functools import partial

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from tallgrass.api.figures import Figures, Listener, Snapshot
from tallgrass.api.problems import documented, problem_of
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Signed, Viewer, has_session, is_current
from tallgrass.api.status import figures_document
from tallgrass.views.text import plain

#: A line that says nothing, so that what stands between does not close the connection.
HEARTBEAT_S = 15.0
_HEARTBEAT = b": nothing new\n\n"
#: How long a browser waits before it comes again.
_RETRY = b"retry: 3000\n\n"

router = APIRouter(tags=["status"])


@router.get(
    "/events",
    responses=documented()
    | {
        200: {
            "description": "Events `figures` (the document of /status), or `trouble` (a problem).",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
    response_class=Response,
)
async def events(request: Request, here: Here, signed: Viewer) -> StreamingResponse:
    """Send the figures whenever they are read, until the client goes or is signed out.

    Each event's id is the number of its look; a client that comes again with `Last-Event-ID` gets
    the newest look if it is another one.
    """
    here.figures.require_room()
    after = _number(request.headers.get("last-event-id"))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _stream(here, signed, after), media_type="text/event-stream", headers=headers
    )


async def _stream(here: Service, signed: Signed, after: int) -> AsyncIterator[bytes]:
    figures = here.figures
    yield _RETRY
    with figures.listening() as listener:
        after = _known(figures, after)
        while not figures.closed and has_session(here, signed):
            snapshot = await _next(listener, after)
            if not await _may_listen(here, signed, after if snapshot is None else snapshot.number):
                return
            if snapshot is None:
                yield _HEARTBEAT
                continue
            after = snapshot.number
            yield figures.events.get(snapshot.number, "figures", partial(event_of, snapshot))


async def _may_listen(here: Service, signed: Signed, number: int) -> bool:
    """Tell whether somebody may hear of a look; of an actor it is asked once, for all pages.

    It is asked when the look is there: who was revoked before it was taken hears nothing of it.
    """
    if signed.actor is None:
        return True
    ask = partial(is_current, here, signed.actor)
    return await run_in_threadpool(here.figures.admitted.get, number, signed.actor, ask)


async def _next(listener: Listener, after: int) -> Snapshot | None:
    return await listener.next(after, HEARTBEAT_S)


def _known(figures: Figures, after: int) -> int:
    """Return the look that a client has; a number from before a restart counts for nothing."""
    latest = figures.latest
    return after if latest is not None and after <= latest.number else 0


def event_of(snapshot: Snapshot) -> bytes:
    """Return a look as an event; JSON has no line breaks of its own."""
    if snapshot.overview is None:
        name = "trouble"
        document = {} if snapshot.error is None else problem_of(snapshot.error)
    else:
        name, document = "figures", figures_document(snapshot.overview)
    data = orjson.dumps(plain(document), default=str)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (snapshot.number, name.encode(), data)


def _number(text: str | None) -> int:
    known = text is not None and text.isascii() and text.isdigit() and len(text) <= 18  # noqa: PLR2004
    return int(text) if known and text is not None else 0

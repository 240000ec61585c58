"""The ledger as a whole: its counts, the life of one unit, and all of it as JSON Lines."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse

from tallgrass.api.answers import OBJECTS, answer, documents
from tallgrass.api.problems import documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer, require_exact
from tallgrass.api.streaming import LINES, lines_from_stores
from tallgrass.bootstrap.queue_report import queue_document, require_queue
from tallgrass.bootstrap.stores import export_ledger
from tallgrass.views.records import stats_document

_URI_MAX = 2100

router = APIRouter(tags=["ledger"])


@router.get(
    "/ledger/stats",
    responses=documented()
    | documents(
        "Records by dataset and status, what is due, and who works.",
        total={"type": "integer"},
        by_dataset={"type": "object"},
    ),
    response_class=Response,
)
def stats(request: Request, here: Here, _signed: Viewer) -> Response:
    """Count the records of the ledger."""
    with here.reading.lent() as stores:
        return answer(request, stats_document(stores.reader.stats()))


@router.get(
    "/ledger/history/{wal_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "One event a change of the unit's status.",
        wal_id={"type": "string"},
        events=OBJECTS,
    ),
    response_class=Response,
)
def history(
    request: Request, here: Here, _signed: Viewer, wal_id: Annotated[str, Path(max_length=_URI_MAX)]
) -> Response:
    """Tell the life of one unit."""
    with here.reading.lent() as stores:
        record = stores.reader.record(wal_id)
        events = stores.reader.history(record.wal_id)
    return answer(request, {"wal_id": record.wal_id, "events": events})


@router.get("/ledger/export", responses=documented() | LINES, response_class=StreamingResponse)
def export(request: Request, here: Here, signed: Viewer) -> StreamingResponse:
    """Return all records with their attempts, transitions and notes, as `wal import` reads them.

    They are as they are kept: where places of a dataset are masked, an operator's token is needed.
    """
    require_exact(request, signed, "wal_export")
    return lines_from_stores(here, export_ledger, "ledger.jsonl")


@router.get(
    "/queue",
    responses=documented()
    | documents(
        "What waits, what is in flight and what is dead.",
        name={"type": "string"},
        kind={"enum": ["embedded", "sqs"]},
        visible={"type": "integer"},
        in_flight={"type": "integer"},
        dead={"type": ["integer", "null"]},
    ),
    response_class=Response,
)
def queue(request: Request, here: Here, _signed: Viewer) -> Response:
    """Count what is in the queue; nothing is taken out of it."""
    found = require_queue(here.config)
    return answer(request, queue_document(here.config, found, here.clock()))

"""Records: found by filters, and the life of one unit."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.paging import LIMIT_DEFAULT
from tallgrass.api.records import Order, read_page, read_unit
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.console.forms import back_to
from tallgrass.console.pages import page
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.records import facets, record_filter

_TEXT_MAX = 2100
#: The operators whose verdicts an attempt carries, with the word for people.
OPERATORS = (
    ("integrity_status", "Integrity"),
    ("metadata_status", "Metadata"),
    ("stac_status", "STAC"),
    ("provenance_status", "Provenance"),
)

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]


@router.get("/records")
def list_records(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    dataset: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 - FastAPI copies it
    status: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
    since: Text = "",
    until: Text = "",
    error_code: Text = "",
    stale: bool = False,
    order: Order = Order.NEWEST,
    cursor: Text = "",
    find: Text = "",
) -> Response:
    """List records; an id or an object's address leads to its unit."""
    if find.strip():
        with here.reading.lent() as stores:
            return back_to(f"/records/{stores.reader.record(find.strip()).wal_id}")
    given: dict[str, Any] = {
        "datasets": [each for each in dataset if each],
        "statuses": [each for each in status if each],
        "since": since or None,
        "until": until or None,
        "error_code": error_code or None,
        "stale": stale,
    }
    wanted = record_filter(**given)
    with here.reading.lent() as stores:
        found, following = read_page(
            stores, wanted, order=order, cursor=cursor or None, limit=LIMIT_DEFAULT
        )
    return page(
        request,
        "records.html",
        signed=signed,
        place="Records",
        records=found,
        following=_next(request, following),
        begun=bool(cursor),
        order=order.value,
        facets=facets(here.figures.overview().stats, wanted),
        given=given,
        statuses=[each.value for each in Status],
    )


@router.get("/records/{wal_id}")
def show_unit(request: Request, here: Here, signed: Viewer, wal_id: str) -> Response:
    """Show the life of one unit."""
    with here.reading.lent() as stores:
        unit = read_unit(stores, wal_id)
    return page(
        request,
        "unit.html",
        signed=signed,
        place="Records",
        unit=unit,
        record=unit["record"],
        attempts=list(reversed(unit["attempts"])),
        operators=OPERATORS,
        document=_json_of(unit),
        done=request.query_params.get("done", "")[:200],
    )


def _next(request: Request, cursor: str | None) -> str:
    """Return the address of the next page: the same question, further on."""
    if cursor is None:
        return ""
    query = [(n, each) for n, each in request.query_params.multi_items() if n != "cursor" and each]
    return f"/records?{urlencode([*query, ('cursor', cursor)])}"


def _json_of(unit: dict[str, Any]) -> dict[str, Any]:
    """Return what the unit's JSON shows: the record as the ledger holds it."""
    return {"record": unit["record"], "lineage": unit["lineage"]}

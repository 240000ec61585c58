"""The ledger: its records by filters, and everything that is known of one unit."""

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response

from tallgrass.api.answers import answer, documents
from tallgrass.api.etags import tag_of_version
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.stores import Stores
from tallgrass.ledger.record import WalRecord
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.views.records import facets, record_filter, require_cursor, unit_document

_TEXT_MAX = 200
_URI_MAX = 2100
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}

router = APIRouter(tags=["records"])

Text = Annotated[str | None, Query(max_length=_TEXT_MAX)]
Names = Annotated[list[str], Query(max_length=50, description="repeatable")]


class Order(StrEnum):
    """By data time."""

    OLDEST = "oldest"
    NEWEST = "newest"

    @property
    def cursor_kind(self) -> str:
        """What a cursor of a list in this order is marked by."""
        return f"records-{self.value}"


@router.get(
    "/records",
    responses=documented()
    | documents(
        "A page of records by data time, and how many there are of each kind.",
        records={"type": "array", "items": {"type": "object"}},
        next_cursor={"type": ["string", "null"]},
        facets={"type": "object", "properties": {"status": _COUNTS, "dataset": _COUNTS}},
    ),
    response_class=Response,
)
def list_records(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    status: Names = [],  # noqa: B006
    since: Text = None,
    until: Text = None,
    error_code: Text = None,
    stale: bool = False,
    order: Order = Order.OLDEST,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List records; all filters hold together."""
    wanted = record_filter(
        datasets=dataset,
        statuses=status,
        since=since,
        until=until,
        error_code=error_code,
        stale=stale,
    )
    with here.reading.lent() as stores:
        records, following = read_page(stores, wanted, order=order, cursor=cursor, limit=limit)
    document = {
        "records": records,
        "next_cursor": following,
        "facets": facets(here.figures.overview().stats, wanted),
    }
    return answer(request, document, headers=link_to(request, following))


def read_page(
    stores: Stores, wanted: RecordFilter, *, order: Order, cursor: str | None, limit: int
) -> tuple[list[WalRecord], str | None]:
    """Return a page of records, and the cursor of the next."""
    after = decode_cursor(order.cursor_kind, cursor)
    if after is not None:
        require_cursor(after)
    page = stores.reader.page(wanted, after=after, size=limit, newest_first=order is Order.NEWEST)
    following = page.next_cursor and encode_cursor(order.cursor_kind, page.next_cursor)
    return page.records, following


@router.get(
    "/records/{wal_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "One unit: its ETag is the version that an action on it must name.",
        record={"type": "object"},
        attempts={"type": "array", "items": {"type": "object"}},
        history={"type": "array", "items": {"type": "object"}},
        events={"type": "array", "items": {"type": "object"}},
        item={"type": ["object", "null"]},
        provenance={"type": ["object", "null"]},
    ),
    response_class=Response,
)
def show_record(
    request: Request,
    here: Here,
    _signed: Viewer,
    wal_id: Annotated[str, Path(max_length=_URI_MAX, description="a wal_id")],
) -> Response:
    """Tell everything that is known of one unit."""
    with here.reading.lent() as stores:
        document = read_unit(stores, wal_id)
    return answer(request, document, tag=tag_of_version(document["record"].version))


def read_unit(stores: Stores, name: str) -> dict[str, Any]:
    """Read one unit by its wal_id or its object's URI."""
    record = stores.reader.record(name)
    attempts = stores.reader.attempts(record.wal_id)
    document = unit_document(record, attempts, stores.reader.annotations(record.wal_id))
    item = provenance = None
    if record.stac_item_id is not None and record.stac_collection_id is not None:
        item = stores.catalog.item(record.stac_collection_id, record.stac_item_id)
        provenance = stores.catalog.provenance(record.stac_collection_id, record.stac_item_id)
    return {
        **document,
        "attempts": [_told(each) for each in attempts],
        "history": stores.reader.history(record.wal_id),
        "events": stores.deliveries.of_unit(record.wal_id),
        "item": _parsed(item),
        "provenance": _parsed(provenance),
    }


def _told(attempt: Any) -> Mapping[str, object]:
    """Return an attempt with its evidence as the document that it is."""
    names = type(attempt).__dataclass_fields__
    return {name: getattr(attempt, name) for name in names} | {
        "evidence": _parsed(attempt.evidence)
    }


def _parsed(body: bytes | None) -> Any:
    return None if body is None else orjson.loads(body)

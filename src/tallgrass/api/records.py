"""The ledger: its records by filters, everything that is known of one unit, and notes on it."""

from collections.abc import Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.filters import Names, Text
from tallgrass.api.paging import LIMIT_DEFAULT, Cursor, Limit, decode_cursor, encode_cursor
from tallgrass.api.paging import next_link as link_to
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, require_beginning, writer
from tallgrass.bootstrap.governing import annotate_attempt
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.units import find_units, read_unit
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role
from tallgrass.ledger.record import WalRecord
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.views.places import record_as_told, telling_of
from tallgrass.views.records import facets, record_filter, require_cursor

_URI_MAX = 2100
#: Records that one page looks through for a code or an intent: 0.2 s where there is none.
LOOK_AT_MOST = 100_000
#: Newest failures that codes are counted among: 0.03 s.
CODES_AMONG = 20_000
_FOUND = "records-found"
_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}

router = APIRouter(tags=["records"])


class Order(StrEnum):
    """The order of records, by data time."""

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
        records=OBJECTS,
        next_cursor=NEXT_CURSOR,
        facets={
            "type": "object",
            "properties": {"status": _COUNTS, "dataset": _COUNTS, "error_code": _COUNTS},
        },
    ),
    response_class=Response,
)
def list_records(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    status: Names = [],  # noqa: B006
    since: Text = None,
    until: Text = None,
    error_code: Text = None,
    intent: Text = None,
    stale: bool = False,
    find: Annotated[
        str | None,
        Query(
            max_length=_URI_MAX,
            description="a wal_id, an object's URI or an item's id, or its beginning; stands alone",
        ),
    ] = None,
    order: Order = Order.OLDEST,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List records; all filters hold together.

    Codes and intents are looked for in a bounded number of records: a page may be short, even
    empty, and still have a `next_cursor`.
    """
    wanted = record_filter(
        datasets=dataset,
        statuses=status,
        since=since,
        until=until,
        error_code=error_code,
        intent=intent,
        stale=stale,
    )
    name = (find or "").strip()
    if name and wanted != record_filter():
        raise InvalidInput("find stands alone: leave the other filters out")
    with here.reading.lent() as stores:
        if name:
            records, following, exact = read_found(stores, name, cursor=cursor, limit=limit)
            if not exact:
                require_beginning(request, signed, name, "record_find")
        else:
            records, following = read_page(stores, wanted, order=order, cursor=cursor, limit=limit)
        codes = stores.reader.codes(wanted.datasets, look_at_most=CODES_AMONG)
    document = {
        "records": as_told(here, records),
        "next_cursor": following,
        "facets": {**facets(here.figures.recent().stats, wanted), "error_code": codes},
    }
    return answer(request, document, headers=link_to(request, following))


def read_page(
    stores: Stores, wanted: RecordFilter, *, order: Order, cursor: str | None, limit: int
) -> tuple[list[WalRecord], str | None]:
    """Return a page of records, and the cursor of the next."""
    after = decode_cursor(order.cursor_kind, cursor)
    if after is not None:
        require_cursor(after)
    page = stores.reader.page(
        wanted,
        after=after,
        size=limit,
        newest_first=order is Order.NEWEST,
        look_at_most=LOOK_AT_MOST,
    )
    following = page.next_cursor and encode_cursor(order.cursor_kind, page.next_cursor)
    return page.records, following


def read_found(
    stores: Stores, name: str, *, cursor: str | None, limit: int
) -> tuple[list[WalRecord], str | None, bool]:
    """Return a page of the units of a name, the next cursor, and whether it is all of a name."""
    after = decode_cursor(_FOUND, cursor)
    if after is not None:
        require_cursor(after)
    found = find_units(stores, name, after=after, size=limit)
    following = found.next_cursor and encode_cursor(_FOUND, found.next_cursor)
    return found.records, following, found.exact


def as_told(here: Service, records: Sequence[WalRecord]) -> list[WalRecord]:
    """Return records that tell no place more exactly than their policies allow."""
    tellings = {name: telling_of(here.policies, name) for name in {r.dataset for r in records}}
    return [record_as_told(record, tellings[record.dataset]) for record in records]


@router.get(
    "/records/{wal_id}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents(
        "One unit: an action on it must name the version of its record.",
        record={"type": "object"},
        attempts=OBJECTS,
        history=OBJECTS,
        events=OBJECTS,
        item={"type": ["object", "null"]},
        provenance={"type": ["object", "null"]},
        withheld={"type": ["string", "null"]},
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
        document = read_unit(stores, here.policies, wal_id)
    # Its notes and the deliveries of its events change without its version: no tag but its bytes.
    return answer(request, document)


class NoteBody(Body):
    """A note on an attempt."""

    attempt_no: int = Field(ge=1, le=2**31 - 1)
    note: Words


@router.post(
    "/records/{wal_id}/notes",
    responses=documented(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | documents(
        "The note, which stays.",
        wal_id={"type": "string"},
        attempt_no={"type": "integer"},
        actor={"type": "string"},
        note={"type": "string"},
    ),
    response_class=Response,
)
def annotate(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "annotate"))],
    body: NoteBody,
    wal_id: Annotated[str, Path(max_length=_URI_MAX, description="a wal_id")],
) -> Response:
    """Write a note to an attempt, for good; the attempt itself stays as it is."""
    with here.writing.lent() as stores:
        noted = annotate_attempt(stores, wal_id, body.attempt_no, note=body.note, by=actor)
    return done(noted)

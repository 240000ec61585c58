"""Records: found by a name or its beginning, or by filters."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.paging import LIMIT_DEFAULT
from tallgrass.api.records import CODES_AMONG, Order, as_told, read_found, read_page
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer, require_beginning
from tallgrass.console.forms import back_to
from tallgrass.console.pages import page
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.views.records import facets, record_filter

_TEXT_MAX = 2100
#: Codes that are offered.
_CODES_MAX = 12

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]
Names = Annotated[list[str], Query(max_length=50)]


@router.get("/records")
def list_records(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    status: Names = [],  # noqa: B006
    since: Text = "",
    until: Text = "",
    error_code: Text = "",
    intent: Text = "",
    stale: bool = False,
    order: Order = Order.NEWEST,
    cursor: Text = "",
    find: Text = "",
) -> Response:
    """List records; the whole name of a unit leads to its page."""
    given: dict[str, Any] = {
        "datasets": [each for each in dataset if each],
        "statuses": [each for each in status if each],
        "since": since or None,
        "until": until or None,
        "error_code": error_code or None,
        "intent": intent or None,
        "stale": stale,
    }
    name, after = find.strip(), cursor or None
    wanted = record_filter() if name else record_filter(**given)
    with here.reading.lent() as stores:
        if name:
            found, following, exact = read_found(stores, name, cursor=after, limit=LIMIT_DEFAULT)
            if exact and found:
                return back_to(f"/records/{found[0].wal_id}")
            require_beginning(request, signed, name, "record_find")
        else:
            found, following = read_page(
                stores, wanted, order=order, cursor=after, limit=LIMIT_DEFAULT
            )
        codes = stores.reader.codes(wanted.datasets, look_at_most=CODES_AMONG)
    return page(
        request,
        "records.html",
        signed=signed,
        place="Records",
        now=here.clock(),
        records=as_told(here, found),
        following=_address(request, following),
        first=_address(request, ""),
        begun=after is not None,
        cut=following is not None and len(found) < LIMIT_DEFAULT,
        order=order.value,
        facets=facets(here.figures.recent().stats, wanted),
        codes=dict(list(codes.items())[:_CODES_MAX]),
        given=given,
        find=name,
        filtered=any(given.values()),
        replay=_replay_of(given),
        statuses=[each.value for each in Status],
        intents=[each.value for each in Intent],
    )


def _replay_of(given: dict[str, Any]) -> str:
    """Return where a replay of failed units like these is built; nothing for other lists."""
    failed = given["statuses"] == [Status.FAILED.value] or given["error_code"] is not None
    if not failed or given["intent"] or given["stale"]:
        return ""
    query = [("dataset", name) for name in given["datasets"]]
    query += [(name, given[name]) for name in ("since", "until", "error_code") if given[name]]
    return f"/replay/new?{urlencode(query)}" if query else "/replay/new"


def _address(request: Request, cursor: str | None) -> str:
    """Return the same question from another place on; nothing where there is none."""
    if cursor is None:
        return ""
    query = [(n, each) for n, each in request.query_params.multi_items() if n != "cursor" and each]
    if cursor:
        query.append(("cursor", cursor))
    return f"/records?{urlencode(query)}" if query else "/records"

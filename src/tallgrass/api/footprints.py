"""Footprints: where the newest items lie, as GeoJSON."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.answers import NEXT_CURSOR, OBJECTS, answer
from tallgrass.api.filters import TEXT_MAX, Names, Text
from tallgrass.api.paging import next_link
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.footprints import FOOTPRINTS_MAX, Footprints, Wanted, read_footprints
from tallgrass.errors import InvalidInput
from tallgrass.stac import search
from tallgrass.stac.place import place_of_box
from tallgrass.views.times import time_or_date

_DEFAULT = 100
#: It names an item, whose id may be as long as an object's key.
CURSOR_MAX = 4000
_GEOJSON = "application/geo+json"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "features", "next_cursor", "withheld"],
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": OBJECTS,
        "next_cursor": NEXT_CURSOR,
        "withheld": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Footprints, newest first, as exact as each dataset's policy allows;"
        " `withheld` names datasets of which nothing may be told, and why.",
        "content": {_GEOJSON: {"schema": _SCHEMA}},
    },
    304: {"description": "Not Modified"},
}

router = APIRouter(tags=["catalog"])


@router.get("/footprints", responses=documented() | _ANSWERS, response_class=Response)
def list_footprints(
    request: Request,
    here: Here,
    _signed: Viewer,
    *,
    dataset: Names = [],  # noqa: B006 - FastAPI copies it
    since: Text = None,
    until: Text = None,
    bbox: Annotated[
        str | None, Query(max_length=TEXT_MAX, description="west,south,east,north in degrees")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=FOOTPRINTS_MAX)] = _DEFAULT,
    cursor: Annotated[
        str | None,
        Query(max_length=CURSOR_MAX, description="`next_cursor` of the page before"),
    ] = None,
) -> Response:
    """List where items lie; all filters hold together.

    A `bbox` is compared with places as they are told. Where a dataset's are told coarsely or not at
    all, a page may be short, even empty, and still have a `next_cursor`.
    """
    wanted = wanted_of(datasets=dataset, since=since, until=until, bbox=bbox)
    found, following = read_page(here, wanted, cursor=cursor, limit=limit)
    document = {
        "type": "FeatureCollection",
        "features": found.features,
        "next_cursor": following,
        "withheld": found.withheld,
    }
    made = answer(request, document, headers=next_link(request, following))
    if made.status_code == HTTPStatus.OK:
        made.headers["Content-Type"] = _GEOJSON
    return made


def wanted_of(
    *, datasets: list[str], since: str | None, until: str | None, bbox: str | None = None
) -> Wanted:
    """Read the conditions as people write them."""
    wanted = Wanted(
        datasets=list(dict.fromkeys(datasets)),
        since=time_or_date(since),
        until=time_or_date(until),
        place=None if bbox is None else place_of_box(_numbers(bbox)),
    )
    if wanted.since and wanted.until and wanted.since > wanted.until:
        raise InvalidInput("since must not be after until")
    return wanted


def read_page(
    here: Service, wanted: Wanted, *, cursor: str | None, limit: int
) -> tuple[Footprints, str | None]:
    """Return a page of footprints, and the cursor of the next."""
    order = search.DEFAULT_ORDER
    after = None if cursor is None else search.decode_cursor(cursor, order)
    with here.reading.lent() as stores:
        found = read_footprints(
            stores, here.catalogue, here.policies, wanted, after=after, size=limit
        )
    return found, None if found.last is None else search.encode_cursor(found.last, order)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"bbox: not numbers with commas between: {text[:80]!r}") from None

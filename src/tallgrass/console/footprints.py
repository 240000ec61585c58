"""The map of what was ingested: footprints by dataset and time, and the same as a list."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Query, Request, Response

from tallgrass.api.footprints import CURSOR_MAX, read_page, wanted_of
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer
from tallgrass.bootstrap.footprints import (
    FOOTPRINTS_MAX,
    Footprints,
    Wanted,
    read_newest_of_each,
)
from tallgrass.console.maps import WHOLE, Shape, view_of, world_map
from tallgrass.console.pages import instant, page
from tallgrass.views.places import around, box_of_item, in_words

_TEXT_MAX = 200
#: Footprints on a page.
_SIZES = (50, 100, 250, FOOTPRINTS_MAX)
_SIZE = 100
#: Colours of the style sheet; further datasets begin again.
_KINDS = 6

router = APIRouter()

Text = Annotated[str, Query(max_length=_TEXT_MAX)]


class Window(StrEnum):
    """How much of the world is shown."""

    WORLD = "world"
    FOUND = "found"


@router.get("/map")
def show_map(  # noqa: PLR0913 - one a filter
    request: Request,
    here: Here,
    signed: Viewer,
    *,
    dataset: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 - FastAPI copies it
    since: Text = "",
    until: Text = "",
    window: Window = Window.WORLD,
    limit: Annotated[int, Query(ge=1, le=FOOTPRINTS_MAX)] = _SIZE,
    cursor: Annotated[str, Query(max_length=CURSOR_MAX)] = "",
) -> Response:
    """Show where the newest items lie."""
    chosen = [each for each in dataset if each]
    wanted = wanted_of(datasets=chosen, since=since or None, until=until or None)
    counts = here.figures.recent().stats.by_dataset
    if chosen:
        found, following = read_page(here, wanted, cursor=cursor or None, limit=limit)
    else:
        found, following = _newest_of_each(here, wanted, sorted(counts), limit), None
    names = sorted({*counts, *chosen, *(_dataset(each) for each in found.features)})
    kinds = {name: f"kind-{number % _KINDS}" for number, name in enumerate(names)}
    boxes = [box for each in found.features if (box := box_of_item(each)) is not None]
    view = view_of(around(boxes)) if window is Window.FOUND else WHOLE
    groups = grouped(found.features)
    return page(
        request,
        "map.html",
        signed=signed,
        place="Map",
        picture=world_map(
            [_shape(group, kinds) for group in groups],
            view,
            name="Footprints",
            told=_told(found.features, len(groups)),
        ),
        features=[_row(each) for each in found.features],
        amount=f"{_many(len(found.features), 'item')} at {_many(len(groups), 'place')}",
        kinds=kinds,
        shown={name: _count(found.features, name) for name in names},
        known={name: counts.get(name, {}).get("succeeded", 0) for name in names},
        withheld=found.withheld,
        given={"datasets": chosen, "since": since, "until": until},
        window=window.value,
        limit=limit,
        sizes=sorted({*_SIZES, limit}),
        begun=bool(cursor),
        first=_address(request, None),
        following=following and _address(request, following),
    )


def _newest_of_each(
    here: Service, wanted: Wanted, datasets: Sequence[str], limit: int
) -> Footprints:
    known = [name for name in datasets if here.catalogue.dataset(name) is not None]
    with here.reading.lent() as stores:
        return read_newest_of_each(
            stores, here.catalogue, here.policies, wanted, datasets=known, size=limit
        )


def grouped(features: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return features that lie in the very same place together: they are drawn once.

    The largest come first, so that none covers another.
    """
    groups: dict[tuple[str, bytes], list[dict[str, Any]]] = {}
    for each in features:
        if each["geometry"] is not None:
            key = (_dataset(each), orjson.dumps(each["geometry"]))
            groups.setdefault(key, []).append(each)
    return sorted(groups.values(), key=lambda group: -_area(group[0]))


def _area(feature: dict[str, Any]) -> float:
    box = box_of_item(feature)
    if box is None:
        return 0.0
    west, south, east, north = box
    return ((east - west) % 360.0 or (360.0 if east > west else 0.0)) * (north - south)


def _shape(group: Sequence[dict[str, Any]], kinds: dict[str, str]) -> Shape:
    newest, name = group[0], _dataset(group[0])
    when = instant(newest["properties"]["datetime"])
    many = f"{len(group):,} items, the newest of {when}" if len(group) > 1 else when
    return Shape(geometry=newest["geometry"], kind=kinds[name], title=f"{name}: {many}")


def _row(feature: dict[str, Any]) -> dict[str, Any]:
    box = box_of_item(feature)
    return {
        **feature["properties"],
        "id": feature["id"],
        "where": "no place" if box is None else in_words(box),
    }


def _told(features: Sequence[dict[str, Any]], places: int) -> str:
    if not features:
        return "none"
    times = [each["properties"]["datetime"] for each in features]
    return (
        f"{_many(len(features), 'item')} at {_many(places, 'place')},"
        f" from {instant(min(times))} to {instant(max(times))}"
    )


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _dataset(feature: dict[str, Any]) -> str:
    name: str = feature["properties"]["dataset"]
    return name


def _count(features: Sequence[dict[str, Any]], name: str) -> int:
    return sum(_dataset(each) == name for each in features)


def _address(request: Request, cursor: str | None) -> str:
    """Return the same question from another place on."""
    query = [(n, each) for n, each in request.query_params.multi_items() if n != "cursor" and each]
    if cursor is not None:
        query.append(("cursor", cursor))
    return f"/map?{urlencode(query)}" if query else "/map"

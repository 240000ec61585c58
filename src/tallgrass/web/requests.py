"""Requests as searches: what the API is asked, checked whole before anything is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ConfigDict, field_validator, model_validator
from stac_fastapi.types.search import BaseSearchPostRequest

from tallgrass.errors import InvalidInput
from tallgrass.stac.place import Place, place_of_box, place_of_geometry
from tallgrass.stac.search import ItemSearch, Key, decode_cursor, order_of, time_range_of
from tallgrass.web.fields import Fields, fields_of, fields_of_text

LIMIT_DEFAULT = 10
LIMIT_MAX = 10_000
_NAMES_MAX = 1000
_TEXT_MAX = 1024

#: What may be asked of items, in a query and in a body.
ITEM_PARAMETERS = frozenset({"bbox", "datetime", "fields", "limit", "sortby", "token"})
SEARCH_PARAMETERS = ITEM_PARAMETERS | {"collections", "ids", "intersects"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A checked request for items."""

    search: ItemSearch
    limit: int
    after: Key | None
    fields: Fields | None


class PostSearch(BaseSearchPostRequest):
    """The body of a search; what it does not know is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _an_object(cls, value: object) -> object:
        """Refuse what is no object, before the library takes it for one."""
        if not isinstance(value, dict):
            message = "must be a JSON object, sent as application/json"
            raise ValueError(message)  # noqa: TRY004 - what pydantic turns into a 400
        return value

    @field_validator("collections", mode="before")
    @classmethod
    def _one_alone(cls, value: object) -> object:
        """Let one collection stand without a list, as some clients send it."""
        return [value] if isinstance(value, str) else value


def require_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse parameters that the API does not have (OGC API Features, query-param-unknown)."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        few = ", ".join(repr(name[:50]) for name in unknown[:5])
        raise InvalidInput(f"unknown parameters: {few}; known are {', '.join(sorted(known))}")


def from_query(given: Mapping[str, Any], query: Mapping[str, str]) -> SearchRequest:
    """Read the parameters of a GET; `given` are those that the library has taken apart."""
    text = query.get("fields")
    sortby = [
        (name.strip().lstrip("+-"), name.startswith("-")) for name in given.get("sortby") or ()
    ]
    return _request(
        given,
        intersects=_json(given.get("intersects")),
        sortby=sortby,
        fields=None if text is None else fields_of_text(text),
    )


def from_body(body: Any) -> SearchRequest:
    """Read the body of a POST."""
    given = {name: getattr(body, name, None) for name in SEARCH_PARAMETERS}
    intersects = body.intersects
    return _request(
        given,
        intersects=None if intersects is None else intersects.model_dump(exclude_none=True),
        sortby=[(each.field, each.direction == "desc") for each in body.sortby or ()],
        fields=_fields(body),
    )


def _fields(body: Any) -> Fields | None:
    if "fields" not in body.model_fields_set:
        return None
    if body.fields is None:
        raise InvalidInput("fields: an object, not null")
    include = (body.fields.include or ()) if "include" in body.fields.model_fields_set else None
    return fields_of(include, body.fields.exclude or ())


def _request(
    given: Mapping[str, Any],
    *,
    intersects: Mapping[str, Any] | None,
    sortby: list[tuple[str, bool]],
    fields: Fields | None,
) -> SearchRequest:
    since, until = time_range_of(given["datetime"]) if given.get("datetime") else (None, None)
    search = ItemSearch(
        collections=_names("collections", given.get("collections")),
        ids=_names("ids", given.get("ids")),
        place=_place(given.get("bbox"), intersects),
        since=since,
        until=until,
        order=order_of(sortby),
    )
    token = given.get("token")
    limit = given.get("limit")
    return SearchRequest(
        search=search,
        limit=LIMIT_DEFAULT if limit is None else min(limit, LIMIT_MAX),
        after=None if token is None else decode_cursor(token, search.order),
        fields=fields,
    )


def _names(what: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the ids of a list; an empty list is no condition, as none at all."""
    found = tuple(dict.fromkeys(names or ()))
    if len(found) > _NAMES_MAX:
        raise InvalidInput(f"{what}: at most {_NAMES_MAX:,}, not {len(found):,}")
    for name in found:
        require_text(what, name)
    return found or None


def require_text(what: str, text: str) -> None:
    """Refuse what no database could look for."""
    if len(text) > _TEXT_MAX or "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInput(f"{what}: not an id: {text[:50]!r}")


def _place(bbox: Any, intersects: Mapping[str, Any] | None) -> Place | None:
    if bbox is not None and intersects is not None:
        raise InvalidInput("bbox and intersects exclude each other")
    if bbox is not None:
        return place_of_box(tuple(bbox))
    return None if intersects is None else place_of_geometry(intersects)


def _json(text: str | None) -> Mapping[str, Any] | None:
    if not text:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise InvalidInput(f"intersects: not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise InvalidInput("intersects: not a GeoJSON geometry")
    return value

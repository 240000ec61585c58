"""What all pages share: templates, filters for values, the navigation, and rendering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import orjson
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

import tallgrass
from tallgrass.console import charts
from tallgrass.views.text import duration, plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from fastapi import Request

    from tallgrass.api.sign_in import Signed


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation."""

    name: str
    path: str


#: The navigation, in reading order. A page names its place by `name`.
PLACES: Final = (
    Place("Overview", "/"),
    Place("Records", "/records"),
    Place("Map", "/map"),
    Place("Replay", "/replay"),
    Place("Dead letters", "/dead-letters"),
    Place("Governance", "/governance"),
    Place("Outbox", "/outbox"),
    Place("Nodes", "/nodes"),
)


def page(
    request: Request,
    template: str,
    *,
    signed: Signed | None,
    place: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """Render a template; every value in it is escaped."""
    session = None if signed is None else signed.session
    text = (
        templates()
        .get_template(template)
        .render(
            signed=signed,
            csrf="" if session is None else session.csrf,
            place=place,
            places=PLACES,
            path=request.url.path,
            **values,
        )
    )
    return HTMLResponse(text, status_code=status, headers=headers)


@cache
def templates() -> Environment:
    """Return the templates: all text is escaped, and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("tallgrass.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": ago,
        "count": count,
        "duration": span,
        "instant": instant,
        "json": as_json,
    }
    environment.globals |= {
        "asset": asset,
        "charts": charts,
        "version": tallgrass.__version__,
    }
    return environment


def next_page(path: str, given: Mapping[str, str | None], cursor: str | None) -> str:
    """Return the address of a list's next page, with the same filters; empty if there is none."""
    kept = {name: text for name, text in given.items() if text}
    return f"{path}?{urlencode({**kept, 'cursor': cursor})}" if cursor else ""


def count(number: float | None) -> str:
    """Return a number as people read it."""
    return "–" if number is None else f"{number:,}"


def instant(when: datetime | None) -> str:
    """Return an instant for people: to the second, in UTC."""
    return "–" if when is None else f"{when:%Y-%m-%d %H:%M:%S} UTC"


def ago(when: datetime, now: datetime) -> str:
    """Return how long ago something was, or when it will be."""
    seconds = (now - when).total_seconds()
    if round(seconds) == 0:
        return "just now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def span(seconds: float | None) -> str:
    """Return a time span as people say it."""
    return "–" if seconds is None else duration(seconds)


def as_json(value: object) -> str:
    """Return a document to be read, indented; the template escapes it."""
    return orjson.dumps(plain(value), option=orjson.OPT_INDENT_2, default=str).decode()


@cache
def asset(name: str) -> str:
    """Return the address of a static file, which changes when the file does."""
    content = files("tallgrass.console").joinpath("static", name).read_bytes()
    return f"/static/{name}?v={sha256(content).hexdigest()[:12]}"

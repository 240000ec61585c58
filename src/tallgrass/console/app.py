"""The console: pages beside the API, in one application."""

from collections.abc import Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, FastAPI, Response

from tallgrass.api.app import create_app
from tallgrass.api.problems import RequestRefused
from tallgrass.api.service import Service
from tallgrass.console import (
    actors,
    approvals,
    audit,
    dead_letters,
    error_pages,
    footprints,
    governance,
    nodes,
    outbox,
    overview,
    poison,
    quarantine,
    records,
    references,
    replay,
    replay_runs,
    sign_in,
    units,
)

#: Every page, in the order of the navigation.
ROUTERS: Sequence[APIRouter] = (
    sign_in.router,
    overview.router,
    records.router,
    units.router,
    footprints.router,
    replay.router,
    replay_runs.router,
    dead_letters.router,
    quarantine.router,
    poison.router,
    governance.router,
    approvals.router,
    references.router,
    actors.router,
    audit.router,
    outbox.router,
    nodes.router,
)
_STATIC: Final = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
#: Their addresses change with their content.
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def create_console(service: Service) -> FastAPI:
    """Return the console of a server; whoever made the server closes it."""
    app = create_app(service)
    for router in ROUTERS:
        app.include_router(router, include_in_schema=False)
    app.add_api_route("/static/{name}", _static, methods=["GET"], include_in_schema=False)
    app.state.error_page = error_pages.error_page
    return app


def _static(name: str) -> Response:
    """Answer with a file of the console; anybody may have it."""
    if name not in _STATIC:
        raise RequestRefused(
            f"no file {name[:80]!r}", status=HTTPStatus.NOT_FOUND, code="no_such_page"
        )
    body = files("tallgrass.console").joinpath("static", name).read_bytes()
    return Response(body, media_type=_STATIC[name], headers={"Cache-Control": _FOR_A_YEAR})

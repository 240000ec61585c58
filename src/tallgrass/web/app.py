"""The application: routes of stac-fastapi over a catalog, and one form for all errors."""

import logging
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, cast

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from stac_fastapi.api.app import StacApi
from stac_fastapi.api.models import (
    ItemCollectionUri,
    create_get_request_model,
    create_post_request_model,
    create_request_model,
)
from stac_fastapi.extensions import FieldsExtension, SortExtension, TokenPaginationExtension
from stac_fastapi.types.config import ApiSettings
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tallgrass import __version__
from tallgrass.errors import InvalidInput, TallgrassError, TransientError, UnknownRecord
from tallgrass.stac.extensions import STAC_VERSION
from tallgrass.web.bodies import bounded
from tallgrass.web.catalog import Catalog
from tallgrass.web.client import CatalogClient
from tallgrass.web.heads import Heads
from tallgrass.web.requests import PostSearch

if TYPE_CHECKING:
    from stac_fastapi.types.search import APIRequest

TITLE = "Tallgrass"
DESCRIPTION = "NOAA open data as a STAC catalog, each item with its provenance."
LANDING_ID = "tallgrass"

_LOG = logging.getLogger("tallgrass.web")
_BAD_REQUEST = 400
_NOT_FOUND = 404
_INTERNAL = 500
_UNAVAILABLE = 503
_BODY_BYTES_MAX = 1_000_000
_PROBLEMS_MAX = 5
#: What stac-fastapi says the wrong way round.
_SAID_RIGHT = {
    "Start datetime cannot be before end datetime.": "datetime: the range ends before it begins"
}


def build_app(catalog: Catalog) -> FastAPI:
    """Return the API over a catalog."""
    settings = ApiSettings(
        stac_fastapi_title=TITLE,
        stac_fastapi_description=DESCRIPTION,
        stac_fastapi_version=__version__,
        stac_fastapi_landing_id=LANDING_ID,
    )
    app = FastAPI(
        openapi_url=settings.openapi_url,
        docs_url=None,
        redoc_url=None,
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
    )
    extensions = [FieldsExtension(), SortExtension(), TokenPaginationExtension()]
    client = CatalogClient(
        catalog=catalog, landing_page_id=LANDING_ID, title=TITLE, description=DESCRIPTION
    )
    _add_pages(app, client)
    StacApi(
        settings=settings,
        app=app,
        client=client,
        extensions=extensions,
        stac_version=STAC_VERSION,
        exceptions={},
        search_get_request_model=create_get_request_model(extensions),
        search_post_request_model=create_post_request_model(extensions, base_model=PostSearch),
        items_get_request_model=cast(
            "type[APIRequest]",
            create_request_model("ItemsRequest", ItemCollectionUri, extensions=extensions),
        ),
        middlewares=[
            Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "HEAD", "POST"])
        ],
    )
    _add_error_answers(app)
    return app


def _add_pages(app: FastAPI, client: CatalogClient) -> None:
    """Add what stac-fastapi has not: provenance, and a page for people that needs no network."""

    def provenance(collection_id: str, item_id: str) -> Response:
        return client.provenance(collection_id, item_id)

    def swagger_ui_html() -> HTMLResponse:
        return HTMLResponse(_service_page(app.openapi()))

    app.add_api_route(
        "/collections/{collection_id}/items/{item_id}/provenance",
        provenance,
        methods=["GET"],
        name="Get Provenance",
        response_class=Response,
    )
    # The name by which the landing page finds it.
    app.add_api_route(
        "/api.html",
        swagger_ui_html,
        methods=["GET"],
        name="swagger_ui_html",
        include_in_schema=False,
    )


def _service_page(description: dict[str, Any]) -> str:
    lines = [
        f"<li><code>{escape(method.upper())} {escape(path)}</code> {escape(each['summary'])}</li>"
        for path, methods in sorted(description["paths"].items())
        for method, each in sorted(methods.items())
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{TITLE}</title>'
        f"<h1>{TITLE}</h1><p>{DESCRIPTION}</p>"
        f'<p>OpenAPI description: <a href="api">api</a></p><ul>{"".join(lines)}</ul></html>'
    )


def _add_error_answers(app: FastAPI) -> None:
    """Answer each error as the STAC API has it: a code and a description."""

    def refused(_request: Request, error: Any) -> Response:
        return problem(_status_of(error), error.code, str(error))

    def http(_request: Request, error: Any) -> Response:
        code = "not_found" if error.status_code == _NOT_FOUND else "invalid_input"
        detail = str(error.detail)
        answer = problem(error.status_code, code, _SAID_RIGHT.get(detail, detail))
        # A refused method names those that are allowed.
        answer.headers.update(error.headers or {})
        return answer

    def unreadable(_request: Request, error: Any) -> Response:
        found = [_what_is_wrong(each) for each in error.errors()[:_PROBLEMS_MAX]]
        return problem(_BAD_REQUEST, "invalid_input", "; ".join(found))

    app.add_exception_handler(TallgrassError, refused)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_middleware(Answering)
    app.add_middleware(Heads)


def _what_is_wrong(found: Mapping[str, Any]) -> str:
    """Say what pydantic found, and where: in a member by its name, or in the whole body."""
    if found["type"] == "json_invalid":
        return f"body: not JSON: {found['ctx']['error']}"
    place, *member = (str(part) for part in found["loc"])
    return f"{'.'.join(member) or place}: {found['msg'].removeprefix('Value error, ')}"


def _status_of(error: TallgrassError) -> int:
    if isinstance(error, InvalidInput):
        return _BAD_REQUEST
    if isinstance(error, UnknownRecord):
        return _NOT_FOUND
    return _UNAVAILABLE if isinstance(error, TransientError) else _INTERNAL


def problem(status: int, code: str, description: str) -> Response:
    """Return an error as the STAC API has it."""
    text = description.encode(errors="backslashreplace").decode()
    return Response(
        orjson.dumps({"code": code, "description": text}),
        status_code=status,
        media_type="application/json",
    )


class Answering:
    """Refuses bodies that are too large, and answers what nobody expected without its details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        refusal = f"a body of more than {_BODY_BYTES_MAX:,} bytes"
        receiving = bounded(receive, _BODY_BYTES_MAX, refusal)

        async def sending(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except Exception:
            _LOG.exception("%s %s", scope["method"], scope["path"])
            if started:
                raise
            text = "something went wrong; the log says more"
            await problem(_INTERNAL, "internal_error", text)(scope, receive, send)

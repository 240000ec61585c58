"""What every request passes before a handler sees it, and every answer on its way out."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallgrass.api.hosts import require_host, require_origin
from tallgrass.api.limits import BODY_BYTES_MAX, require_small, too_large
from tallgrass.api.problems import RequestRefused, answer_error, unexpected
from tallgrass.api.service import service_of
from tallgrass.api.sign_in import address_of, identify
from tallgrass.errors import TallgrassError
from tallgrass.web.bodies import bounded

#: No inline script or style, nothing from elsewhere, no frame around.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Other sites are told nothing. Under `no-referrer` our own forms would say `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guards:
    """Refuses foreign hosts and excessive requests, answers unexpected errors, adds headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        started = False
        receiving = bounded(receive, BODY_BYTES_MAX, str(too_large()))

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(message)
            await send(message)

        try:
            _require_admissible(request)
            await self._app(scope, receiving, sending)
        except Exception as error:
            if started:
                raise
            await _answer(request, error)(scope, receive, sending)


class SignedInOnly:
    """Lets only those who are signed in reach the application behind it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            await run_in_threadpool(identify, request)
        except TallgrassError as error:
            await answer_error(request, error)(scope, receive, send)
            return
        await self._app(_standing_alone(scope), receive, send)


def _standing_alone(scope: Scope) -> Scope:
    """Return the scope of an application that makes its own addresses, below where it stands."""
    own = {name: value for name, value in scope.items() if name != "router"}
    return own | {"app_root_path": scope["root_path"]}


def _require_admissible(request: Request) -> None:
    scope, service = request.scope, service_of(request)
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    url_bytes = len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    require_host(headers, service.hosts)
    require_small(url_bytes, headers)
    _require_text(scope)
    _require_body_length(request)
    service.requests.require(f"address:{address_of(request)}", "requests")
    require_origin(request.method, request.url.scheme, scope["path"], request.headers)


def _require_text(scope: Scope) -> None:
    """Refuse what no database could look for; whatever a handler would do with it."""
    query = scope.get("query_string", b"")
    if "\0" in scope["path"] or b"%00" in query or b"\0" in query:
        raise RequestRefused(
            "an address with a NUL", status=HTTPStatus.BAD_REQUEST, code="invalid_input"
        )


def _require_body_length(request: Request) -> None:
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise RequestRefused(
            "a body without a readable length",
            status=HTTPStatus.BAD_REQUEST,
            code="invalid_input",
        )
    if int(length[:20]) > BODY_BYTES_MAX:
        raise too_large()


def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, TallgrassError):
        return answer_error(request, error)
    return unexpected(request, error)


def _add_headers(message: Any) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")

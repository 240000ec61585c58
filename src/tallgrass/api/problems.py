"""Errors as problem documents (RFC 9457), in one form for all routes.

Each problem has a code of the closed registry, which `tallgrass explain` and `/api/v1/codes`
explain, and says what to do. No stack trace, no credentials and nothing about the machine is ever
sent.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from tallgrass.errors import (
    ConfigError,
    GuardRefused,
    InvalidInput,
    NodeWalDamaged,
    NotAuthorized,
    PermanentError,
    QueueMissing,
    Refused,
    TallgrassError,
    TransientError,
    UnknownRecord,
)
from tallgrass.views.text import hide_credentials, json_bytes, printable

MEDIA_TYPE: Final = "application/problem+json"
API: Final = "/api/v1"
#: When to come again, where nothing better is known.
RETRY_AFTER_S: Final = 5
_ERRORS_MAX = 10
_DETAIL_CHARS_MAX = 2000
_LOG = logging.getLogger("tallgrass.api")
#: The code of an answer that the framework itself gives.
_CODES = {
    HTTPStatus.NOT_FOUND: "no_such_page",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_refused",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "media_type_refused",
}


class RequestRefused(Refused):
    """A request that no handler may see, or whose conditions do not hold; nothing was done."""

    default_code = "invalid_input"

    def __init__(
        self,
        message: str,
        *,
        status: HTTPStatus,
        code: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.headers = dict(headers or {})
        #: Further members of the problem, such as what changed.
        self.more = dict(more or {})


def status_of(error: TallgrassError) -> HTTPStatus:
    """Return the status that an error is answered with."""
    if isinstance(error, RequestRefused):
        return error.status
    # Neither passes by waiting, nor is it a fault of this server.
    if isinstance(error, (NodeWalDamaged, QueueMissing)):
        return HTTPStatus.CONFLICT
    if isinstance(error, TransientError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, UnknownRecord):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, NotAuthorized):
        known = error.code != "unknown_actor"
        return HTTPStatus.FORBIDDEN if known else HTTPStatus.UNAUTHORIZED
    if isinstance(error, InvalidInput) and not isinstance(error, ConfigError):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.CONFLICT if isinstance(error, Refused) else HTTPStatus.INTERNAL_SERVER_ERROR


def problem_of(error: TallgrassError) -> dict[str, Any]:
    """Return an error as a problem document."""
    status = status_of(error)
    text = printable(hide_credentials(str(error)))[:_DETAIL_CHARS_MAX]
    document: dict[str, Any] = {
        "type": f"{API}/codes/{error.code}",
        "title": error.about.meaning,
        "status": int(status),
        "detail": text,
        "code": error.code,
        "remedy": error.about.remedy,
    }
    if isinstance(error, GuardRefused):
        document["guard"] = error.guard
    return document | (error.more if isinstance(error, RequestRefused) else {})


def headers_of(error: TallgrassError) -> dict[str, str]:
    """Return the headers that go with an error."""
    headers = dict(error.headers) if isinstance(error, RequestRefused) else {}
    status = status_of(error)
    if status is HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="tallgrass"')
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.setdefault("Retry-After", str(RETRY_AFTER_S))
    return headers


def answer_error(request: Request, error: TallgrassError) -> Response:
    """Answer an error: as a problem to programs, as a page to people."""
    if status_of(error) is HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.error("%s %s: %s: %s", request.method, request.url.path, error.code, error)
    page = getattr(request.app.state, "error_page", None)
    if page is not None and not is_for_programs(request.url.path):
        answer: Response = page(request, error)
        return answer
    return Response(
        json_bytes(problem_of(error)),
        status_code=status_of(error),
        media_type=MEDIA_TYPE,
        headers=headers_of(error),
    )


def is_for_programs(path: str) -> bool:
    """Tell whether a path is one that programs ask, and not a browser for a person."""
    return path.startswith(("/api/", "/stac/")) or path in {"/api", "/stac"}


def unexpected(request: Request, error: Exception) -> Response:
    """Answer what nobody expected: the log has the details, the answer has none."""
    _LOG.error("%s %s", request.method, request.url.path, exc_info=error)
    return answer_error(request, PermanentError("something went wrong; the log says more"))


def add_problem_answers(app: FastAPI) -> None:
    """Answer every error of the application's handlers in the one form."""

    def refused(request: Request, error: Any) -> Response:
        return answer_error(request, error)

    def http(request: Request, error: Any) -> Response:
        status = HTTPStatus(error.status_code)
        code = _CODES.get(status, "invalid_input")
        text = f"{request.method} {request.url.path}: {error.detail}"
        wrapped = RequestRefused(text, status=status, code=code, headers=error.headers)
        return answer_error(request, wrapped)

    def unreadable(request: Request, error: Any) -> Response:
        found = [
            {"where": ".".join(str(part) for part in each["loc"]), "what": each["msg"]}
            for each in error.errors()[:_ERRORS_MAX]
        ]
        text = "; ".join(f"{each['where']}: {each['what']}" for each in found)
        wrapped = RequestRefused(
            text,
            status=HTTPStatus.UNPROCESSABLE_ENTITY,
            code="invalid_input",
            more={"errors": found},
        )
        return answer_error(request, wrapped)

    app.add_exception_handler(TallgrassError, refused)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, unreadable)


#: The schema of all problems, for the OpenAPI document.
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "remedy"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string", "description": "what the code means"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what happened here"},
        "code": {"type": "string", "description": "stable; see /api/v1/codes/{code}"},
        "remedy": {"type": "string", "description": "what to do about it"},
        "guard": {"type": "string", "description": "the rule that refused, where one did"},
        "changed": {"type": "object", "description": "412: what moved on, as it is now"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def documented(*more: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return the problems that a route may answer with: those of every route, and more."""
    always = (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        HTTPStatus.MISDIRECTED_REQUEST,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        int(status): {"description": status.phrase, "content": content}
        for status in sorted({*always, *more})
    }


#: Of a route that does something with one thing.
ACTING: Final = documented(
    HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
)
#: Of a route that changes one thing as it was read, which the request must name.
CHANGING: Final = documented(
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.PRECONDITION_REQUIRED,
)

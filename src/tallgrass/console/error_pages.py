"""Errors as pages: what happened, what to do, and the way back."""

from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from tallgrass.api.problems import headers_of, problem_of, status_of
from tallgrass.api.service import service_of
from tallgrass.api.sign_in import Signed, cookie_name
from tallgrass.console.pages import page
from tallgrass.errors import TallgrassError

_READING = frozenset({"GET", "HEAD"})


def error_page(request: Request, error: TallgrassError) -> Response:
    """Show an error; somebody who is not signed in is sent to the sign-in page."""
    problem = problem_of(error)
    status = status_of(error)
    if status is HTTPStatus.UNAUTHORIZED and request.method in _READING:
        query = {"next": _path(request)}
        return RedirectResponse(f"/sign-in?{urlencode(query)}", HTTPStatus.SEE_OTHER)
    away = status is HTTPStatus.SERVICE_UNAVAILABLE
    return page(
        request,
        "away.html" if away else "error.html",
        signed=_signed(request),
        status=status,
        headers=headers_of(error),
        problem=problem,
        phrase=status.phrase,
        again=_path(request) if request.method in _READING else "",
    )


def _signed(request: Request) -> Signed | None:
    """Return who looks, by memory alone: the database may be what failed."""
    session = service_of(request).sessions.find(request.cookies.get(cookie_name(request)))
    return None if session is None else Signed(actor=session.actor, session=session)


def _path(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path

"""Signing in and out: by the one-time link, or by an actor's token."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi import Form as Field
from fastapi.responses import RedirectResponse

from tallgrass.api.problems import problem_of, status_of
from tallgrass.api.service import Here
from tallgrass.api.sign_in import authenticate, cookie_name, sign_in_by
from tallgrass.console.forms import Sent
from tallgrass.console.pages import page
from tallgrass.errors import NotAuthorized
from tallgrass.web.heads import is_asked_as_head

_TEXT_MAX = 2000

router = APIRouter()


@router.get("/sign-in")
def ask(
    request: Request,
    here: Here,
    link: Annotated[str, Query(max_length=_TEXT_MAX)] = "",
    next: Annotated[str, Query(max_length=_TEXT_MAX)] = "/",  # noqa: A002 - the address's own word
) -> Response:
    """Sign in by a link, or ask for a token."""
    if link and not _is_look_ahead(request):
        secret = here.sessions.redeem(link)
        if secret is not None:
            return _signed_in(request, secret, next)
    used = "the link was used before, or is too old" if link else ""
    status = HTTPStatus.UNAUTHORIZED if link else HTTPStatus.OK
    return page(request, "sign_in.html", signed=None, next=local(next), problem=used, status=status)


@router.post("/sign-in")
def sign_in(
    request: Request,
    here: Here,
    token: Annotated[str, Field(max_length=_TEXT_MAX)] = "",
    next: Annotated[str, Field(max_length=_TEXT_MAX)] = "/",  # noqa: A002
) -> Response:
    """Sign in by a token."""
    try:
        actor = authenticate(request, token.strip(), action="sign_in")
    except NotAuthorized as error:
        text = problem_of(error)["detail"]
        return page(
            request,
            "sign_in.html",
            signed=None,
            next=local(next),
            problem=text,
            status=status_of(error),
        )
    return _signed_in(request, here.sessions.begin(actor), next)


@router.post("/sign-out")
def sign_out(here: Here, sent: Sent) -> Response:
    """End the session."""
    if sent.signed.session is not None:
        here.sessions.end(sent.signed.session)
    answer = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(cookie_name(sent.request), httponly=True, samesite="strict")
    return answer


def local(path: str) -> str:
    """Return a path of this server; an address of another leads to the first page instead."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain and "\\" not in path else "/"


def _is_look_ahead(request: Request) -> bool:
    """Tell of what a browser fetches ahead, or somebody looks at: it must not use a link up."""
    ahead = {"purpose", "sec-purpose"} & set(request.headers)
    return bool(ahead) or is_asked_as_head(request.scope)


def _signed_in(request: Request, secret: str, path: str) -> Response:
    answer = RedirectResponse(local(path), HTTPStatus.SEE_OTHER)
    sign_in_by(answer, request, secret)
    return answer

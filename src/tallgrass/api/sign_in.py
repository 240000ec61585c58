"""Who sends a request: an actor with a bearer token, a browser with a session, or nobody.

Actors and roles are those of governance; there is no second list of users. Stores check the token
again inside the transaction of every write, so a refusal here only comes earlier.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Request, Response
from fastapi.security import APIKeyCookie, HTTPBearer

from tallgrass.api.problems import RequestRefused
from tallgrass.api.service import Service, service_of
from tallgrass.api.sessions import GUEST, Session
from tallgrass.errors import NotAuthorized, TransientError
from tallgrass.governance.actors import Actor, Role, require_role

CSRF_HEADER: Final = "x-csrf-token"
_COOKIE = "tallgrass_session"
_TOKEN_CHARS_MAX = 200
_DECIMAL = re.compile(r"[0-9]\.[0-9]")

#: What the OpenAPI document says of it; the check itself is below.
_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="an actor's token")
_BROWSER = APIKeyCookie(
    name=_COOKIE, auto_error=False, scheme_name="session", description="a browser's session"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """Somebody who is signed in."""

    #: None for a viewer who came by the link without a token.
    actor: Actor | None
    #: None for a program with a token.
    session: Session | None

    @property
    def name(self) -> str:
        """Who it is, for pages."""
        return GUEST if self.actor is None else self.actor.name

    @property
    def role(self) -> Role:
        """What they may do."""
        return Role.VIEWER if self.actor is None else self.actor.role


def cookie_name(request: Request) -> str:
    """Return the cookie's name; browsers do not keep the ports of a machine apart."""
    server = request.scope.get("server")
    return f"{_COOKIE}_{server[1]}" if server and server[1] else _COOKIE


def identify(request: Request) -> Signed:
    """Return who asks; refuse anybody else. Counts against the rate of the actor."""
    service = service_of(request)
    if "authorization" in request.headers:
        signed = Signed(actor=_by_token(request), session=None)
    else:
        signed = _by_session(service, request)
    service.requests.require(f"actor:{signed.name}", "requests")
    return signed


def authenticate(request: Request, token: str, *, action: str) -> Actor:
    """Return whose token it is. Failures are logged, counted, and soon not even looked at."""
    service, address = service_of(request), address_of(request)
    service.failures.require(address, "sign-ins that failed", take=False)
    if not 0 < len(token) <= _TOKEN_CHARS_MAX or not token.isascii():
        service.failures.wait_s(address)
        raise NotAuthorized("not a token", code="unknown_actor")
    with service.signing.lent() as stores:
        try:
            return stores.actors.authenticate(token, action=action)
        except NotAuthorized:
            service.failures.wait_s(address)
            raise


def has_session(service: Service, signed: Signed) -> bool:
    """Tell whether the session that somebody came by, if any, goes on."""
    return signed.session is None or service.sessions.alive(signed.session.key) is not None


def is_current(service: Service, actor: Actor) -> bool:
    """Tell whether the token of somebody who listens on and on is still good."""
    try:
        with service.reading.lent() as stores:
            return stores.actors.current(actor) is not None
    except TransientError:
        # A database that is away says nothing against anybody; there is nothing to see either.
        return True


def address_of(request: Request) -> str:
    """Return the address that a request comes from."""
    return request.client.host if request.client else "unknown"


def sign_in_by(response: Response, request: Request, secret: str) -> None:
    """Give a browser the cookie of its session."""
    response.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(service_of(request).sessions.lifetime.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def viewer(
    request: Request,
    _bearer: Annotated[object, Depends(_BEARER)] = None,
    _session: Annotated[object, Depends(_BROWSER)] = None,
) -> Signed:
    """Let anybody read who is signed in."""
    return identify(request)


#: Somebody who may read, as a parameter of a handler.
Viewer = Annotated[Signed, Depends(viewer)]


def require_actor(request: Request, signed: Signed, role: Role, action: str) -> Actor:
    """Return the actor who writes; a refusal is in the audit log."""
    if signed.actor is None:
        raise NotAuthorized("a viewer without a token may only read", code="not_authorized")
    try:
        require_role(signed.actor, role, action.replace("_", " "))
    except NotAuthorized as error:
        with service_of(request).signing.lent() as stores:
            subject = f"actor:{signed.actor.name}"
            raise stores.actors.refuse(signed.actor.name, action, error, subject=subject) from None
    return signed.actor


def reads_exactly(service: Service, signed: Signed) -> bool:
    """Tell whether somebody may see rows and messages as they are kept, with their exact places."""
    return not service.policies.mask_places or signed.role.includes(Role.OPERATOR)


def require_exact(request: Request, signed: Signed, action: str) -> None:
    """Refuse who may not see them; the audit log says so."""
    if reads_exactly(service_of(request), signed):
        return
    if signed.actor is None:
        raise NotAuthorized("exact places need an operator's token", code="not_authorized")
    require_actor(request, signed, Role.OPERATOR, action)


def require_beginning(request: Request, signed: Signed, beginning: str | None, action: str) -> None:
    """Refuse to look for objects by a beginning that could tell a place digit by digit."""
    if beginning is not None and _DECIMAL.search(beginning):
        require_exact(request, signed, action)


def require_csrf(signed: Signed, given: str | None) -> None:
    """Refuse a browser's write that does not show its session's token."""
    if signed.session is not None and not signed.session.has_csrf(given):
        raise RequestRefused(
            "the write does not show its session's token",
            status=HTTPStatus.FORBIDDEN,
            code="csrf_refused",
        )


def writer(role: Role, action: str) -> Callable[[Request, Signed], Actor]:
    """Return what lets an actor write by JSON: proved, in the role, with intent."""

    def check(request: Request, signed: Viewer) -> Actor:
        require_csrf(signed, request.headers.get(CSRF_HEADER))
        _require_json(request)
        return require_actor(request, signed, role, action)

    return check


def _require_json(request: Request) -> None:
    """Refuse forms of other kinds: what a plain HTML form can send is never JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(
            f"writes are application/json, not {kind[:80]!r}",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            code="media_type_refused",
        )


def _by_token(request: Request) -> Actor:
    kind, _, token = request.headers["authorization"].partition(" ")
    if kind.lower() != "bearer":
        raise not_signed_in("the Authorization header is not Bearer and a token")
    return authenticate(request, token.strip(), action="api")


def _by_session(service: Service, request: Request) -> Signed:
    session = service.sessions.find(request.cookies.get(cookie_name(request)))
    if session is None:
        raise not_signed_in("nobody is signed in")
    if session.actor is None:
        return Signed(actor=None, session=session)
    with service.reading.lent() as stores:
        actor = stores.actors.current(session.actor)
    if actor is None:
        service.sessions.end(session)
        raise not_signed_in(f"the token of {session.name} is void")
    return Signed(actor=actor, session=session)


def not_signed_in(message: str) -> RequestRefused:
    """Return the refusal of somebody who is not known."""
    return RequestRefused(message, status=HTTPStatus.UNAUTHORIZED, code="not_signed_in")

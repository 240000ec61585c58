"""Actors: who may act. A new token is shown once, on the page that makes it."""

from fastapi import APIRouter, Request, Response

from tallgrass.api.actors import revoked, rotated, tag_of_actor
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Signed, Viewer
from tallgrass.bootstrap.enrolling import add_actor
from tallgrass.console.forms import Form, Sent, back_to
from tallgrass.console.pages import page
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Actor, Role

_PATH = "/governance/actors"

router = APIRouter()


@router.get(_PATH)
def list_actors(request: Request, here: Here, signed: Viewer) -> Response:
    """List actors, and what one may do with each."""
    with here.reading.lent() as stores:
        actors = stores.actors.list()
    return page(
        request,
        "actors.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        actors=actors,
        seen={each.name: tag_of_actor(each)[0] for each in actors},
        roles=[role.value for role in Role],
        may_add=signed.role.includes(Role.APPROVER),
        now=here.clock(),
        done=request.query_params.get("done", "")[:200],
    )


@router.post(_PATH)
def add(request: Request, here: Here, sent: Sent) -> Response:
    """Add an actor and show the token."""
    actor = sent.actor(Role.APPROVER, "actor_add")
    try:
        role = Role(sent.text("role"))
    except ValueError:
        raise InvalidInput("a role is viewer, operator or approver") from None
    with here.writing.lent() as stores:
        added, token = add_actor(stores, sent.text("name"), role, by=actor)
    return _token_page(request, sent.signed, added, token)


@router.post(f"{_PATH}/{{name}}/rotate")
def rotate(request: Request, here: Here, sent: Sent, name: str) -> Response:
    """Give an actor a new token and show it; who renews their own signs in again with it."""
    actor = sent.actor(Role.VIEWER, "actor_rotate")
    found, token = rotated(here, actor, name, seen=_seen(sent))
    return _token_page(request, sent.signed, found, token)


@router.post(f"{_PATH}/{{name}}/revoke")
def revoke(here: Here, sent: Sent, name: str) -> Response:
    """Take an actor's rights, for good."""
    actor = sent.actor(Role.APPROVER, "actor_revoke")
    revoked(here, actor, name, seen=_seen(sent))
    return back_to(_PATH, f"{name} is revoked.")


def _seen(sent: Form) -> str | None:
    return sent.text("seen", needed=False) or None


def _token_page(request: Request, signed: Signed, actor: Actor, token: str) -> Response:
    return page(
        request,
        "token.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        headers={"Cache-Control": "no-store"},
        actor=actor,
        token=token,
        is_own=actor.name == signed.name,
    )

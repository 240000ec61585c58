"""Actors: who may act, and in which role. A token is shown once, in the answer that makes it."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from tallgrass.api.answers import answer, documents, done
from tallgrass.api.bodies import Body
from tallgrass.api.etags import Seen, require_tag, tag_of_bytes
from tallgrass.api.problems import CHANGING, documented
from tallgrass.api.replay_wish import Word
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.enrolling import add_actor, rotate_actor
from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import UnknownRecord
from tallgrass.governance.actors import Actor, Role
from tallgrass.views.text import json_bytes, plain

_NAME_MAX = 64
_ACTOR = {"type": "object"}
_TOKEN = {
    "name": {"type": "string"},
    "role": {"enum": [role.value for role in Role]},
    "token": {"type": "string", "description": "shown once and kept nowhere"},
}

router = APIRouter(tags=["governance"])

Name = Annotated[str, Path(max_length=_NAME_MAX)]


class NewActor(Body):
    """A new actor."""

    name: Annotated[Word, Field(max_length=_NAME_MAX)]
    role: Role = Field(
        description="viewer looks, operator acts and requests approvals, approver decides"
    )


@router.get(
    "/actors",
    responses=documented()
    | documents("All actors, the revoked ones too.", actors={"type": "array", "items": _ACTOR}),
    response_class=Response,
)
def list_actors(request: Request, here: Here, _signed: Viewer) -> Response:
    """List actors by name; nobody's token."""
    with here.reading.lent() as stores:
        return answer(request, {"actors": stores.actors.list()})


@router.get(
    "/actors/{name}",
    responses=documented(HTTPStatus.NOT_FOUND)
    | documents("One actor; the ETag is what a change must name.", actor=_ACTOR),
    response_class=Response,
)
def show_actor(request: Request, here: Here, _signed: Viewer, name: Name) -> Response:
    """Show an actor."""
    with here.reading.lent() as stores:
        return answer(request, actor_as_read(stores, name)[1])


@router.post(
    "/actors",
    status_code=HTTPStatus.CREATED,
    responses=documented(HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    | {201: documents("The actor, and the token, this once.", **_TOKEN)[200]},
    response_class=Response,
)
def add(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.APPROVER, "actor_add"))],
    wish: NewActor,
) -> Response:
    """Add an actor."""
    with here.writing.lent() as stores:
        added, token = add_actor(stores, wish.name, wish.role, by=actor)
    return done(_with_token(added, token), status=HTTPStatus.CREATED)


@router.post(
    "/actors/{name}/rotate",
    responses=CHANGING | documents("The actor, and the new token, this once.", **_TOKEN),
    response_class=Response,
)
def rotate(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.VIEWER, "actor_rotate"))],
    name: Name,
    if_match: Seen = None,
) -> Response:
    """Give an actor a new token; the old one is void at once.

    Everybody may renew their own; an approver that of others.
    """
    return done(_with_token(*rotated(here, actor, name, seen=if_match)))


@router.post(
    "/actors/{name}/revoke",
    responses=CHANGING | documents("The actor, who may do nothing any more.", actor=_ACTOR),
    response_class=Response,
)
def revoke(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.APPROVER, "actor_revoke"))],
    name: Name,
    if_match: Seen = None,
) -> Response:
    """Take an actor's rights, for good; the last approver's cannot be taken."""
    return done(revoked(here, actor, name, seen=if_match))


def rotated(here: Service, actor: Actor, name: str, *, seen: str | None) -> tuple[Actor, str]:
    """Give an actor, as they were seen, a new token."""
    with here.writing.lent() as stores:
        require_tag(seen, *actor_as_read(stores, name))
        return rotate_actor(stores, name, by=actor)


def revoked(here: Service, actor: Actor, name: str, *, seen: str | None) -> dict[str, Any]:
    """Revoke an actor as they were seen; return them as they are then."""
    with here.writing.lent() as stores:
        require_tag(seen, *actor_as_read(stores, name))
        stores.actors.revoke(name, by=actor)
        return actor_as_read(stores, name)[1]


def actor_as_read(stores: Stores, name: str) -> tuple[str, dict[str, Any]]:
    """Return the tag of an actor as `show_actor` gives it, and what they are now."""
    found = [each for each in stores.actors.list() if each.name == name]
    if not found:
        raise UnknownRecord(f"there is no actor {name[:80]}", code="actor_unknown")
    return tag_of_actor(found[0])


def tag_of_actor(stored: object) -> tuple[str, dict[str, Any]]:
    """Return the tag of an actor as the store has them, and their document."""
    now = {"actor": plain(stored)}
    return tag_of_bytes(json_bytes(now)), now


def _with_token(actor: Actor, token: str) -> dict[str, Any]:
    return {"name": actor.name, "role": actor.role.value, "token": token}

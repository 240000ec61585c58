"""The freeze: everything stopped at once, and let go on."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from tallgrass.api.answers import documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.etags import Seen, require_tag
from tallgrass.api.problems import documented
from tallgrass.api.service import Here, Service
from tallgrass.api.sign_in import writer
from tallgrass.api.switches import switches_as_read
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.switches import SwitchScope

router = APIRouter(tags=["governance"])


class Freeze(Body):
    """Whether everything is to be frozen, and why."""

    is_on: bool = Field(description="on: ingest, replay, dispatch and nodes of all datasets stop")
    reason: Words


@router.put(
    "/freeze",
    responses=documented(
        HTTPStatus.CONFLICT,
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.PRECONDITION_REQUIRED,
    )
    | documents(
        "The scopes that this stopped, or let go on.",
        scopes={"type": "array", "items": {"enum": [scope.value for scope in SwitchScope]}},
    ),
    response_class=Response,
)
def turn_freeze(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "freeze"))],
    wish: Freeze,
    if_match: Seen = None,
) -> Response:
    """Stop everything, or clear what the freeze stopped; If-Match is the ETag of /switches.

    A switch that was on before the freeze, or turned since, stays on.
    """
    scopes = frozen(here, actor, is_on=wish.is_on, reason=wish.reason, seen=if_match)
    return done({"scopes": scopes})


def frozen(
    here: Service, actor: Actor, *, is_on: bool, reason: str, seen: str | None
) -> list[SwitchScope]:
    """Begin or end the freeze on the ground of switches as they were seen."""
    with here.writing.lent() as stores:
        require_tag(seen, *switches_as_read(stores))
        turn = stores.switches.freeze if is_on else stores.switches.thaw
        return turn(actor=actor, reason=reason)

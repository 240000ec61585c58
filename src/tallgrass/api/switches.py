"""Kill switches: what is stopped, and stopping it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import Field

from tallgrass.api.answers import OBJECTS, answer, documents, done
from tallgrass.api.bodies import Body, Words
from tallgrass.api.etags import Seen, require_tag, tag_of_bytes
from tallgrass.api.problems import CHANGING, documented
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer, writer
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.switching import turn_switches
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.switches import SwitchScope
from tallgrass.views.text import json_bytes

_NAME_MAX = 200

router = APIRouter(tags=["governance"])


class Turn(Body):
    """Whether a switch is to be on, and why."""

    is_on: bool = Field(description="on: the work stops")
    reason: Words


@router.get(
    "/switches",
    responses=documented()
    | documents("All switches ever set; the ETag is what a turn must name.", switches=OBJECTS),
    response_class=Response,
)
def list_switches(request: Request, here: Here, _signed: Viewer) -> Response:
    """List the switches."""
    with here.reading.lent() as stores:
        return answer(request, {"switches": stores.switches.switches()})


@router.put(
    "/switches/{scope}/{dataset}",
    responses=CHANGING | documents("The switch as it stands now.", switches=OBJECTS),
    response_class=Response,
)
def turn_switch(
    here: Here,
    actor: Annotated[Actor, Depends(writer(Role.OPERATOR, "turn_switch"))],
    scope: SwitchScope,
    dataset: Annotated[str, Path(max_length=_NAME_MAX, description="a dataset, or *")],
    turn: Turn,
    if_match: Seen = None,
) -> Response:
    """Stop the work of a dataset in a scope, or let it go on."""
    with here.writing.lent() as stores:
        require_tag(if_match, *switches_as_read(stores))
        after = turn_switches(
            stores,
            here.catalogue,
            [(scope, dataset)],
            is_on=turn.is_on,
            actor=actor,
            reason=turn.reason,
        )
    return done({"switches": after})


def switches_as_read(stores: Stores) -> tuple[str, dict[str, object]]:
    """Return the tag of all switches as `list_switches` gives it, and what they are now."""
    now: dict[str, object] = {"switches": stores.switches.switches()}
    return tag_of_bytes(json_bytes(now)), now

"""Governance: the kill switches and the freeze, and requests that wait for a decision."""

from fastapi import APIRouter, Request, Response

from tallgrass.api.approvals import read_approvals
from tallgrass.api.etags import require_tag
from tallgrass.api.freeze import frozen
from tallgrass.api.service import Here
from tallgrass.api.sign_in import Viewer
from tallgrass.api.switches import switches_as_read
from tallgrass.bootstrap.plan_making import datasets_of_ledger
from tallgrass.bootstrap.switching import turn_switches
from tallgrass.console.forms import Sent, back_to
from tallgrass.console.pages import page
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import ApprovalState
from tallgrass.governance.switches import ALL_DATASETS, SwitchScope

_WAITING = 5
_PATH = "/governance"

router = APIRouter()


@router.get(_PATH)
def show(request: Request, here: Here, signed: Viewer) -> Response:
    """Show the switches, and the requests that nobody has decided on yet."""
    with here.reading.lent() as stores:
        tag, _ = switches_as_read(stores)
        switches = stores.switches.switches()
        ledger = datasets_of_ledger(stores)
        waiting, _ = read_approvals(stores, state=ApprovalState.REQUESTED, limit=_WAITING)
    on = [each for each in switches if each.is_on]
    return page(
        request,
        "governance.html",
        signed=signed,
        place="Governance",
        part=_PATH,
        on=on,
        off=[each for each in switches if not each.is_on],
        is_frozen=any(each.by_freeze for each in on),
        all_stopped={each.scope for each in on if each.dataset == ALL_DATASETS} == set(SwitchScope),
        waiting=waiting,
        scopes=[scope.value for scope in SwitchScope],
        datasets=sorted({*ledger, *(each.id for each in here.catalogue.datasets)}),
        seen=tag,
        may_act=signed.role.includes(Role.OPERATOR),
        now=here.clock(),
        done=request.query_params.get("done", "")[:200],
    )


@router.post(f"{_PATH}/switches")
def turn(here: Here, sent: Sent) -> Response:
    """Turn a switch on the ground of those that the page showed."""
    actor = sent.actor(Role.OPERATOR, "turn_switch")
    scope, dataset = _scope(sent.text("scope")), sent.text("dataset")
    is_on = sent.text("turn") == "on"
    with here.writing.lent() as stores:
        require_tag(sent.text("seen", needed=False) or None, *switches_as_read(stores))
        turn_switches(
            stores,
            here.catalogue,
            [(scope, dataset)],
            is_on=is_on,
            actor=actor,
            reason=sent.text("reason"),
        )
    what = f"{scope.value} of {'all datasets' if dataset == ALL_DATASETS else dataset}"
    return back_to(_PATH, f"{what} {'is stopped' if is_on else 'goes on'}.")


@router.post(f"{_PATH}/freeze")
def freeze(here: Here, sent: Sent) -> Response:
    """Stop everything, or clear what the freeze stopped."""
    actor = sent.actor(Role.OPERATOR, "freeze")
    is_on = sent.text("turn") == "on"
    seen = sent.text("seen", needed=False) or None
    scopes = frozen(here, actor, is_on=is_on, reason=sent.text("reason"), seen=seen)
    named = ", ".join(scope.value for scope in scopes) or "nothing more"
    return back_to(_PATH, f"{'Stopped' if is_on else 'Going on'}: {named}.")


def _scope(text: str) -> SwitchScope:
    try:
        return SwitchScope(text)
    except ValueError:
        raise InvalidInput(f"there is no scope {text[:50]!r}") from None

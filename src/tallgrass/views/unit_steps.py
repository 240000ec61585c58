"""What a person can do about a unit now, and why some of it is not allowed (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import ApprovalState
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallgrass.governance.approvals import Approval
    from tallgrass.governance.switches import KillSwitch
    from tallgrass.ledger.record import WalRecord


_HOLD = "If it must not be tried again: held, it waits for a person until a release."


class Step(StrEnum):
    """A kind of action on a unit; command line and console each know how it is done."""

    HOLD = "hold"
    ASK_FOR_RELEASE = "ask_for_release"
    AWAIT_APPROVAL = "await_approval"
    RELEASE = "release"
    REPLAY = "replay"
    RUN_AGAIN = "run_again"
    WAIT = "wait"
    SWITCHED_OFF = "switched_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """One action: what it means, and why this person may not do it (None if they may)."""

    step: Step
    text: str
    refusal: str | None = None
    approval: Approval | None = None


def next_steps(
    record: WalRecord,
    *,
    role: Role,
    approvals: Sequence[tuple[Approval, ApprovalState]] = (),
    switches: Iterable[KillSwitch] = (),
) -> list[NextStep]:
    """Return what can be done; `approvals` are those for a release of the unit as it is now."""
    stopped = [
        NextStep(
            step=Step.SWITCHED_OFF,
            text=f"{each.scope.value} of {each.dataset} is switched off by {each.actor}:"
            f" {each.reason}",
        )
        for each in switches
        if each.is_on and each.dataset in {"*", record.dataset}
    ]
    return stopped + list(_by_status(record, _refusal(role), approvals))


def _by_status(
    record: WalRecord,
    refusal: str | None,
    approvals: Sequence[tuple[Approval, ApprovalState]],
) -> Iterator[NextStep]:
    if record.status is Status.QUARANTINED:
        yield from _out_of_quarantine(record, refusal, approvals)
    elif record.status is Status.FAILED:
        text = "A replay puts it back through the same gates"
        text += "; by itself it is tried again." if record.due_at else "."
        yield NextStep(step=Step.REPLAY, text=text, refusal=refusal)
        yield NextStep(step=Step.HOLD, text=_HOLD, refusal=refusal)
    elif record.status is Status.SUCCEEDED:
        text = "Nothing needs to be done. To run it again takes a plan that somebody else approves."
        if record.stale:
            text = "Its item is behind: a re-run failed. A replay with an approved plan mends it."
        yield NextStep(step=Step.RUN_AGAIN, text=text, refusal=refusal)
    elif record.status is Status.PENDING:
        yield NextStep(step=Step.WAIT, text="It is due: a running worker takes it.")
        yield NextStep(step=Step.HOLD, text=_HOLD, refusal=refusal)
    else:
        yield NextStep(step=Step.WAIT, text=f"{record.worker_id} works on it.")


def _out_of_quarantine(
    record: WalRecord,
    refusal: str | None,
    approvals: Sequence[tuple[Approval, ApprovalState]],
) -> Iterator[NextStep]:
    open_ones = [(a, s) for a, s in approvals if s is ApprovalState.APPROVED]
    waiting = [(a, s) for a, s in approvals if s is ApprovalState.REQUESTED]
    newest = " It then takes the newer object." if record.next_object else ""
    for approval, _ in open_ones:
        given = ", ".join(each.actor for each in approval.decisions)
        text = f"Approved by {given}: {approval.reason}.{newest}"
        yield NextStep(step=Step.RELEASE, text=text, refusal=refusal, approval=approval)
    for approval, _ in waiting:
        text = f"{approval.requested_by} asked for a release: {approval.reason}. Somebody else"
        yield NextStep(step=Step.AWAIT_APPROVAL, text=f"{text} decides on it.", approval=approval)
    if not approvals or not (open_ones or waiting):
        text = f"It is held for a person. A release needs the word of somebody else.{newest}"
        yield NextStep(step=Step.ASK_FOR_RELEASE, text=text, refusal=refusal)


def _refusal(role: Role) -> str | None:
    if role.includes(Role.OPERATOR):
        return None
    return f"An operator may do this; you are signed in as a {role.value}."

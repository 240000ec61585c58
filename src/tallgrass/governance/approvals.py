"""Approvals: what is asked for, who may decide, and when one may be used (pure).

An approval is bound to what was looked at by a hash: of a plan's bytes, or of the units to release
with their versions. It ends by time, is used once, and nobody decides on their own request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import ApprovalInvalid, InvalidInput
from tallgrass.governance.actors import Actor, Role, require_role

RELEASE = "release"
#: Units that one release may name: an approver reads all of them.
RELEASE_UNITS_MAX = 1000


class ApprovalState(StrEnum):
    """Where an approval stands."""

    REQUESTED = "requested"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    USED = "used"


class Verdict(StrEnum):
    """What an approver says."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an approval is asked for."""

    purpose: str
    sha256: str
    #: What the approver is shown.
    summary: Mapping[str, object]
    needed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one approver said."""

    actor: str
    verdict: Verdict
    note: str
    decided_at: datetime
    #: Whether the approver may still approve; the word of one who was revoked approves nothing.
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A request and what came of it."""

    approval_id: str
    purpose: str
    subject_sha256: str
    summary: Mapping[str, object]
    reason: str
    needed: int
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    used_for: str | None = None
    decisions: tuple[Decision, ...] = ()

    @property
    def approvals(self) -> int:
        """How many approvals count."""
        return sum(each.verdict is Verdict.APPROVE and each.counts for each in self.decisions)

    def state(self, now: datetime) -> ApprovalState:
        """Tell where it stands; what ends it for good comes first."""
        if self.used_at is not None:
            return ApprovalState.USED
        if any(each.verdict is Verdict.REJECT for each in self.decisions):
            return ApprovalState.REJECTED
        if now > self.expires_at:
            return ApprovalState.EXPIRED
        enough = self.approvals >= self.needed
        return ApprovalState.APPROVED if enough else ApprovalState.REQUESTED


def may_decide(approval: Approval, actor: Actor, verdict: Verdict, now: datetime) -> None:
    """Refuse a decision that the rules do not allow."""
    require_role(actor, Role.APPROVER, "deciding on a request")
    if actor.name == approval.requested_by:
        message = f"{actor.name} made the request: somebody else decides on it"
        raise ApprovalInvalid(message, code="self_approval")
    if any(each.actor == actor.name for each in approval.decisions):
        raise ApprovalInvalid(f"{actor.name} has decided on {approval.approval_id} before")
    state = approval.state(now)
    # What is approved can still be stopped, until it is used.
    open_to = {Verdict.APPROVE: {ApprovalState.REQUESTED}}.get(
        verdict, {ApprovalState.REQUESTED, ApprovalState.APPROVED}
    )
    if state not in open_to:
        raise ApprovalInvalid(f"{approval.approval_id} is {state.value}")


def require_usable(
    approval: Approval, *, purpose: str, subject_sha256: str, now: datetime, needed: int = 1
) -> None:
    """Refuse an approval that was not given for exactly this, or not by enough approvers.

    `needed` is what policy asks for now; it can only raise what the request said.
    """
    if approval.purpose != purpose:
        message = f"{approval.approval_id} was given for {approval.purpose}, not for {purpose}"
        raise ApprovalInvalid(message)
    if approval.subject_sha256 != subject_sha256:
        message = f"{approval.approval_id} was given for something else than this {purpose}"
        raise ApprovalInvalid(message, code="plan_changed")
    state = approval.state(now)
    if state is not ApprovalState.APPROVED:
        detail = f" for {approval.used_for}" if state is ApprovalState.USED else ""
        raise ApprovalInvalid(f"{approval.approval_id} is {state.value}{detail}, not approved")
    if approval.approvals < needed:
        message = (
            f"{approval.approval_id} has {approval.approvals} of the {needed} approvals"
            " that policy asks for"
        )
        raise ApprovalInvalid(message)


def release_sha256(units: Sequence[tuple[str, int]]) -> str:
    """Return the hash that a release of units, each at its version, is approved by."""
    return sha256_hex(canonical_bytes({"purpose": RELEASE, "units": _ordered(units)}))


def release_subject(
    units: Sequence[tuple[str, int]],
    *,
    needed: int = 1,
    shown: Mapping[str, object] | None = None,
) -> Subject:
    """Return what a release of quarantined units asks approval for.

    The database compares `units` of the summary with each unit that leaves quarantine.
    """
    if not units:
        raise InvalidInput("a release names at least one unit")
    if len(units) > RELEASE_UNITS_MAX:
        raise InvalidInput(f"a release names at most {RELEASE_UNITS_MAX:,} units")
    if len({wal_id for wal_id, _ in units}) != len(units):
        raise InvalidInput("a release names each unit once")
    return Subject(
        purpose=RELEASE,
        sha256=release_sha256(units),
        summary={**(shown or {}), "units": _ordered(units)},
        needed=needed,
    )


def plan_subject(header: Mapping[str, object], sha256: str) -> Subject:
    """Return what a plan asks approval for: the purpose and needs that its header states."""
    purpose = header.get("purpose", "replay")
    needed = header.get("approvals_needed", 1)
    if not isinstance(purpose, str) or not purpose.strip() or purpose == RELEASE:
        raise InvalidInput("the plan's header states no purpose", code="plan_invalid")
    if isinstance(needed, bool) or not isinstance(needed, int):
        raise InvalidInput("approvals_needed of the plan is no number", code="plan_invalid")
    return Subject(purpose=purpose, sha256=sha256, summary=header, needed=max(1, needed))


def _ordered(units: Sequence[tuple[str, int]]) -> list[list[object]]:
    return [[wal_id, version] for wal_id, version in sorted(units)]

"""When an approval may be decided on, and when it may be used."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tallgrass.errors import ApprovalInvalid, InvalidInput, NotAuthorized
from tallgrass.governance.actors import Actor, Role
from tallgrass.governance.approvals import (
    Approval,
    ApprovalState,
    Decision,
    Verdict,
    may_decide,
    plan_subject,
    release_sha256,
    release_subject,
    require_usable,
)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
ANN = Actor(name="ann", role=Role.APPROVER)
HASH = "a" * 64
ASKED = Approval(
    approval_id="00000000-0000-4000-8000-000000000001",
    purpose="replay",
    subject_sha256=HASH,
    summary={},
    reason="CHG-2041",
    needed=1,
    requested_by="otto",
    requested_at=NOON,
    expires_at=NOON + timedelta(hours=24),
)


def said(actor: str, verdict: Verdict = Verdict.APPROVE, *, counts: bool = True) -> Decision:
    """Return a decision, a minute after the request."""
    return Decision(
        actor=actor, verdict=verdict, note="", decided_at=NOON + timedelta(minutes=1), counts=counts
    )


APPROVED = replace(ASKED, decisions=(said("ann"),))
REJECTED = replace(ASKED, decisions=(said("bob", Verdict.REJECT),))
USED = replace(APPROVED, used_at=NOON + timedelta(hours=1), used_for="run-1")


@pytest.mark.parametrize(
    ("approval", "hours", "state"),
    [
        (ASKED, 0, "requested"),
        (ASKED, 24, "requested"),
        (ASKED, 24.001, "expired"),
        (APPROVED, 24, "approved"),
        (APPROVED, 24.001, "expired"),
        (replace(APPROVED, needed=2), 1, "requested"),
        (replace(APPROVED, needed=2, decisions=(said("ann"), said("bob"))), 1, "approved"),
        (replace(ASKED, decisions=(said("ann", counts=False),)), 1, "requested"),
        (replace(ASKED, decisions=(said("ann"), said("bob", Verdict.REJECT))), 1, "rejected"),
        (REJECTED, 48, "rejected"),
        (replace(ASKED, decisions=(said("bob", Verdict.REJECT, counts=False),)), 1, "rejected"),
        (USED, 48, "used"),
    ],
)
def test_where_an_approval_stands(approval: Approval, hours: float, state: str) -> None:
    """Used, rejected, expired, approved, requested: the first that holds."""
    assert approval.state(NOON + timedelta(hours=hours)) == ApprovalState(state)


@pytest.mark.parametrize(
    ("approval", "actor", "verdict", "hours", "code"),
    [
        (ASKED, ANN, "approve", 1, None),
        (ASKED, ANN, "reject", 24, None),
        (APPROVED, Actor(name="bob", role=Role.APPROVER), "reject", 1, None),
        (APPROVED, Actor(name="bob", role=Role.APPROVER), "approve", 1, "approval_invalid"),
        (APPROVED, ANN, "reject", 1, "approval_invalid"),
        (ASKED, ANN, "approve", 25, "approval_invalid"),
        (REJECTED, ANN, "approve", 1, "approval_invalid"),
        (USED, Actor(name="bob", role=Role.APPROVER), "reject", 1, "approval_invalid"),
        (ASKED, Actor(name="otto", role=Role.APPROVER), "approve", 1, "self_approval"),
        (ASKED, Actor(name="otto", role=Role.APPROVER), "reject", 1, "self_approval"),
        (ASKED, Actor(name="olga", role=Role.OPERATOR), "approve", 1, "not_authorized"),
        (ASKED, Actor(name="vera", role=Role.VIEWER), "reject", 1, "not_authorized"),
    ],
)
def test_who_may_decide_what(
    approval: Approval, actor: Actor, verdict: str, hours: float, code: str | None
) -> None:
    """Another approver, once, while it is open; what is approved can still be rejected."""
    now = NOON + timedelta(hours=hours)
    if code is None:
        may_decide(approval, actor, Verdict(verdict), now)
        return
    with pytest.raises((ApprovalInvalid, NotAuthorized)) as refused:
        may_decide(approval, actor, Verdict(verdict), now)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("approval", "changes", "code"),
    [
        (APPROVED, {}, None),
        (APPROVED, {"purpose": "release"}, "approval_invalid"),
        (APPROVED, {"subject_sha256": "b" * 64}, "plan_changed"),
        (APPROVED, {"needed": 2}, "approval_invalid"),
        (APPROVED, {"now": NOON + timedelta(hours=25)}, "approval_invalid"),
        (ASKED, {}, "approval_invalid"),
        (REJECTED, {}, "approval_invalid"),
        (USED, {}, "approval_invalid"),
    ],
)
def test_an_approval_is_for_one_thing(
    approval: Approval, changes: dict[str, object], code: str | None
) -> None:
    """The same purpose and hash, in time, not used, by as many as policy asks for now."""
    wanted = {"purpose": "replay", "subject_sha256": HASH, "now": NOON, **changes}
    if code is None:
        require_usable(approval, **wanted)  # type: ignore[arg-type]
        return
    with pytest.raises(ApprovalInvalid) as refused:
        require_usable(approval, **wanted)  # type: ignore[arg-type]
    assert refused.value.code == code


def test_a_release_is_bound_to_units_and_versions() -> None:
    """The hash is that of the canonical JSON; order does not matter, a version does."""
    units = [("b", 2), ("a", 7)]
    text = '{"purpose":"release","units":[["a",7],["b",2]]}'
    assert release_sha256(units) == hashlib.sha256(text.encode()).hexdigest()
    assert release_sha256(list(reversed(units))) == release_sha256(units)
    assert release_sha256([("b", 3), ("a", 7)]) != release_sha256(units)
    subject = release_subject(units, needed=2, shown={"units": "nothing"})
    assert (subject.purpose, subject.needed) == ("release", 2)
    assert subject.summary["units"] == [["a", 7], ["b", 2]]
    for wrong in ([], [("a", 1), ("a", 2)], [(str(n), 1) for n in range(1001)]):
        with pytest.raises(InvalidInput):
            release_subject(wrong)


def test_a_plan_states_purpose_and_need() -> None:
    """At least one approval, whatever the header says; and no plan is a release."""
    assert plan_subject({"purpose": "replay", "approvals_needed": 3}, HASH).needed == 3
    assert plan_subject({"purpose": "replay", "approvals_needed": 0}, HASH).needed == 1
    assert plan_subject({}, HASH).purpose == "replay"
    for header in (
        {"purpose": "release"}, {"purpose": " "}, {"purpose": 1}, {"approvals_needed": "2"},
        {"approvals_needed": True},
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as refused:
            plan_subject(header, HASH)
        assert refused.value.code == "plan_invalid"

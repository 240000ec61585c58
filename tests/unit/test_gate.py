"""The gate: every rule fires by its name, and what is not known counts as no."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import GuardRefused
from tallgrass.governance.actors import Role
from tallgrass.governance.gate import (
    SCOPES,
    Action,
    GateRequest,
    Rule,
    approvals_needed,
    gate,
    require_admitted,
)
from tallgrass.governance.policy import (
    CARE_LABELS,
    GovernanceDefaults,
    Policies,
    Policy,
    ReplayMode,
)
from tallgrass.governance.switches import SwitchedOff

BY_PERSONS = (Action.REPLAY, Action.RERUN, Action.RELEASE)
NOTHING_OFF = SwitchedOff(())


def policy(**rules: Any) -> Policy:
    """Return a policy of an open dataset, changed as given."""
    return Policy.of(
        "soil", GovernanceDefaults(**{"care_label": "public", "sensitivity": "low", **rules})
    )


def request(action: Action = Action.REPLAY, **changes: Any) -> GateRequest:
    """Return a request that is allowed, changed as given."""
    values: dict[str, Any] = {
        "action": action,
        "dataset": "soil",
        "policy": policy(),
        "switched_off": NOTHING_OFF,
        "mode": ReplayMode.SINGLE,
        "role": Role.OPERATOR if action in BY_PERSONS else None,
        "approvals": 1 if action in (Action.RERUN, Action.RELEASE) else 0,
    }
    return GateRequest(**{**values, **changes})


@pytest.mark.parametrize("action", Action)
def test_an_open_dataset_passes(action: Action) -> None:
    """With no switch, the right role and the approvals that are always needed."""
    admission = gate(request(action))
    assert (admission.rule, admission.refusal) == (None, None)
    assert (admission.care_label, admission.masking_degrees) == ("public", 0.0)


@pytest.mark.conformance("C-49")
@pytest.mark.parametrize("action", SCOPES)
@pytest.mark.parametrize("off", [None, SwitchedOff(["soil"]), SwitchedOff(["*"])])
def test_a_switch_stops_and_one_that_cannot_be_read_is_on(
    action: Action, off: SwitchedOff | None
) -> None:
    """Whatever else is allowed."""
    admission = gate(request(action, switched_off=off, approvals=9))
    assert admission.rule is Rule.KILL_SWITCH_ACTIVE
    assert admission.rule is not None


def test_switches_of_others_stop_nothing() -> None:
    """A switch of another dataset leaves this one alone; publishing is stopped on its way out."""
    assert gate(request(switched_off=SwitchedOff(["goes-glm"]))).rule is None
    assert gate(request(Action.PUBLISH, switched_off=None)).rule is None


@pytest.mark.parametrize("action", BY_PERSONS)
@pytest.mark.parametrize("role", [None, Role.VIEWER])
def test_persons_need_a_role(action: Action, role: Role | None) -> None:
    """Nobody, and somebody who may only look, replays, runs again or releases."""
    assert gate(request(action, role=role, approvals=9)).rule is Rule.NOT_AUTHORIZED


@pytest.mark.parametrize("action", [Action.INGEST, *BY_PERSONS])
def test_own_data_need_a_policy(action: Action) -> None:
    """A dataset that nobody knows is not taken."""
    assert gate(request(action, policy=None)).rule is Rule.POLICY_MISSING


@pytest.mark.parametrize("action", [Action.PUBLISH, Action.DISPATCH, Action.NODE])
def test_data_of_others_are_judged_by_their_label(action: Action) -> None:
    """Without a policy the event's own label and reference count; without a label nothing does."""

    def rule(**changes: Any) -> Rule | None:
        return gate(request(action, policy=None, **changes)).rule

    assert rule(care_label="public") is None
    assert rule() is Rule.LABEL_UNKNOWN
    assert rule(care_label="secret") is Rule.LABEL_UNKNOWN
    assert rule(care_label="restricted") is Rule.GOVERNANCE_REF_MISSING
    assert rule(care_label="restricted", governance_ref="CR-7") is None


@pytest.mark.conformance("OB-6.4")
@pytest.mark.parametrize("action", Action)
def test_restricted_data_need_a_reference(action: Action) -> None:
    """The policy's own, or one that comes with the request."""
    bare = policy(care_label="restricted")
    assert gate(request(action, policy=bare)).rule is Rule.GOVERNANCE_REF_MISSING
    assert gate(request(action, policy=bare, governance_ref="CR-7")).governance_ref == "CR-7"
    named = policy(care_label="restricted", governance_ref="CR-8")
    assert gate(request(action, policy=named)).governance_ref == "CR-8"


@pytest.mark.parametrize("action", Action)
def test_a_label_that_nobody_knows_is_refused(action: Action) -> None:
    """And whatever is made of it meanwhile is masked like the strictest."""
    admission = gate(request(action, policy=policy(care_label="secret")))
    assert (admission.rule, admission.masking_degrees) == (Rule.LABEL_UNKNOWN, 1.0)


def test_an_event_cannot_be_more_open_than_its_dataset() -> None:
    """It may be stricter: then the stricter label counts."""
    sensitive = policy(care_label="sensitive")
    for action in (Action.PUBLISH, Action.DISPATCH):
        opener = gate(request(action, policy=sensitive, care_label="public"))
        assert opener.rule is Rule.LABEL_TOO_OPEN
        stricter = gate(
            request(action, policy=sensitive, care_label="restricted", governance_ref="CR-7")
        )
        assert (stricter.rule, stricter.care_label) == (None, "restricted")


@pytest.mark.parametrize("action", [each for each in Action if each is not Action.DISPATCH])
def test_a_rejected_dataset_is_refused_with_the_reason(action: Action) -> None:
    """What was published before the rejection still leaves; nothing else does."""
    admission = gate(request(action, policy=policy(reject="under review"), approvals=9))
    assert admission.rule is Rule.DATASET_REJECTED
    assert "under review" in (admission.refusal or "")
    assert gate(request(Action.DISPATCH, policy=policy(reject="under review"))).rule is None


@pytest.mark.conformance("RP-9.1")
@pytest.mark.parametrize("needed", [1, 2, 3])
def test_policy_may_ask_for_approvers(needed: int) -> None:
    """A replay of a dataset whose policy wants approvers needs that many, not one fewer."""
    strict = policy(approvals_needed=needed)
    assert gate(request(policy=strict, approvals=needed - 1)).rule is Rule.APPROVAL_MISSING
    assert gate(request(policy=strict, approvals=needed)).rule is None


@pytest.mark.conformance("RP-9.2")
@pytest.mark.parametrize("mode", [ReplayMode.RANGE, ReplayMode.DLQ, None])
def test_policy_may_limit_the_modes(mode: ReplayMode | None) -> None:
    """No bulk without sign-off: single is allowed, range and dlq are with an approval."""
    careful = policy(replay_modes=(ReplayMode.SINGLE,))
    assert gate(request(policy=careful, mode=ReplayMode.SINGLE)).rule is None
    refused = gate(request(policy=careful, mode=mode))
    assert refused.rule is Rule.MODE_NOT_ALLOWED
    assert "single" in (refused.refusal or "")
    assert gate(request(policy=careful, mode=mode, approvals=1)).rule is None


@pytest.mark.conformance("SM-2.3b", "WAL-5.7")
@pytest.mark.parametrize("action", [Action.RERUN, Action.RELEASE])
def test_what_is_final_is_undone_only_with_an_approval(action: Action) -> None:
    """Even of the most open dataset."""
    assert gate(request(action, approvals=0)).rule is Rule.APPROVAL_MISSING
    assert approvals_needed(action, policy(), ReplayMode.SINGLE) == 1


def test_refusals_are_raised_with_their_rule() -> None:
    """The name stands in the error and first in its text."""
    with pytest.raises(GuardRefused) as caught:
        require_admitted(request(switched_off=None))
    assert caught.value.guard == "kill_switch_active"
    assert str(caught.value).startswith("kill_switch_active: ")
    assert (caught.value.code, caught.value.exit_code) == ("guard_refused", 3)
    assert require_admitted(request()).rule is None


policies = st.none() | st.builds(
    policy,
    care_label=st.sampled_from([*CARE_LABELS, "secret", ""]),
    governance_ref=st.none() | st.just("CR-7"),
    reject=st.none() | st.just("no"),
    replay_modes=st.sets(st.sampled_from(ReplayMode)).map(tuple),
    approvals_needed=st.integers(0, 3),
)
requests = st.builds(
    request,
    st.sampled_from(Action),
    policy=policies,
    switched_off=st.sampled_from([None, NOTHING_OFF, SwitchedOff(["soil"])]),
    mode=st.none() | st.sampled_from(ReplayMode),
    role=st.none() | st.sampled_from(Role),
    approvals=st.integers(0, 3),
    care_label=st.none() | st.sampled_from([*CARE_LABELS, "secret"]),
    governance_ref=st.none() | st.just("CR-9"),
)


@given(requests)
def test_what_is_allowed_keeps_every_rule(asked: GateRequest) -> None:
    """Whatever combination passes has a known label, a reference if restricted, and approvers."""
    admission = gate(asked)
    assert (admission.rule is None) == (admission.refusal is None)
    if admission.rule is not None:
        assert admission.refusal
        return
    assert admission.care_label in CARE_LABELS
    assert admission.care_label != "restricted" or admission.governance_ref
    if asked.action in SCOPES:
        assert asked.switched_off is NOTHING_OFF
    if asked.action in BY_PERSONS:
        assert asked.policy is not None
        assert asked.role in {Role.OPERATOR, Role.APPROVER}
        assert asked.approvals >= asked.policy.approvals_needed
        bulk = asked.mode not in asked.policy.replay_modes
        assert asked.approvals or (asked.action is Action.REPLAY and not bulk)


@given(requests, st.integers(1, 3))
def test_more_approvers_never_refuse(asked: GateRequest, more: int) -> None:
    """An approval can only help."""
    if gate(asked).rule is None:
        values = {name: getattr(asked, name) for name in GateRequest.__slots__}
        assert gate(GateRequest(**{**values, "approvals": asked.approvals + more})).rule is None


def test_policies_by_dataset() -> None:
    """One that nobody knows has none."""
    known = Policies([policy()])
    assert known.of("soil") == policy()
    assert known.of("other") is None

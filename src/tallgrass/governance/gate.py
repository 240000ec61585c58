"""The gate: whether something may be done to a dataset's data, and under which obligations.

One function for ingest, replay, re-run, release, publishing, dispatch and nodes. It fails closed: a
switch that could not be read is on, a label that nobody knows and a dataset without a policy are
refused where a policy is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tallgrass.errors import GuardRefused
from tallgrass.governance.actors import Role
from tallgrass.governance.policy import CARE_LABELS, RESTRICTED, Policy, ReplayMode
from tallgrass.governance.switches import SwitchedOff, SwitchScope


class Action(StrEnum):
    """What is to be done."""

    INGEST = "ingest"
    #: Of a failed unit.
    REPLAY = "replay"
    #: Of a succeeded unit.
    RERUN = "rerun"
    #: Of a quarantined unit.
    RELEASE = "release"
    PUBLISH = "publish"
    DISPATCH = "dispatch"
    NODE = "node"


class Rule(StrEnum):
    """The rules that may refuse: those of this gate, then those of a plan as a whole."""

    KILL_SWITCH_ACTIVE = "kill_switch_active"
    NOT_AUTHORIZED = "not_authorized"
    POLICY_MISSING = "policy_missing"
    LABEL_UNKNOWN = "label_unknown"
    LABEL_TOO_OPEN = "label_too_open"
    GOVERNANCE_REF_MISSING = "governance_ref_missing"
    DATASET_REJECTED = "dataset_rejected"
    MODE_NOT_ALLOWED = "mode_not_allowed"
    APPROVAL_MISSING = "approval_missing"
    SCOPE_TOO_BROAD = "scope_too_broad"
    SELECTION_TOO_LARGE = "selection_too_large"
    ATTEMPTS_EXCEEDED = "attempts_exceeded"
    DOWNGRADE_REFUSED = "downgrade_refused"
    ENV_MISMATCH = "env_mismatch"
    SLO_RISK = "slo_risk"
    PLAN_MISSING = "plan_missing"
    REFERENCE_MISSING = "reference_missing"
    REFERENCE_NOT_OPEN = "reference_not_open"
    REMEDIATION_MISSING = "remediation_missing"
    QUEUE_NOT_EMPTY = "queue_not_empty"


#: The switch that stops an action. Publishing stands in the caller's transaction: its events are
#: stopped on their way out.
SCOPES: Mapping[Action, SwitchScope] = {
    Action.INGEST: SwitchScope.INGEST,
    Action.REPLAY: SwitchScope.REPLAY,
    Action.RERUN: SwitchScope.REPLAY,
    Action.RELEASE: SwitchScope.REPLAY,
    Action.DISPATCH: SwitchScope.DISPATCH,
    Action.NODE: SwitchScope.NODES,
}
#: Of these only datasets with a policy are taken.
_OWN_DATA = frozenset({Action.INGEST, Action.REPLAY, Action.RERUN, Action.RELEASE})
#: A person asks for these.
_BY_PERSONS = frozenset({Action.REPLAY, Action.RERUN, Action.RELEASE})
#: These undo what is final: never without an approval.
_ALWAYS_APPROVED = frozenset({Action.RERUN, Action.RELEASE})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What somebody wants to do. What is left out counts against it."""

    action: Action
    dataset: str
    #: None where nobody knows the dataset.
    policy: Policy | None
    #: In the action's scope; None where it could not be read.
    switched_off: SwitchedOff | None = None
    #: Of a replay or re-run.
    mode: ReplayMode | None = None
    #: Of the person who asks; None for the pipeline's own work.
    role: Role | None = None
    #: Approvers of a usable approval that was given for exactly this.
    approvals: int = 0
    #: What an event says of itself.
    care_label: str | None = None
    governance_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the gate says. Whoever is admitted keeps to the obligations."""

    #: The rule that refuses, and what it says; both None where the action is allowed.
    rule: Rule | None = None
    refusal: str | None = None
    care_label: str = RESTRICTED
    governance_ref: str | None = None
    sovereignty: Mapping[str, str] = field(default_factory=dict)
    #: To be named in what is made.
    policy_ref: str | None = None
    #: Size of the cell that places are made as coarse as; 0: as exact as they are.
    masking_degrees: float = 1.0


def gate(request: GateRequest) -> Admission:
    """Decide; the first rule that refuses is named."""
    refused = (
        _by_switch(request)
        or _by_role(request)
        or _by_policy(request)
        or _by_label(request)
        or _by_approval(request)
    )
    rule, refusal = refused or (None, None)
    policy = request.policy
    if policy is None:
        label = request.care_label or RESTRICTED
        return Admission(
            rule=rule, refusal=refusal, care_label=label, governance_ref=request.governance_ref
        )
    return Admission(
        rule=rule,
        refusal=refusal,
        care_label=_stricter(policy.care_label, request.care_label),
        governance_ref=request.governance_ref or policy.governance_ref,
        sovereignty=policy.sovereignty,
        policy_ref=policy.policy_ref,
        masking_degrees=policy.degrees,
    )


def require_admitted(request: GateRequest) -> Admission:
    """Return the admission; a refusal is raised with its rule."""
    admission = gate(request)
    if admission.rule is not None:
        raise GuardRefused(admission.refusal or "", guard=admission.rule.value)
    return admission


def approvals_needed(action: Action, policy: Policy, mode: ReplayMode | None) -> int:
    """Return how many approvers policy wants for an action of persons; 0: none."""
    unsigned = action is Action.REPLAY and mode in policy.replay_modes
    return max(policy.approvals_needed, 0 if unsigned else 1)


_Refused = tuple[Rule, str] | None


def _by_switch(request: GateRequest) -> _Refused:
    scope = SCOPES.get(request.action)
    if scope is None:
        return None
    off = request.switched_off
    if off is None:
        text = f"the switches could not be read, so {scope.value} counts as switched off"
        return Rule.KILL_SWITCH_ACTIVE, f"{text}; mend the database and try again"
    if off.stops(request.dataset):
        text = f"{scope.value} of {request.dataset} is switched off"
        return Rule.KILL_SWITCH_ACTIVE, f"{text}; `tallgrass switches list` says by whom and why"
    return None


def _by_role(request: GateRequest) -> _Refused:
    if request.action not in _BY_PERSONS:
        return None
    if request.role is None or not request.role.includes(Role.OPERATOR):
        who = "nobody" if request.role is None else f"a {request.role.value}"
        text = f"a {request.action.value} needs an operator, and {who} asks"
        return Rule.NOT_AUTHORIZED, f"{text}; give an operator's token in TALLGRASS_TOKEN"
    return None


def _by_policy(request: GateRequest) -> _Refused:
    policy, action, dataset = request.policy, request.action, request.dataset
    if policy is None:
        if action in _OWN_DATA:
            text = f"no policy is known for {dataset}"
            return Rule.POLICY_MISSING, f"{text}; add its dataset file or its governance.policies"
        return None
    if policy.reject is not None and action is not Action.DISPATCH:
        # A unit's message names its dataset already.
        said = policy.reject if action is Action.INGEST else f"{dataset}: {policy.reject}"
        return Rule.DATASET_REJECTED, said
    return None


def _by_label(request: GateRequest) -> _Refused:
    policy, label = request.policy, request.care_label
    for known in (label, policy and policy.care_label):
        if known is not None and known not in CARE_LABELS:
            text = f"{known!r} is no care label; known are {', '.join(CARE_LABELS)}"
            return Rule.LABEL_UNKNOWN, text
    if policy is None and label is None:
        return Rule.LABEL_UNKNOWN, f"nothing says how open the data of {request.dataset} are"
    if policy is not None and label is not None and _stricter(policy.care_label, label) != label:
        text = f"{request.dataset} is {policy.care_label} by its policy, and the event says {label}"
        return Rule.LABEL_TOO_OPEN, f"{text}; label it as the policy does"
    strictest = _stricter(policy.care_label if policy else label or RESTRICTED, label)
    reference = request.governance_ref or (policy and policy.governance_ref)
    if strictest == RESTRICTED and not reference:
        text = f"{request.dataset} is restricted, and no governance_ref says what allows it"
        return Rule.GOVERNANCE_REF_MISSING, text
    return None


def _by_approval(request: GateRequest) -> _Refused:
    policy, action = request.policy, request.action
    if policy is None or action not in _BY_PERSONS:
        return None
    needed = approvals_needed(action, policy, request.mode)
    if request.approvals >= needed:
        return None
    ask = "ask with `tallgrass approvals request`"
    mode = request.mode
    if action not in _ALWAYS_APPROVED and mode not in policy.replay_modes:
        allowed = ", ".join(policy.replay_modes) or "none"
        text = f"{request.dataset} allows these modes without sign-off: {allowed}"
        named = mode.value if mode is not None else "unnamed"
        return Rule.MODE_NOT_ALLOWED, f"{text}; a {named} replay needs an approval: {ask}"
    text = f"a {action.value} of {request.dataset} needs {needed} approver{'s' * (needed > 1)}"
    return Rule.APPROVAL_MISSING, f"{text}, and has {request.approvals}; {ask}"


def _stricter(one: str, other: str | None) -> str:
    if other is None:
        return one
    return max(one, other, key=lambda label: _STRICTNESS.get(label, len(_STRICTNESS)))


_STRICTNESS = {label: rank for rank, label in enumerate(CARE_LABELS)}

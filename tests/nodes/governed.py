"""Datasets with policies, for nodes: one open, one sensitive, one that is sovereign."""

from __future__ import annotations

from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.nodes.gatekeeper import GovernanceGate

OPEN = Policy.of(
    "river_flow",
    GovernanceDefaults(care_label="public", sensitivity="none", policy_ref="policy/open-1"),
)
SENSITIVE = Policy.of("nest_sites", GovernanceDefaults(care_label="sensitive", sensitivity="high"))
SOVEREIGN = Policy.of(
    "tribal_wells",
    GovernanceDefaults(
        care_label="restricted",
        sensitivity="sovereign",
        governance_ref="council/2026-7",
        sovereignty={"nation": "Prairie Band Potawatomi", "contact": "data office"},
        policy_ref="policy/wells-3",
    ),
)


def governed_gate() -> GovernanceGate:
    """A gate that knows the three."""
    return GovernanceGate(Policies([OPEN, SENSITIVE, SOVEREIGN]))

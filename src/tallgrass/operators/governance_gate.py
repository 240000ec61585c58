"""The governance gate: may the unit enter the catalog at all?

A rejection is final: the unit is quarantined and only an approved release brings it back.
"""

from dataclasses import dataclass

from tallgrass.datasets.definition import Dataset

NAME = "governance-gate"
REJECTED = "governance_hard_fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the gate says; `rejection` is the reason of a refusal."""

    rejection: str | None
    care_label: str
    sensitivity: str


def governance_gate(dataset: Dataset) -> Admission:
    """Decide by the dataset's own defaults."""
    rules = dataset.governance
    return Admission(
        rejection=rules.reject, care_label=rules.care_label, sensitivity=rules.sensitivity
    )

"""What governs a dataset: labels, masking, and what a replay of it needs.

A dataset's file gives the defaults; a table ``[governance.policies.DATASET]`` of the configuration
replaces single rules of them. Both shape outputs, so both count in `config_version`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

#: How open a dataset's data are, the most open first.
CARE_LABELS = ("public", "sensitive", "restricted")
RESTRICTED = "restricted"

#: Sizes of cells that places may be made as coarse as; 0: told as exactly as they are.
MASKING_DEGREES = (0.0, 0.001, 0.01, 0.1, 1.0)
#: By label, where no rule says it: what is not open is not told exactly.
_DEGREES_BY_LABEL = {"public": 0.0, "sensitive": 0.1, RESTRICTED: 1.0}


class ReplayMode(StrEnum):
    """How much a replay takes at once."""

    SINGLE = "single"
    RANGE = "range"
    DLQ = "dlq"


class Overwrite(StrEnum):
    """What becomes of a source object that was overwritten in place."""

    #: It is ingested again.
    REINGEST = "reingest"
    #: The first version stays; the newer one is counted, not taken.
    KEEP = "keep"
    #: The newer one is written down and waits for a replay with an approval.
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceDefaults:
    """What holds for a dataset unless a policy says otherwise."""

    care_label: str
    sensitivity: str
    #: Rejects every unit of the dataset, with this reason, or None.
    reject: str | None = None
    #: What allows the data to be told of; restricted data need one.
    governance_ref: str | None = None
    #: Whose data these are and what follows from it; events carry it as it is declared.
    sovereignty: Mapping[str, str] = field(default_factory=dict)
    #: Modes of replay that need no sign-off; the others need an approval.
    replay_modes: tuple[ReplayMode, ...] = tuple(ReplayMode)
    #: Approvers that every replay of the dataset needs.
    approvals_needed: int = 0
    #: Size of the cell that places are made as coarse as; None: by the care label.
    masking_degrees: float | None = None
    #: None: as the setting `ledger.reingest` says.
    overwrite: Overwrite | None = None
    #: Named in items and provenance, where it is given: the policy under which they were made.
    policy_ref: str | None = None
    #: Items are shown as expired so many days after the end of their data: the provider keeps its
    #: objects no longer. Their bytes stay as they are.
    expires_after_days: int | None = None

    @property
    def lacks_reference(self) -> bool:
        """Whether nothing says what allows restricted data to be told of; rejected ones are not."""
        is_told = self.care_label == RESTRICTED and self.reject is None
        return is_told and self.governance_ref is None

    @property
    def degrees(self) -> float:
        """The size of the cell that places are made as coarse as; 0: as exact as they are.

        A label that nobody knows is masked like the strictest.
        """
        if self.masking_degrees is not None:
            return self.masking_degrees
        return _DEGREES_BY_LABEL.get(self.care_label, max(_DEGREES_BY_LABEL.values()))


_RULES = tuple(each.name for each in fields(GovernanceDefaults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(GovernanceDefaults):
    """The rules of one dataset, as they stand."""

    dataset: str

    @classmethod
    def of(cls, dataset: str, rules: GovernanceDefaults) -> Self:
        """Return rules under the name of their dataset."""
        return cls(dataset=dataset, **{name: getattr(rules, name) for name in _RULES})


class Policies:
    """The policies of all datasets that are known."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self._by_dataset = {policy.dataset: policy for policy in policies}

    def of(self, dataset: str) -> Policy | None:
        """Return a dataset's policy; None where nobody knows the dataset."""
        return self._by_dataset.get(dataset)

    @property
    def mask_places(self) -> bool:
        """Whether there is a dataset whose places are not told exactly."""
        return any(policy.degrees for policy in self._by_dataset.values())


#: Fields of a policy that a configuration gives in place of the defaults, already checked.
Overlay = Mapping[str, Any]

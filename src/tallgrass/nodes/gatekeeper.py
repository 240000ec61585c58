"""The gate before every node: kill switches first, then what governs its dataset."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from tallgrass.errors import GovernanceError, NodeParked
from tallgrass.governance.gate import Action, Admission, GateRequest, Rule, gate
from tallgrass.governance.policy import Policies
from tallgrass.governance.switches import SwitchedOff
from tallgrass.nodes.protocols import NodeDeclaration
from tallgrass.nodes.values import hash_of_identity

#: Stands for the dataset of a node that has none.
NO_DATASET: Final = "-"

#: Reads what is switched off for nodes; None where it cannot be read, which stops everything.
SwitchReader = Callable[[], SwitchedOff | None]
#: Dataset, label and reference, as a node declares them.
_Said = tuple[str | None, str | None, str | None]


def nothing_switched_off() -> SwitchedOff:
    """Say that no switch is set: for runners that have no database."""
    return SwitchedOff(())


class GovernanceGate:
    """The one gate of all work, asked for nodes.

    A node without a dataset works on open data unless it says otherwise; one with a dataset needs a
    policy for it, or a label of its own.
    """

    def __init__(
        self, policies: Policies | None = None, switches: SwitchReader = nothing_switched_off
    ) -> None:
        self._policies = policies or Policies()
        self._switches = switches
        #: What was decided where no switch is set: it depends on the node's own words and on the
        #: policies, which stay. To decide anew took 20 µs, to make a fingerprint 10.
        self._admitted: dict[_Said, Admission] = {}
        self._fingerprints: dict[_Said, str] = {}

    def fingerprint(self, declaration: NodeDeclaration) -> str:
        """Return what changes when the policy that governs the node does."""
        said = _said(declaration)
        known = self._fingerprints.get(said)
        if known is None:
            policy = self._policies.of(declaration.dataset or NO_DATASET)
            rules = None if policy is None else {**asdict(policy), "replay_modes": None}
            known = self._fingerprints[said] = hash_of_identity([rules, *said])
        return known

    def admit(self, declaration: NodeDeclaration) -> Admission:
        """Return the admission; raise `NodeParked` by a switch, `GovernanceError` by a policy."""
        said, off = _said(declaration), self._switches()
        known = self._admitted.get(said)
        if known is not None and off is not None and not off.stops(said[0] or NO_DATASET):
            return known
        admission = gate(self._request(declaration, off))
        if admission.rule is None:
            self._admitted[said] = admission
            return admission
        refused = NodeParked if admission.rule is Rule.KILL_SWITCH_ACTIVE else GovernanceError
        raise refused(admission.refusal or "", guard=admission.rule.value)

    def _request(self, declaration: NodeDeclaration, off: SwitchedOff | None) -> GateRequest:
        dataset = declaration.dataset
        return GateRequest(
            action=Action.NODE,
            dataset=dataset or NO_DATASET,
            policy=self._policies.of(dataset) if dataset is not None else None,
            switched_off=off,
            care_label=declaration.care_label or ("public" if dataset is None else None),
            governance_ref=declaration.governance_ref,
        )


def _said(declaration: NodeDeclaration) -> _Said:
    return declaration.dataset, declaration.care_label, declaration.governance_ref

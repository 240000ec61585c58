"""The governance gate: may the unit enter the catalog at all, and under which obligations?

A rejection is final: the unit is quarantined and only an approved release brings it back. A dataset
of the catalogue carries the rules that hold for it, its configured policy included.
"""

from tallgrass.datasets.definition import Dataset
from tallgrass.governance.gate import Action, Admission, GateRequest, gate
from tallgrass.governance.policy import Policy
from tallgrass.governance.switches import SwitchedOff

NAME = "governance-gate"
REJECTED = "governance_hard_fail"

#: A unit that was claimed is finished: switches are asked when it is claimed.
_CLAIMED = SwitchedOff(())
_KEPT_MAX = 1024

# A dataset has no hash: admissions are found by identity. 0.1 µs, against 6 µs to decide anew for
# each unit.
_admissions: dict[int, tuple[Dataset, Admission]] = {}


def governance_gate(dataset: Dataset) -> Admission:
    """Decide by the dataset's policy."""
    known = _admissions.get(id(dataset))
    if known is not None:
        return known[1]
    if len(_admissions) > _KEPT_MAX:
        _admissions.clear()
    admission = gate(
        GateRequest(
            action=Action.INGEST,
            dataset=dataset.id,
            policy=Policy.of(dataset.id, dataset.governance),
            switched_off=_CLAIMED,
        )
    )
    # The dataset is kept, so that its identity is not given to another.
    _admissions[id(dataset)] = (dataset, admission)
    return admission

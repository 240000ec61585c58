"""Approvals, references and audit entries as documents, the same for all fronts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallgrass.views.text import plain

if TYPE_CHECKING:
    from tallgrass.governance.approvals import Approval, ApprovalState
    from tallgrass.governance.audit import StoredEntry
    from tallgrass.governance.references import Reference


def approval_document(approval: Approval, state: ApprovalState) -> dict[str, Any]:
    """Return an approval, with where it stands and how many approvals count."""
    values: dict[str, Any] = plain(approval)
    return {"state": state.value, **values, "approvals": approval.approvals}


def reference_state(reference: Reference) -> str:
    """Tell whether a change record or an incident is open."""
    return "open" if reference.closed_at is None else "closed"


def reference_document(reference: Reference) -> dict[str, Any]:
    """Return a change record or an incident, with whether it is open."""
    values: dict[str, Any] = plain(reference)
    return {**values, "state": reference_state(reference)}


def entry_document(entry: StoredEntry) -> dict[str, Any]:
    """Return an entry of the log; its detail is the document that it holds."""
    values: dict[str, Any] = plain(entry)
    return {**values, "detail": json.loads(entry.detail)}

"""What a unit's success would write: staged by the operators, written by the commit."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from tallgrass.ledger.claim import OwnedItem
from tallgrass.ledger.outcome import Outcome
from tallgrass.made_often import made_often
from tallgrass.outbox.routing import DEFAULT_TARGET

__all__ = [
    "ChainResult",
    "Effects",
    "EventEffect",
    "ItemEffect",
    "OwnedItem",
    "ProvenanceEffect",
]


@made_often
class ItemEffect:
    """An item to write, as the bytes that are stored."""

    collection_id: str
    item_id: str
    body: bytes
    sha256: str
    bbox: tuple[float, float, float, float]
    #: Its `datetime`, and the range that it spans.
    instant: datetime
    start: datetime
    end: datetime
    #: Those of its properties that the summaries of its collection tell.
    summarised: Mapping[str, object] = field(default_factory=dict)


@made_often
class ProvenanceEffect:
    """A PROV-O document: its pure body, and the part that differs from run to run."""

    activity_id: str
    body: bytes
    sha256: str
    run: bytes


@made_often
class EventEffect:
    """An outgoing event; the commit makes one outbox row of it for each target."""

    event_name: str
    dataset_id: str
    version: str
    idempotency_key: str
    payload: bytes
    care_label: str
    governance_ref: str | None = None
    targets: tuple[str, ...] = (DEFAULT_TARGET,)


@made_often
class Effects:
    """All that a unit's success writes beside the ledger."""

    #: None where the stored item is the same already.
    item: ItemEffect | None = None
    #: The unit's item under the id that it has until now, where `item` has another id.
    replaces: OwnedItem | None = None
    provenance: ProvenanceEffect | None = None
    events: tuple[EventEffect, ...] = ()


@made_often
class ChainResult:
    """The report of one attempt, and what it stages. A failure stages nothing."""

    outcome: Outcome
    effects: Effects = Effects()
    #: Of the governance gate that refused the unit, if it did; told, not stored.
    rule_id: str | None = None

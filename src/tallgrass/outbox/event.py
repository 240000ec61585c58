"""An event on its way out: the recorded row as a sink sees it."""

from datetime import datetime
from typing import NamedTuple


class EventTrace(NamedTuple):
    """The W3C trace contexts that leave with an event, each as a `traceparent`."""

    #: Of the span that wrote the event: the same at every attempt, and it goes with the event.
    created: str
    #: Of the span of this send: it goes with the request.
    sent: str


class OutboxEvent(NamedTuple):
    """One event for one target, claimed for one attempt. A tuple: thousands are made a second."""

    outbox_id: str
    #: What the event is about: a unit's wal_id, or what the publisher named.
    subject: str
    pipeline_id: str
    event_name: str
    dataset_id: str
    version: str
    #: Consumers recognise a repetition by it; the same for all targets of an event.
    idempotency_key: str
    target: str
    #: Sent as it stands.
    payload: bytes
    care_label: str
    governance_ref: str | None
    created_at: datetime
    #: Of this claim; the fencing token.
    attempt: int
    #: None where nobody keeps traces.
    trace: EventTrace | None = None

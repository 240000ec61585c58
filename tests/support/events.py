"""Events in the outbox, written as any program would: by raw SQL."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallgrass.sinks.protocol import Delivered, Undelivered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery
    from tests.support.backends import Backend

CREATED_AT = "2026-06-01T12:00:00.000000Z"

_INSERT = (
    "INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,"
    " idempotency_key, target, payload, care_label, created_at)"
    " VALUES (?, ?, 'pipeline', ?, ?, '1.0.0', ?, ?, ?, 'public', ?)"
)


def event_id(number: int) -> str:
    """Return the id of an event by its number."""
    return str(uuid.UUID(int=number, version=4))


def payload_of(number: int) -> bytes:
    """Return the payload of an event."""
    return json.dumps({"number": number}).encode()


def row(
    number: int,
    *,
    target: str = "t",
    dataset: str = "d",
    event_name: str = "made",
    created_at: str = CREATED_AT,
) -> tuple[Any, ...]:
    """Return the values of one event."""
    subject, key = f"subject-{number}", f"key-{number}"
    return (
        event_id(number), subject, event_name, dataset, key, target, payload_of(number), created_at
    )  # fmt: skip


def insert(connection: Any, backend: Backend, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert events over a connection of the test's own."""
    statement = _INSERT if backend.name == "sqlite" else _INSERT.replace("?", "%s")
    if backend.name == "sqlite":
        connection.executemany(statement, rows)
        return
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def write(backend: Backend, *numbers: int, **changes: Any) -> list[str]:
    """Write events in one transaction; return their ids."""
    connection = backend.connect()
    connection.execute("BEGIN")
    insert(connection, backend, [row(number, **changes) for number in numbers])
    connection.execute("COMMIT")
    connection.close()
    return [event_id(number) for number in numbers]


@dataclass
class MemorySink:
    """A target in memory: it keeps what it gets, and answers as it is told."""

    batch_max: int = 100
    #: Ids in the order in which they came, each time.
    sent: list[str] = field(default_factory=list)
    events: list[OutboxEvent] = field(default_factory=list)
    #: The answers to come, for each event in turn; then all is delivered.
    answers: list[Delivery | Exception] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Take events."""
        self.sizes.append(len(events))
        given: list[Delivery] = []
        for event in events:
            self.sent.append(event.outbox_id)
            self.events.append(event)
            answer = self.answers.pop(0) if self.answers else Delivered()
            if isinstance(answer, Exception):
                raise answer
            given.append(answer)
        return given

    def close(self) -> None:
        """Nothing is open."""


def down(**changes: Any) -> Undelivered:
    """Return the answer of a target that is down."""
    values: dict[str, Any] = {"code": "sink_unreachable", "message": "connection refused"}
    return Undelivered(**{**values, **changes})

"""What the payload of an item event names; the sinks that copy items and provenance need it."""

from collections.abc import Mapping

import orjson

from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.protocol import Undelivered

Names = Mapping[str, str]


def names_in(event: OutboxEvent, *wanted: str) -> Names | Undelivered:
    """Return the wanted fields of a payload; without them the event is of another kind."""
    try:
        payload = orjson.loads(event.payload)
    except orjson.JSONDecodeError:
        payload = None
    names = {name: payload.get(name) for name in wanted} if isinstance(payload, dict) else {}
    found = {name: value for name, value in names.items() if isinstance(value, str) and value}
    if len(found) == len(wanted):
        return found
    return Undelivered(
        code="sink_misconfigured",
        message=f"{event.event_name} names no {' and '.join(wanted)}: route only nodd.item.* here",
        permanent=True,
    )

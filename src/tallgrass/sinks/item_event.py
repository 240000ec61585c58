"""What the payload of an item event names; the sinks that copy items and provenance need it."""

from collections.abc import Mapping

import orjson

from tallgrass.outbox.event import OutboxEvent
from tallgrass.outbox.payload_rules import REPLACES
from tallgrass.sinks.protocol import Undelivered

Names = Mapping[str, str]


def names_in(event: OutboxEvent, *wanted: str) -> Names | Undelivered:
    """Return the wanted fields of a payload; without them the event is of another kind."""
    payload = _payload(event)
    names = {name: payload.get(name) for name in wanted}
    found = {name: value for name, value in names.items() if isinstance(value, str) and value}
    if len(found) == len(wanted):
        return found
    return Undelivered(
        code="sink_misconfigured",
        message=f"{event.event_name} names no {' and '.join(wanted)}: route only nodd.item.* here",
        permanent=True,
    )


def replaces_another(event: OutboxEvent) -> bool:
    """Tell whether the event's item had another id until then."""
    return bool(_payload(event).get(REPLACES))


def _payload(event: OutboxEvent) -> Mapping[str, object]:
    try:
        payload = orjson.loads(event.payload)
    except orjson.JSONDecodeError:
        return {}
    return payload if isinstance(payload, dict) else {}

"""Which form an event has: each is known by a field that only it has."""

from collections.abc import Callable
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import Said
from tallgrass.intake.event_grid import read_cloud_event, read_grid_event
from tallgrass.intake.eventbridge import read_eventbridge
from tallgrass.intake.gcs_event import read_gcs_message
from tallgrass.intake.nexrad_chunk import read_chunk
from tallgrass.intake.s3_event import read_s3_event, read_test_event

#: Field → reader of the events that have it; the most frequent first. A further form is one more
#: line and one more function.
FORMS: tuple[tuple[str, Callable[[dict[str, Any]], list[Said]]], ...] = (
    ("Records", read_s3_event),
    ("S3Bucket", read_chunk),
    ("Event", read_test_event),
    ("detail-type", read_eventbridge),
    ("attributes", read_gcs_message),
    ("specversion", read_cloud_event),
    ("eventType", read_grid_event),
)


def read_event(event: Any) -> list[Said]:
    """Return what an event says of objects; one that cannot be understood is a single fault."""
    if not isinstance(event, dict):
        return [InvalidInput("no known form of message: neither an object nor a list of objects")]
    for mark, reader in FORMS:
        if mark in event:
            try:
                return reader(event)
            except InvalidInput as exc:
                return [exc]
    names = ", ".join(sorted(event)[:5])[:100]
    return [InvalidInput(f"no known form of message; its fields are {names or 'none'}")]

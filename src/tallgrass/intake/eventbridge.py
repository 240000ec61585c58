"""S3 events by way of EventBridge: other names for the same, and keys that are not encoded."""

from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import DELETION, OTHER_EVENT, Announced, Said
from tallgrass.intake.fields import (
    required_key,
    required_text,
    short_text,
    size_in_bytes,
    table_of,
)
from tallgrass.ledger.unit import ObjectReference

#: Detail type → why it makes no unit; None where it does.
_KINDS = {
    "Object Created": None,
    "Object Deleted": DELETION,
    "Object Restore Initiated": OTHER_EVENT,
    "Object Restore Completed": OTHER_EVENT,
    "Object Restore Expired": OTHER_EVENT,
    "Object Storage Class Changed": OTHER_EVENT,
    "Object Access Tier Changed": OTHER_EVENT,
    "Object ACL Updated": OTHER_EVENT,
    "Object Tags Added": OTHER_EVENT,
    "Object Tags Deleted": OTHER_EVENT,
}


def read_eventbridge(event: dict[str, Any]) -> list[Said]:
    """Return the object of an event whose source is ``aws.s3``."""
    source = required_text(event, "source")
    if source != "aws.s3":
        raise InvalidInput(f"an EventBridge event of {source[:60]!r}, not of S3")
    kind = required_text(event, "detail-type")
    if kind not in _KINDS:
        raise InvalidInput(f"unknown EventBridge event {kind[:60]!r}")
    detail = table_of(event, "detail")
    obj = table_of(detail, "object")
    return [
        Announced(
            provider="aws",
            bucket=required_text(table_of(detail, "bucket"), "name"),
            key=required_key(obj, "key"),
            event_time=event.get("time"),
            object_ref=ObjectReference(
                etag=short_text(obj, "etag"),
                size=size_in_bytes(obj, "size"),
                sequencer=short_text(obj, "sequencer"),
                version_id=short_text(obj, "version-id"),
            ),
            ignored=_KINDS[kind],
        )
    ]

"""S3 event notifications of the major version 2: one or many records, and the test event."""

from functools import lru_cache
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import DELETION, OTHER_EVENT, RECORDS_MAX, Announced, Said
from tallgrass.intake.fields import required_text, short_text, size_in_bytes, table_of
from tallgrass.intake.message import Ignored, IgnoreReason
from tallgrass.ledger.object_uri import key_of_event
from tallgrass.ledger.unit import ObjectReference

#: A feed has few kinds of events: each is looked into once, which saves 1 µs a record.
_KINDS_KEPT = 64
#: Minor versions add fields, which are passed over; another major version means something else.
_MAJOR = "2."
_CREATED = "ObjectCreated"
_DELETED = frozenset({"LifecycleExpiration", "ObjectRemoved", "ReducedRedundancyLostObject"})
#: What happens to objects without making one.
_OTHER = frozenset(
    {
        "IntelligentTiering",
        "LifecycleTransition",
        "ObjectAcl",
        "ObjectAnnotation",
        "ObjectRestore",
        "ObjectTagging",
        "Replication",
    }
)


def read_test_event(event: dict[str, Any]) -> list[Said]:
    """Return that S3 only tries a notification that was just set up."""
    if event["Event"] != "s3:TestEvent":
        raise InvalidInput(f"unknown S3 event {str(event['Event'])[:60]!r}")
    return [Ignored(reason=IgnoreReason.TEST_EVENT.value)]


def read_s3_event(event: dict[str, Any]) -> list[Said]:
    """Return what each record says, or why it cannot be understood."""
    records = event["Records"]
    if not isinstance(records, list) or not records:
        raise InvalidInput("Records is not a list of records", code="missing_required_field")
    if len(records) > RECORDS_MAX:
        raise InvalidInput(f"{len(records)} records; at most {RECORDS_MAX} are read")
    return [_said(record) for record in records]


def _said(record: Any) -> Said:
    try:
        return _read_record(record)
    except InvalidInput as exc:
        return exc


def _read_record(record: Any) -> Announced:
    if not isinstance(record, dict):
        raise InvalidInput("the record is not an object")
    ignored = _ignored(record)
    details = table_of(record, "s3")
    obj = table_of(details, "object")
    return Announced(
        provider="aws",
        bucket=required_text(table_of(details, "bucket"), "name"),
        key=_key(obj),
        event_time=record.get("eventTime"),
        object_ref=ObjectReference(
            etag=short_text(obj, "eTag"),
            size=size_in_bytes(obj, "size"),
            sequencer=short_text(obj, "sequencer"),
            version_id=short_text(obj, "versionId"),
        ),
        ignored=ignored,
    )


def _ignored(record: dict[str, Any]) -> str | None:
    """Return why the record's event makes no unit, or None if it does."""
    try:
        return _kind(record.get("eventSource"), record.get("eventVersion"), record.get("eventName"))
    except TypeError as exc:  # a list or an object, which no cache can hold
        raise InvalidInput("eventSource, eventVersion or eventName is not a text") from exc


@lru_cache(maxsize=_KINDS_KEPT)
def _kind(event_source: Any, event_version: Any, event_name: Any) -> str | None:
    """Return why such events make no unit, or None if they do; others are refused."""
    said = {"eventSource": event_source, "eventVersion": event_version, "eventName": event_name}
    source = short_text(said, "eventSource")
    version = required_text(said, "eventVersion")
    name = required_text(said, "eventName")
    if source is not None and source.rpartition(":")[2] != "s3":
        raise InvalidInput(f"an event of {source[:60]!r}, not of S3")
    if not version.startswith(_MAJOR):
        raise InvalidInput(
            f"the S3 event version {version[:20]!r} is not read, only 2.x",
            code="unsupported_schema_version",
        )
    family = name.removeprefix("s3:").partition(":")[0]
    if family == _CREATED:
        return None
    if family in _DELETED:
        return DELETION
    if family in _OTHER:
        return OTHER_EVENT
    raise InvalidInput(f"unknown S3 event {name[:60]!r}")


def _key(obj: dict[str, Any]) -> str:
    """Return the key, which S3 sends URL-encoded."""
    encoded = obj.get("key")
    if not isinstance(encoded, str) or not encoded:
        raise InvalidInput("key is missing", code="missing_required_field")
    return key_of_event(encoded)

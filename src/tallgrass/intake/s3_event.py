"""S3 event notifications of the major version 2: one or many records, and the test event."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.fields import required_text, short_text, table_of
from tallgrass.ledger.object_uri import key_of_event
from tallgrass.ledger.unit import ObjectReference

PROVIDER = "aws"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """An object that a record speaks of."""

    bucket: str
    #: Decoded: as the object store knows it.
    key: str
    #: As the record gives it; None where it has none.
    event_time: Any
    object_ref: ObjectReference
    #: None for a new object; else why the record is passed over.
    ignored: str | None = None


def is_test_event(event: Any) -> bool:
    """Tell whether S3 sent it to try a notification that was just set up."""
    return isinstance(event, dict) and event.get("Event") == "s3:TestEvent"


def records_of(event: Any) -> list[Any]:
    """Return the records of an event; what is no S3 event is refused."""
    if not isinstance(event, dict):
        raise InvalidInput("the message is neither an SNS envelope nor an S3 event")
    records = event.get("Records")
    if records is None:
        names = ", ".join(sorted(event)[:5])[:100]
        raise InvalidInput(f"no known form of message; its fields are {names or 'none'}")
    if not isinstance(records, list) or not records:
        raise InvalidInput("Records is not a list of records", code="missing_required_field")
    return records


def read_records(records: list[Any]) -> Iterator[Announced | InvalidInput]:
    """Yield what each record says, or why it cannot be understood."""
    for record in records:
        try:
            yield _read_record(record)
        except InvalidInput as exc:
            yield exc


def _read_record(record: Any) -> Announced:
    if not isinstance(record, dict):
        raise InvalidInput("the record is not an object")
    ignored = _ignored(record)
    details = table_of(record, "s3")
    obj = table_of(details, "object")
    size = obj.get("size")
    if size is not None and (type(size) is not int or size < 0):
        raise InvalidInput("size is not a whole number from 0")
    return Announced(
        bucket=required_text(table_of(details, "bucket"), "name"),
        key=_key(obj),
        event_time=record.get("eventTime"),
        object_ref=ObjectReference(
            etag=short_text(obj, "eTag"),
            size=size,
            sequencer=short_text(obj, "sequencer"),
            version_id=short_text(obj, "versionId"),
        ),
        ignored=ignored,
    )


def _ignored(record: dict[str, Any]) -> str | None:
    """Return why the record's event makes no unit, or None if it does."""
    source = short_text(record, "eventSource")
    if source is not None and source.rpartition(":")[2] != "s3":
        raise InvalidInput(f"an event of {source[:60]!r}, not of S3")
    version = required_text(record, "eventVersion")
    if not version.startswith(_MAJOR):
        raise InvalidInput(
            f"the S3 event version {version[:20]!r} is not read, only 2.x",
            code="unsupported_schema_version",
        )
    name = required_text(record, "eventName")
    family = name.removeprefix("s3:").partition(":")[0]
    if family == _CREATED:
        return None
    if family in _DELETED:
        return "deletion"
    if family in _OTHER:
        return "other_event"
    raise InvalidInput(f"unknown S3 event {name[:60]!r}")


def _key(obj: dict[str, Any]) -> str:
    """Return the decoded key; bytes that are no UTF-8 are refused, or two keys would become one."""
    encoded = obj.get("key")
    if not isinstance(encoded, str) or not encoded:
        raise InvalidInput("key is missing", code="missing_required_field")
    key = key_of_event(encoded)
    if "\ufffd" in key and "\ufffd" not in encoded and "%EF%BF%BD" not in encoded.upper():
        raise InvalidInput(f"the key {encoded[:80]!r} is not UTF-8", code="invalid_object_uri")
    return key

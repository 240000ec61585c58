"""Azure Blob Storage by Event Grid, in both schemas: CloudEvents 1.0 and Event Grid's older one.

Container and key are taken from ``subject``, the storage account from the resource that sent it.
"""

import re
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import DELETION, OTHER_EVENT, Announced, Said
from tallgrass.intake.fields import required_key, required_text, short_text, size_in_bytes, table_of
from tallgrass.intake.message import Ignored
from tallgrass.ledger.object_uri import azure_bucket
from tallgrass.ledger.unit import ObjectReference

_FAMILY = "Microsoft.Storage."
#: Event type → why it makes no unit; None where it does. A rename names two objects: not read.
_KINDS = {"BlobCreated": None, "BlobDeleted": DELETION, "BlobTierChanged": OTHER_EVENT}
#: These are about no single blob.
_OF_NO_BLOB = frozenset(
    {
        "AsyncOperationInitiated",
        "BlobInventoryPolicyCompleted",
        "DirectoryCreated",
        "DirectoryDeleted",
        "LifecyclePolicyCompleted",
    }
)
_ACCOUNT = re.compile(r"/Microsoft\.Storage/storageAccounts/([^/]+)$", re.IGNORECASE)
_BLOB = re.compile(r"/blobServices/default/containers/([^/]+)/blobs/(.+)", re.DOTALL)


def read_cloud_event(event: dict[str, Any]) -> list[Said]:
    """Return the blob of a CloudEvent."""
    version = required_text(event, "specversion")
    if version != "1.0":
        raise InvalidInput(
            f"the CloudEvents version {version[:20]!r} is not read, only 1.0",
            code="unsupported_schema_version",
        )
    return _read(event, kind="type", sender="source", time="time")


def read_grid_event(event: dict[str, Any]) -> list[Said]:
    """Return the blob of an event in Event Grid's own schema."""
    return _read(event, kind="eventType", sender="topic", time="eventTime")


def _read(event: dict[str, Any], *, kind: str, sender: str, time: str) -> list[Said]:
    """Read either schema; they differ in the names of three fields."""
    name = required_text(event, kind)
    family, _, what = name.rpartition(".")
    if f"{family}." == _FAMILY and what in _OF_NO_BLOB:
        return [Ignored(reason=OTHER_EVENT)]
    if f"{family}." != _FAMILY or what not in _KINDS:
        raise InvalidInput(f"unknown Event Grid event {name[:60]!r}")
    blob = _BLOB.fullmatch(required_key(event, "subject"))
    account = _ACCOUNT.search(required_text(event, sender))
    if blob is None or account is None:
        raise InvalidInput(
            f"{'subject' if blob is None else sender} names no "
            f"{'blob' if blob is None else 'storage account'}",
            code="missing_required_field",
        )
    data = table_of(event, "data")
    etag = short_text(data, "eTag")
    return [
        Announced(
            provider="azure",
            bucket=azure_bucket(account[1], blob[1]),
            key=blob[2],
            event_time=event.get(time),
            object_ref=ObjectReference(
                # Some senders keep the quotes of the HTTP header.
                etag=None if etag is None else etag.strip('"') or None,
                size=size_in_bytes(data, "contentLength"),
                sequencer=short_text(data, "sequencer"),
                version_id=None,
            ),
            ignored=_KINDS[what],
        )
    ]

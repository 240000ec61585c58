"""Cloud Storage notifications of Pub/Sub: attributes, and the object's description if it is there.

What the attributes say holds; the description only adds size and hash. Its ``etag`` is not kept: it
changes with the object's metadata, and reading the object gives another one. The MD5 in hexadecimal
is what reading gives.
"""

import binascii
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import DELETION, METADATA_UPDATE, Announced, Said
from tallgrass.intake.fields import (
    decimal_number,
    required_key,
    required_text,
    short_text,
    table_of,
)
from tallgrass.ledger.unit import ObjectReference

#: Event type → why it makes no unit; None where it does.
_KINDS = {
    "OBJECT_FINALIZE": None,
    "OBJECT_METADATA_UPDATE": METADATA_UPDATE,
    "OBJECT_DELETE": DELETION,
    # The live version went, deleted or replaced; its successor announces itself.
    "OBJECT_ARCHIVE": DELETION,
}
_MD5_BYTES = 16


def read_gcs_message(message: dict[str, Any]) -> list[Said]:
    """Return the object of a Pub/Sub message whose `data` are loaded already."""
    attributes = table_of(message, "attributes")
    kind = required_text(attributes, "eventType")
    if kind not in _KINDS:
        raise InvalidInput(f"unknown Cloud Storage event {kind[:60]!r}")
    bucket = required_text(attributes, "bucketId")
    key = required_key(attributes, "objectId")
    described = {} if message.get("data") is None else table_of(message, "data")
    if (described.get("bucket", bucket), described.get("name", key)) != (bucket, key):
        raise InvalidInput("attributes and data name different objects")
    generation = decimal_number(attributes, "objectGeneration")
    if generation is None:
        generation = decimal_number(described, "generation")
    return [
        Announced(
            provider="gcp",
            bucket=bucket,
            key=key,
            event_time=attributes.get("eventTime") or message.get("publishTime"),
            object_ref=ObjectReference(
                etag=_md5(described),
                size=decimal_number(described, "size"),
                # Of one width, so that text order is number order.
                sequencer=None if generation is None else f"{generation:019d}",
                version_id=None if generation is None else str(generation),
            ),
            ignored=_KINDS[kind],
        )
    ]


def _md5(described: dict[str, Any]) -> str | None:
    """Return the MD5 in hexadecimal; composite objects have none."""
    encoded = short_text(described, "md5Hash")
    if encoded is None:
        return None
    try:
        digest = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as exc:
        raise InvalidInput("md5Hash is not base64") from exc
    if len(digest) != _MD5_BYTES:
        raise InvalidInput("md5Hash is not an MD5")
    return digest.hex()

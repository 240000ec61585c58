"""Items whose object is gone, or will be: shown with `expires`, while their stored bytes stay.

The field is that of the timestamps extension. Hashes, provenance and `verify` know nothing of it.
"""

from datetime import datetime

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.stac.extensions import EXPIRES_SCHEMA


def with_expiry(body: bytes, expires_at: datetime | None) -> bytes:
    """Return an item as it is shown; one that does not expire, byte by byte as it is stored."""
    if expires_at is None:
        return body
    item = orjson.loads(body)
    item["properties"]["expires"] = format_instant(expires_at)
    item["stac_extensions"] = sorted({*item.get("stac_extensions", ()), EXPIRES_SCHEMA})
    return canonical_bytes(item)

"""Signatures of webhooks by the Standard Webhooks specification: HMAC-SHA256 of id.time.body."""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from tallgrass.errors import ConfigError

_PREFIX = "whsec_"
#: By the specification.
_KEY_BYTES = range(24, 65)


def read_secret(text: str) -> bytes:
    """Return the key of a secret: base64, after `whsec_`."""
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except ValueError:  # of base64, or a character that is not ASCII
        raise ConfigError(f"secret: a secret is {_PREFIX} and base64") from None
    if len(key) not in _KEY_BYTES:
        raise ConfigError(
            f"secret: a key has {_KEY_BYTES[0]} to {_KEY_BYTES[-1]} bytes, not {len(key)}"
        )
    return key


def signed_headers(
    keys: Sequence[bytes], message_id: str, at: datetime, body: bytes
) -> Mapping[str, str]:
    """Return the headers that prove a request; one signature a key, so that keys can be changed."""
    seconds = str(int(at.timestamp()))
    signed = f"{message_id}.{seconds}.".encode() + body
    signatures = [
        base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }

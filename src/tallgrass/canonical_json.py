"""The one byte form of a JSON value: keys sorted, no white space, UTF-8.

Hashes, signatures and stored bodies are made of these bytes, so they never depend on insertion
order, hash seed or platform.
"""

import hashlib
from typing import Any

import orjson


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value; non-JSON values raise TypeError."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def canonical_text(value: Any) -> str:
    """Return the canonical form as text, for text columns and JSON parameters."""
    return canonical_bytes(value).decode()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()

"""Where items, collections and objects are found.

Items and collections are named relative to the root of the catalog, so that their bytes do not
depend on where it is served or exported to.
"""

import re
from functools import lru_cache
from urllib.parse import quote

#: Characters that stand as they are in a part of an address.
_SAFE = re.compile(r"[A-Za-z0-9._~-]+")

CATALOG_HREF = "catalog.json"


def item_href(collection_id: str, item_id: str) -> str:
    """Return an item's address below the catalog's root."""
    return f"collections/{part(collection_id)}/items/{part(item_id)}.json"


def part(text: str) -> str:
    """Return the text as one part of an address."""
    return text if _SAFE.fullmatch(text) else quote(text, safe="")


@lru_cache(maxsize=4096)
def https_prefix(provider: str, bucket: str) -> str | None:
    """Return what precedes a public object's key in its HTTPS address, if that is known."""
    if provider == "aws":
        # A dot in the name does not match the certificate of virtual hosts.
        host = f"s3.amazonaws.com/{bucket}" if "." in bucket else f"{bucket}.s3.amazonaws.com"
        return f"https://{host}/"
    if provider == "gcp":
        return f"https://storage.googleapis.com/{bucket}/"
    if provider == "azure":
        account, _, container = bucket.partition(".")
        return f"https://{account}.blob.core.windows.net/{container}/" if container else None
    return None


def quoted_key(key: str) -> str:
    """Return a key as it stands in an HTTPS address."""
    return quote(key, safe="/~")

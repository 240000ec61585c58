"""``object_uri``: one spelling for one object.

The canonical form is ``scheme://bucket/key`` with the key as the object store knows it: decoded
exactly once from the notification, then never encoded or decoded again. So a ``+`` in a canonical
URI is a plus, a ``%2B`` is those three characters, and a blank is a blank.
"""

import re
from urllib.parse import unquote_plus

from tallgrass.errors import InvalidInput

#: Scheme of each provider's object URIs; a configured provider uses its own name.
SCHEMES = {"aws": "s3", "azure": "az", "gcp": "gs"}
#: S3 allows keys of 1,024 bytes; the others less or the same.
KEY_BYTES_MAX = 1024

_FORM = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9][A-Za-z0-9._-]*/.+", re.DOTALL)
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def key_of_event(encoded_key: str) -> str:
    """Return the object key that a notification's URL-encoded key stands for."""
    return unquote_plus(encoded_key)


def object_uri(provider: str, bucket: str, key: str) -> str:
    """Return the canonical URI of an object, whose key is given decoded."""
    return canonical_object_uri(f"{SCHEMES.get(provider, provider)}://{bucket}/{key}")


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of a canonical URI."""
    _, _, bucket, key = uri.split("/", 3)
    return bucket, key


def canonical_object_uri(uri: str) -> str:
    """Return the URI if it is canonical; one that names no object is refused."""
    if not _FORM.fullmatch(uri):
        raise InvalidInput(f"not scheme://bucket/key: {uri!r}", code="invalid_object_uri")
    if _UNPRINTABLE.search(uri):
        raise InvalidInput(
            f"control characters or broken Unicode in {uri!r}", code="invalid_object_uri"
        )
    if len(uri.split("/", 3)[3].encode()) > KEY_BYTES_MAX:
        raise InvalidInput(
            f"a key of more than {KEY_BYTES_MAX} bytes: {uri[:80]!r}…", code="invalid_object_uri"
        )
    return uri

"""Names of items: readable, the same everywhere, and one for each object."""

import hashlib
import re

from tallgrass.length_prefixed import length_prefixed

#: 96 bits: among 10^12 objects, two share them with a probability below 10^-4, and they would have
#: to share the readable part too.
_DIGITS = 24
#: With the digits and an ending, within the 255 bytes of a file name.
_STEM_CHARS_MAX = 120

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def item_id(provider: str, bucket: str, key: str) -> str:
    """Return the id of an object's item: the last part of its key, then digits of a hash.

    It consists of letters, digits, ``.``, ``_`` and ``-`` and begins with a letter or digit, so it
    stands unchanged in URLs and file names. Keys that look alike once simplified, or on a file
    system that takes ``a`` for ``A``, differ by the hash.
    """
    stem = _NOT_PLAIN.sub("-", key.rpartition("/")[2][:_STEM_CHARS_MAX]).lstrip("._-") or "object"
    digest = hashlib.sha256(length_prefixed(provider, bucket, key)).hexdigest()
    return f"{stem}-{digest[:_DIGITS]}"

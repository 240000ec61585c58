"""The key by which consumers know an event again, as docs/idempotency/key_spec.md says.

``sha256:`` and the SHA-256 of five parts, each prefixed by its length: no two different lists of
parts share a key.
"""

from tallgrass.canonical_json import sha256_hex
from tallgrass.length_prefixed import length_prefixed
from tallgrass.provenance.ids import netstrings

#: Texts that one unique index holds have so many bytes of UTF-8 together. PostgreSQL's takes 2,704,
#: with a target's name and its own headers; SQLite's takes any number, and must not take more.
INDEXED_BYTES_MAX = 2560
_UTF8_BYTES_MAX = 4


def indexed_bytes_beyond(*texts: str) -> int:
    """Return how many bytes the texts have together if that is more than an index takes, else 0."""
    if sum(map(len, texts)) * _UTF8_BYTES_MAX <= INDEXED_BYTES_MAX:
        return 0  # as nearly all are, without a look at their characters
    size = sum(len(text.encode()) for text in texts)
    return size if size > INDEXED_BYTES_MAX else 0


def idempotency_key(
    *, pipeline_id: str, event_name: str, dataset_id: str, object_ref: str, content_hash: str
) -> str:
    """Return the key of an event.

    The content is that of what is published (an item's bytes, an artifact's checksum), not of its
    source: a replay that changes nothing repeats the key, one that changes the output makes
    another. A change of what exists has the attempt that made it behind the content, so that a
    change to an older content is a new event too.
    """
    parts = length_prefixed(pipeline_id, event_name, dataset_id, object_ref, content_hash)
    return f"sha256:{sha256_hex(parts)}"


def object_version_ref(
    uri: str, *, version_id: str | None, sequencer: str | None, etag: str | None
) -> str:
    """Return the `object_ref` of one announced version of a source object.

    The version tells apart two overwrites that bring back an old content.
    """
    return netstrings(uri, version_id, sequencer, etag)

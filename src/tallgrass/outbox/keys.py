"""The key by which consumers know an event again, as docs/idempotency/key_spec.md says.

``sha256:`` and the SHA-256 of five parts, each prefixed by its length: no two different lists of
parts share a key.
"""

import hashlib

from tallgrass.provenance.ids import netstrings


def idempotency_key(
    *, pipeline_id: str, event_name: str, dataset_id: str, object_ref: str, content_hash: str
) -> str:
    """Return the key of an event.

    The content is that of what is published (an item's bytes, an artifact's checksum), not of its
    source: a replay that changes nothing repeats the key, one that changes the output makes
    another. A change of what exists has the attempt that made it behind the content, so that a
    change to an older content is a new event too.
    """
    digest = hashlib.sha256()
    for part in (pipeline_id, event_name, dataset_id, object_ref, content_hash):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return f"sha256:{digest.hexdigest()}"


def object_version_ref(
    uri: str, *, version_id: str | None, sequencer: str | None, etag: str | None
) -> str:
    """Return the `object_ref` of one announced version of a source object.

    The version tells apart two overwrites that bring back an old content.
    """
    return netstrings(uri, version_id, sequencer, etag)

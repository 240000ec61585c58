"""What the NEXRAD chunk topic publishes: bucket and key in JSON of its own, with no event around.

It has no size, etag, sequencer and event time: the time is the envelope's or the queue's.
``DateTime`` is the start of the volume, the same in all its chunks. Site, volume and chunk are in
the key, too; here they come as numbers or as texts, and are passed over.
"""

from typing import Any

from tallgrass.intake.announced import Announced, Said
from tallgrass.intake.fields import required_key, required_text
from tallgrass.ledger.unit import ObjectReference

_NOTHING_SAID = ObjectReference()


def read_chunk(event: dict[str, Any]) -> list[Said]:
    """Return the chunk; its key is not URL-encoded."""
    return [
        Announced(
            provider="aws",
            bucket=required_text(event, "S3Bucket"),
            key=required_key(event, "Key"),
            event_time=None,
            object_ref=_NOTHING_SAID,
        )
    ]

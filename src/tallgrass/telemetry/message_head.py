"""What a trace tells of a message's envelope. Read for the few messages whose units are traced.

Nothing is decided by it, so whatever is not as expected is just not told.
"""

import json
from functools import lru_cache
from typing import Any, NamedTuple

from tallgrass.ledger.redaction import redact

_CHARS_MAX = 256


class MessageHead(NamedTuple):
    """What an envelope says beside its event."""

    topic_arn: str | None = None
    #: Of the event's form: S3's `eventVersion`.
    schema_version: str | None = None
    #: W3C trace context of whoever published it.
    traceparent: str | None = None


def head_of(body: bytes) -> MessageHead:
    """Read what the envelope and its first record say."""
    outer = _table(body)
    given = outer.get("MessageAttributes")
    sent = given.get("traceparent") if isinstance(given, dict) else None
    inner = _table(outer["Message"]) if isinstance(outer.get("Message"), str) else outer
    records = inner.get("Records")
    first = records[0] if isinstance(records, list) and records else None
    return MessageHead(
        topic_arn=_text(outer.get("TopicArn")),
        schema_version=_text(first.get("eventVersion")) if isinstance(first, dict) else None,
        traceparent=_text(sent.get("Value")) if isinstance(sent, dict) else None,
    )


def _table(text: bytes | str) -> dict[str, Any]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _text(value: object) -> str | None:
    return _redacted(value[:_CHARS_MAX]) if isinstance(value, str) and value else None


@lru_cache(maxsize=64)  # topics and versions are few, and a redaction costs 0.3 ms
def _redacted(text: str) -> str:
    return redact(text)

"""What queues and functions put around an event: SNS, SQS, Lambda, Pub/Sub, or nothing.

A body may hold several envelopes, and one may stand in another: each stands for itself. What is in
no known envelope is an event.
"""

import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from tallgrass.clock import parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.intake.announced import RECORDS_MAX
from tallgrass.intake.fields import short_text, table_of
from tallgrass.intake.strict_json import Allowance, load_strict

#: A list, in it what SQS received, in it what SNS published: no real message is deeper.
_DEPTH_MAX = 4
#: What SQS and Pub/Sub return to who asks for messages.
_LISTS = ("Messages", "receivedMessages")
#: A notification of S3's largest size, all of it encoded: decoding is slow.
_ENCODED_CHARS_MAX = 3 * 65_536
#: Until the year 5138.
_MILLISECONDS = re.compile(r"[0-9]{1,14}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Opened(NamedTuple):
    """An event, and what its envelopes say. A tuple for speed, as `Announced` is."""

    #: Loaded JSON; or an InvalidInput, why it could not be reached.
    event: Any
    #: The SNS envelope as it came, for whoever checks its signature; None where there is none.
    envelope: Mapping[str, Any] | None = None
    sns_message_id: str | None = None
    #: When SNS sent it; None where the envelope has no time that can be read.
    sent_at: datetime | None = None
    #: Of a received SQS message that the body is a copy of.
    sqs_message_id: str | None = None
    queued_at: datetime | None = None
    #: The W3C trace context that SNS was given with the message, as it came.
    traceparent: Any = None


def open_body(body: Any) -> list[Opened]:
    """Return each event of a body; one that could not be reached says why.

    A body with too many is refused as a whole.
    """
    bounds = _Bounds()
    events = _open(body, bounds, 0)
    if bounds.parts > RECORDS_MAX:
        raise InvalidInput(f"more than {RECORDS_MAX} envelopes")
    return events


def instant_or_none(value: Any) -> datetime | None:
    """Return the instant, or None: an event's time is information, never worth losing the event."""
    if not isinstance(value, str):
        return None
    try:
        return parse_instant(value)
    except InvalidInput:
        return None


class _Bounds:
    """What all that a body holds may be together, however it is nested."""

    __slots__ = ("_allowance", "parts")

    def __init__(self) -> None:
        self._allowance = Allowance()
        self.parts = 0

    def load(self, text: bytes) -> Any:
        """Load a JSON text that stands in the body."""
        return load_strict(text, self._allowance)


def _open(value: Any, bounds: _Bounds, depth: int) -> list[Opened]:
    """Return the events of a value: an envelope, a list of them, or an event itself."""
    bounds.parts += 1
    if bounds.parts > RECORDS_MAX:
        return []
    if depth > _DEPTH_MAX:
        fault = InvalidInput(f"more than {_DEPTH_MAX} envelopes, one in the other")
        return [Opened(event=fault)]
    try:
        if isinstance(value, dict):
            return _open_table(value, bounds, depth)
        if isinstance(value, list) and value:
            return [opened for one in value for opened in _open(one, bounds, depth + 1)]
    except InvalidInput as exc:
        return [Opened(event=exc)]
    return [Opened(event=value)]


def _open_table(value: dict[str, Any], bounds: _Bounds, depth: int) -> list[Opened]:
    """Open an envelope by the fields that it alone has."""
    if "TopicArn" in value and "Type" in value:
        return [_open_sns(value, bounds)]
    if "Records" in value:
        return _open_records(value, bounds, depth)
    if ("messageId" in value and "body" in value) or ("MessageId" in value and "Body" in value):
        return _open_sqs(value, bounds, depth)
    for name in _LISTS:
        if name in value:
            return _open(value[name], bounds, depth + 1)
    if "message" in value and ("subscription" in value or "ackId" in value):
        return [_open_pubsub(table_of(value, "message"), bounds)]
    if "attributes" in value:
        return [_open_pubsub(value, bounds)]
    return [Opened(event=value)]


def _open_records(value: dict[str, Any], bounds: _Bounds, depth: int) -> list[Opened]:
    """Open what Lambda is called with: records of SNS or SQS, else an S3 event."""
    records = value["Records"]
    if not isinstance(records, list) or not any(map(_is_envelope, records)):
        return [Opened(event=value)]
    parts: list[Opened] = []
    for record in records:
        if _is_envelope(record):
            parts += _open(record.get("Sns", record), bounds, depth + 1)
        else:
            parts.append(Opened(event={"Records": [record]}))
    return parts


def _is_envelope(record: Any) -> bool:
    return isinstance(record, dict) and ("Sns" in record or "body" in record)


def _open_sns(value: dict[str, Any], bounds: _Bounds) -> Opened:
    """Open an SNS notification, whose event is a text of JSON."""
    kind = value["Type"]
    if kind != "Notification":
        # A confirmation is for a person: it waits in the poison store with its address.
        asks = kind == "SubscriptionConfirmation"
        raise InvalidInput(
            f"an SNS message of the type {str(kind)[:60]!r}, not a notification",
            code="subscription_unconfirmed" if asks else None,
        )
    message = value.get("Message")
    if not isinstance(message, str):
        raise InvalidInput("an SNS envelope without Message", code="missing_required_field")
    message_id = short_text(value, "MessageId")
    if message_id is None:
        raise InvalidInput("an SNS envelope without MessageId", code="missing_required_field")
    return Opened(
        event=bounds.load(_json_text(message)),
        envelope=value,
        sns_message_id=message_id,
        sent_at=instant_or_none(value.get("Timestamp")),
        traceparent=_traceparent(value.get("MessageAttributes")),
    )


def _traceparent(attributes: Any) -> Any:
    """Return the trace context among the attributes of a message; anything may stand there."""
    sent = attributes.get("traceparent") if isinstance(attributes, dict) else None
    return sent.get("Value") if isinstance(sent, dict) else None


def _open_sqs(value: dict[str, Any], bounds: _Bounds, depth: int) -> list[Opened]:
    """Open a message as SQS hands it out, spelled by its own interface or by Lambda."""
    body, message_id, attributes = (
        ("body", "messageId", "attributes")
        if "body" in value
        else ("Body", "MessageId", "Attributes")
    )
    text = value[body]
    if not isinstance(text, str):
        raise InvalidInput(f"{body} is not a text")
    sqs_id = short_text(value, message_id)
    queued_at = _queued_at(value.get(attributes))
    parts = _open(bounds.load(text.encode()), bounds, depth + 1)
    return [part._replace(sqs_message_id=sqs_id, queued_at=queued_at) for part in parts]


def _queued_at(attributes: Any) -> datetime | None:
    """Return when SQS took the message, which it tells in milliseconds since 1970."""
    sent = attributes.get("SentTimestamp") if isinstance(attributes, dict) else None
    if not isinstance(sent, str) or not _MILLISECONDS.fullmatch(sent):
        return None
    return _EPOCH + timedelta(milliseconds=int(sent))


def _open_pubsub(message: dict[str, Any], bounds: _Bounds) -> Opened:
    """Load the data of a Pub/Sub message, which are JSON in base64; there may be none."""
    data = message.get("data")
    if data is None or data == "":
        return Opened(event={**message, "data": None})
    if not isinstance(data, str):
        raise InvalidInput("data is not a text")
    try:
        text = binascii.a2b_base64(data, strict_mode=True)
    except ValueError as exc:
        raise InvalidInput("data is not base64") from exc
    return Opened(event={**message, "data": bounds.load(text)})


def _json_text(message: str) -> bytes:
    """Return the bytes of a message's JSON, which some publishers send URL-encoded."""
    if not message.startswith("%"):
        return message.encode()
    if len(message) > _ENCODED_CHARS_MAX:
        raise InvalidInput(f"a URL-encoded Message of more than {_ENCODED_CHARS_MAX} characters")
    try:
        return unquote_plus(message, errors="strict").encode()
    except UnicodeDecodeError as exc:
        raise InvalidInput("Message is neither JSON nor URL-encoded JSON") from exc

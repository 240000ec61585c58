"""What a queue puts around an event: the envelope of SNS, or nothing (raw delivery).

A further form is one more function in `FORMS`: it takes the loaded body and returns an `Opened`, or
None where the body is not of its form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tallgrass.clock import parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.intake.fields import short_text
from tallgrass.intake.strict_json import load_strict


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The event inside a body, and what its envelope says."""

    event: Any
    #: The SNS envelope as it came, for whoever checks its signature; None for raw delivery.
    envelope: Mapping[str, Any] | None = None
    sns_message_id: str | None = None
    #: None where the envelope has none that can be read.
    sent_at: datetime | None = None


def open_body(body: Any) -> Opened:
    """Return the event of a message; one in no known envelope stands for itself."""
    for form in FORMS:
        opened = form(body)
        if opened is not None:
            return opened
    return Opened(event=body)


def instant_or_none(value: Any) -> datetime | None:
    """Return the instant, or None: an event's time is information, never worth losing the event."""
    if not isinstance(value, str):
        return None
    try:
        return parse_instant(value)
    except InvalidInput:
        return None


def _sns(body: Any) -> Opened | None:
    """Open an SNS notification, whose event is a text of JSON."""
    if not isinstance(body, dict) or "Type" not in body or "TopicArn" not in body:
        return None
    kind = body["Type"]
    if kind != "Notification":
        # A confirmation is for a person: it waits in the poison store with its address.
        raise InvalidInput(f"an SNS message of the type {str(kind)[:60]!r}, not a notification")
    message = body.get("Message")
    if not isinstance(message, str):
        raise InvalidInput("an SNS envelope without Message", code="missing_required_field")
    message_id = short_text(body, "MessageId")
    if message_id is None:
        raise InvalidInput("an SNS envelope without MessageId", code="missing_required_field")
    return Opened(
        event=load_strict(message.encode()),
        envelope=body,
        sns_message_id=message_id,
        sent_at=instant_or_none(body.get("Timestamp")),
    )


#: Tried in order.
FORMS: tuple[Callable[[Any], Opened | None], ...] = (_sns,)

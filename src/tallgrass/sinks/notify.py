"""Sends events as notifications of PostgreSQL, to whoever listens on a channel just now.

A notification is a CloudEvent. PostgreSQL takes less than 8,000 bytes: a longer event goes without
its data, and `dataref` names its row. Nobody keeps a notification: one that no one listens to is
delivered all the same.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from tallgrass.errors import ConfigError, TallgrassError, TransientError
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.cloud_event import cloud_event, cloud_event_without_data
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources

BYTES_MAX = 7999
DEFAULT_CHANNEL = "tallgrass_events"
#: It wakes our own dispatchers.
_RESERVED = "tallgrass_outbox"
#: As much of an identifier as PostgreSQL keeps.
_CHANNEL = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class NotifySink:
    """All notifications of a batch in one transaction."""

    batch_max = 100

    def __init__(self, channel: str, notify: Callable[[str, Sequence[str]], None]) -> None:
        self._channel = channel
        self._notify = notify

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Notify of all events, or of none."""
        try:
            self._notify(self._channel, [_text(event) for event in events])
        except TallgrassError as error:
            code = "sink_unreachable" if isinstance(error, TransientError) else "sink_misconfigured"
            return [Undelivered(code=code, message=str(error))] * len(events)
        return [Delivered()] * len(events)

    def close(self) -> None:
        """Do nothing: the connection is not this sink's own."""


def _text(event: OutboxEvent) -> str:
    whole = cloud_event(event)
    return (whole if len(whole) <= BYTES_MAX else cloud_event_without_data(event)).decode()


def open_notify(settings: Mapping[str, object], resources: SinkResources) -> NotifySink:
    """Make the sink: `channel`."""
    options = Options(settings, environment=resources.environment)
    channel = options.text("channel", DEFAULT_CHANNEL)
    options.done()
    if not _CHANNEL.fullmatch(channel) or channel == _RESERVED:
        raise ConfigError(
            f"channel: {channel!r} must be small letters, digits and _, at most 63, "
            f"and not {_RESERVED}"
        )
    if resources.notify is None:
        raise ConfigError("notify: needs a database.url of PostgreSQL")
    return NotifySink(channel, resources.notify)

"""The configured queue as a document: how much waits, and how it is used."""

from datetime import datetime

from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.clock import age_s
from tallgrass.config import Config
from tallgrass.errors import QueueMissing
from tallgrass.queues.protocol import QueueStatus
from tallgrass.sqlite_address import sqlite_file
from tallgrass.views.text import hide_credentials

#: Settings that say how this queue is used, by its kind.
_SETTINGS = {
    "embedded": ("visibility_s", "max_receive_count", "signatures", "topics"),
    "sqs": ("endpoint_url", "wait_s", "receivers", "visibility_s", "signatures", "topics"),
}


def require_queue(config: Config) -> QueueStatus:
    """Return the counts of the queue; a queue that does not exist is an error."""
    found = read_queue_status(config)
    if found is None:
        message = f"queue {config.text('queue.name')}: nothing is at {queue_url(config)}"
        raise QueueMissing(message)
    return found


def queue_kind(config: Config) -> str:
    """Return what kind of queue it is."""
    return "sqs" if sqlite_file(config.text("queue.url")) is None else "embedded"


def queue_url(config: Config) -> str:
    """Return its address without credentials."""
    return hide_credentials(config.text("queue.url"))


def queue_settings(config: Config) -> dict[str, object]:
    """Return the settings that apply to the queue."""
    return {name: config.values[f"queue.{name}"] for name in _SETTINGS[queue_kind(config)]}


def queue_document(config: Config, found: QueueStatus, now: datetime) -> dict[str, object]:
    """Return the queue as a JSON value."""
    return {
        "name": config.text("queue.name"),
        "kind": queue_kind(config),
        "url": queue_url(config),
        "visible": found.visible,
        "in_flight": found.in_flight,
        "dead": found.dead,
        "oldest_sent_at": found.oldest_sent_at,
        "oldest_age_s": age_s(found.oldest_sent_at, now),
        "settings": queue_settings(config),
    }

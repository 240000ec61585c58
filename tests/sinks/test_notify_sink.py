from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.bootstrap.sinks import open_target, sink_resources
from tallgrass.config import load_config
from tallgrass.errors import ConfigError, DatabaseUnreachable
from tallgrass.outbox.routing import Target
from tallgrass.sinks.cloud_event import cloud_event, cloud_event_without_data
from tallgrass.sinks.notify import BYTES_MAX, open_notify
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.resources import SinkResources
from tests.sinks.receiver import EVENT, event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WAIT_S = 60.0


@pytest.fixture
def listener(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that listens on the default channel and on another."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("LISTEN tallgrass_events")
        connection.execute("LISTEN mine")
        yield connection


def send(url: str, events: Sequence[Any], **settings: Any) -> Sequence[Any]:
    """Send events to a database as the dispatcher does."""
    config = load_config(environment={}, flags={"database.url": url})
    with sink_resources(config) as resources:
        sink = open_target(Target(name="bus", kind="notify", settings=settings), resources)
        try:
            return sink.send(events)
        finally:
            sink.close()


def heard(connection: psycopg.Connection[Any], count: int) -> list[tuple[str, bytes]]:
    """Return so many notifications."""
    notes = connection.notifies(timeout=WAIT_S, stop_after=count)
    return [(note.channel, note.payload.encode()) for note in notes]


def test_who_listens_hears_each_event(postgres_url: str, listener: psycopg.Connection[Any]) -> None:
    """In order, as CloudEvents with the stored payload."""
    events = [event(number, payload=b'{"n":%d.50}' % number) for number in range(3)]
    assert send(postgres_url, events) == [Delivered()] * 3
    assert heard(listener, 3) == [("tallgrass_events", cloud_event(each)) for each in events]


def test_another_channel_can_be_named(postgres_url: str, listener: psycopg.Connection[Any]) -> None:
    """The notification goes there alone."""
    send(postgres_url, [EVENT], channel="mine")
    assert heard(listener, 1) == [("mine", cloud_event(EVENT))]


@pytest.mark.parametrize("over", [0, 1])
def test_a_long_event_is_told_by_reference(
    postgres_url: str, listener: psycopg.Connection[Any], over: int
) -> None:
    """At the longest that PostgreSQL takes it goes whole; one byte more and its row is named."""
    bare = len(cloud_event(event(payload=b'""')))
    long = event(payload=b'"%s"' % (b"x" * (BYTES_MAX - bare + over)))
    assert len(cloud_event(long)) == BYTES_MAX + over
    assert send(postgres_url, [long, event(2)]) == [Delivered()] * 2
    [first, second] = [text for _, text in heard(listener, 2)]
    assert first == (cloud_event_without_data(long) if over else cloud_event(long))
    assert json.loads(first).get("dataref", "").endswith(long.outbox_id) == bool(over)
    assert second == cloud_event(event(2))


def test_a_database_that_does_not_answer_is_told() -> None:
    """None of the batch was told; it is tried again."""

    def fails(_channel: str, _texts: Sequence[str]) -> None:
        raise DatabaseUnreachable("no server")

    sink = open_notify({}, SinkResources(notify=fails))
    [result] = sink.send([EVENT])
    assert result == Undelivered(code="sink_unreachable", message="no server")


@pytest.mark.parametrize("channel", ["tallgrass_outbox", "a-b", "x" * 64, "A"])
def test_a_channel_that_cannot_be_listened_to_is_refused(channel: str) -> None:
    """Nor can the one that wakes our own dispatchers be used."""
    with pytest.raises(ConfigError, match="channel"):
        open_notify({"channel": channel}, SinkResources(notify=lambda *_: None))


def test_sqlite_has_no_notifications(tmp_path: Any) -> None:
    """The message names the setting and the target."""
    with pytest.raises(ConfigError, match=r"outbox\.targets\.bus: notify: needs a database\.url"):
        send(f"sqlite:///{tmp_path / 'x.db'}", [EVENT])

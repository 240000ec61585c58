from __future__ import annotations

from typing import Any

import pytest

from tallgrass.sinks.openlineage import open_openlineage
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources
from tests.sinks.receiver import PATIENCE_S, Receiver, event

#: With a null, which the client of OpenLineage would drop.
PAYLOAD = b'{"eventType":"START","run":{"runId":"x"},"none":null}'


TOKEN: dict[str, Any] = {"token_env": "TOKEN"}


def send(receiver: Receiver, name: str = "openlineage.start", **settings: Any) -> Delivery:
    """Send one event."""
    sink = open_openlineage(
        {"url": receiver.url, "timeout_s": PATIENCE_S, **settings},
        SinkResources(environment={"TOKEN": "canary"}),
    )
    [delivery] = sink.send([event(event_name=name, payload=PAYLOAD)])
    sink.close()
    return delivery


@pytest.mark.conformance("OB-2.4")
def test_a_lineage_service_gets_the_stored_bytes() -> None:
    """At the place where OpenLineage's own client posts to."""
    with Receiver((201, {}, b"")) as receiver:
        assert send(receiver, **TOKEN) == Delivered()
    [request] = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/api/v1/lineage", PAYLOAD)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer canary"


@pytest.mark.parametrize(
    ("url", "endpoint", "path"),
    [("", "/v2/events", "/v2/events"), ("/base/", "lineage", "/base/lineage")],
)
def test_another_endpoint_can_be_named(url: str, endpoint: str, path: str) -> None:
    """Below the address."""
    with Receiver((200, {}, b"")) as receiver:
        send(receiver, url=f"{receiver.url}{url}", endpoint=endpoint)
    assert receiver.requests[0].path == path


def test_other_events_are_misrouted() -> None:
    """A lineage service would not know them."""
    with Receiver() as receiver:
        result = send(receiver, "nodd.item.created")
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_misconfigured", True)
    assert receiver.requests == []


def test_a_service_that_fails_is_tried_again() -> None:
    """As every HTTP target."""
    with Receiver((503, {"Retry-After": "9"}, b"")) as receiver:
        result = send(receiver)
    assert result == Undelivered(
        code="sink_unreachable",
        message=f"{receiver.url} answered 503 Service Unavailable",
        retry_after_s=9.0,
    )

"""Trace contexts leave with events: the event's own in its message, the send's in its request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tallgrass.canonical_json import canonical_bytes
from tallgrass.outbox.event import EventTrace
from tallgrass.sinks.cloud_event import CONTENT_TYPE, cloud_event, cloud_event_without_data
from tallgrass.sinks.protocol import Delivered
from tallgrass.sinks.registry import open_sink
from tallgrass.sinks.resources import SinkResources
from tests.sinks.receiver import EVENT, PATIENCE_S, Receiver, event
from tests.sinks.test_aws_sinks import make_queue, received, values

if TYPE_CHECKING:
    from tests.support.aws import AwsServer

TRACE = EventTrace(
    created="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    sent="00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
)
#: Kind → what else its target needs, and an event that it takes.
HTTP: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "webhook": ({"secret_env": "SECRET", "allow_addresses": ["127.0.0.1"]}, {}),
    "openlineage": ({}, {"event_name": "openlineage.start"}),
    "stac-api": ({}, {"payload": canonical_bytes({"collection_id": "c", "item_id": "i"})}),
    "graph-store": ({}, {"payload": canonical_bytes({"wal_id": "w", "prov_activity_id": "a"})}),
}
RESOURCES = SinkResources(
    environment={"SECRET": "whsec_" + "bm5u" * 8},
    items=lambda *_: b"{}",
    collections=lambda _: b"{}",
    provenance=lambda *_: b"{}",
)


def asked(kind: str, *, trace: EventTrace | None, answer: Any) -> list[dict[str, str]]:
    """Send one event; return the headers of each request."""
    settings, changes = HTTP[kind]
    with Receiver(answer) as receiver:
        sink = open_sink(
            kind, {"url": receiver.url, "timeout_s": PATIENCE_S, **settings}, RESOURCES
        )
        sink.send([event(trace=trace, **changes)])
        sink.close()
    return [request.headers for request in receiver.requests]


@pytest.mark.parametrize("kind", HTTP)
def test_a_request_names_the_span_of_its_send(kind: str) -> None:
    """The receiver's own spans can stand below it; without a context there is no header."""
    (headers,) = asked(kind, trace=TRACE, answer=(200, {}, b""))
    assert headers["traceparent"] == TRACE.sent
    (headers,) = asked(kind, trace=None, answer=(200, {}, b""))
    assert "traceparent" not in headers


def test_every_request_of_a_send_names_it() -> None:
    """An item that a STAC API lacks takes four requests, with its collection."""
    answers: list[Any] = [(status, {}, b"") for status in (404, 404, 201, 201)]
    requests = asked("stac-api", trace=TRACE, answer=answers)
    assert [headers.get("traceparent") for headers in requests] == [TRACE.sent] * 4


def test_a_cloud_event_names_the_span_that_wrote_it() -> None:
    """By the extension for distributed tracing; the same at every attempt, read by a library."""
    traced = EVENT._replace(trace=TRACE)
    message = HTTPMessage({"content-type": CONTENT_TYPE}, cloud_event(traced))
    read = from_http(message, JSONFormat(), CloudEvent)
    assert read.get_extension("traceparent") == TRACE.created
    assert json.loads(cloud_event_without_data(traced))["traceparent"] == TRACE.created
    assert json.loads(cloud_event(EVENT)).keys() == json.loads(cloud_event(traced)).keys() - {
        "traceparent"
    }


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("emulator", ["ministack", "moto"])
def test_a_message_of_sqs_names_the_span_that_wrote_its_event(
    request: pytest.FixtureRequest, emulator: str
) -> None:
    """As an attribute, which a consumer of ours or of others finds beside the body."""
    aws: AwsServer = request.getfixturevalue(emulator)
    url = make_queue(aws)
    sink = open_sink("sqs", {"url": url}, SinkResources())
    sent = [event(1, trace=TRACE, payload=b'{"n":1}'), event(2, payload=b'{"n":2}')]
    assert sink.send(sent) == [Delivered()] * 2
    sink.close()
    found = {message["Body"]: values(message) for message in received(aws, url, 2)}
    assert found['{"n":1}']["traceparent"] == TRACE.created
    assert "traceparent" not in found['{"n":2}']


@pytest.mark.usefixtures("aws_environment")
def test_a_topic_passes_the_context_on_to_its_queues(ministack: AwsServer) -> None:
    """Raw delivery keeps it beside the body, the envelope holds it otherwise."""
    sns = ministack.client("sns")
    topic = sns.create_topic(Name="traced")["TopicArn"]
    urls = {raw: make_queue(ministack) for raw in ("true", "false")}
    for raw, url in urls.items():
        arn = ministack.client("sqs").get_queue_attributes(
            QueueUrl=url, AttributeNames=["QueueArn"]
        )["Attributes"]["QueueArn"]
        sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": raw}
        )
    sink = open_sink("sns", {"topic": topic, "endpoint_url": ministack.url}, SinkResources())
    assert sink.send([event(trace=TRACE)]) == [Delivered()]
    sink.close()
    [beside] = received(ministack, urls["true"], 1)
    [inside] = received(ministack, urls["false"], 1)
    assert values(beside)["traceparent"] == TRACE.created
    envelope = json.loads(inside["Body"])["MessageAttributes"]
    assert envelope["traceparent"]["Value"] == TRACE.created

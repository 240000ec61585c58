from __future__ import annotations

import json

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tallgrass.sinks.cloud_event import (
    CONTENT_TYPE,
    cloud_event,
    cloud_event_without_data,
    one_line,
)
from tests.sinks.receiver import EVENT, PAYLOAD

#: Written by hand from the standard.
GOLDEN = (
    b'{"carelabel":"public","datacontenttype":"application/json","datasetid":"goes-glm",'
    b'"dataversion":"1.0.0+0123456789abcdef","id":"0197a1b2-0000-7000-8000-000000000001",'
    b'"idempotencykey":"sha256:' + b"ab" * 32 + b'","source":"urn:tallgrass:pipeline:'
    b'kfm-nodd-ingest","specversion":"1.0","subject":"3a192283-3ea0-8e34-9bfa-f20e8ae00627",'
    b'"time":"2026-06-01T12:30:45.123456Z","type":"nodd.item.created","data":' + PAYLOAD + b"}"
)


@pytest.mark.conformance("OB-2.4")
def test_the_payload_stands_in_the_event_byte_for_byte() -> None:
    """Nothing of the payload is written anew: 1.50 stays 1.50."""
    assert cloud_event(EVENT) == GOLDEN


def test_another_library_reads_the_event() -> None:
    """The CloudEvents library finds each attribute and accepts every extension's name."""
    message = HTTPMessage({"content-type": CONTENT_TYPE}, cloud_event(EVENT))
    read = from_http(message, JSONFormat(), CloudEvent)
    assert (read.get_id(), read.get_type()) == (EVENT.outbox_id, "nodd.item.created")
    assert read.get_source() == "urn:tallgrass:pipeline:kfm-nodd-ingest"
    assert read.get_subject() == EVENT.subject
    assert read.get_time() == EVENT.created_at
    assert read.get_extension("idempotencykey") == EVENT.idempotency_key
    assert read.get_extension("carelabel") == "public"
    assert read.get_data() == json.loads(PAYLOAD)


def test_a_reference_of_governance_travels_along() -> None:
    """It is there if the event has one, and absent otherwise."""
    with_one = json.loads(cloud_event(EVENT._replace(governance_ref="DUA-7")))
    assert with_one["governanceref"] == "DUA-7"
    assert "governanceref" not in json.loads(cloud_event(EVENT))


def test_an_event_without_data_says_where_the_data_is() -> None:
    """It has all attributes of the whole event, and names the row."""
    whole, bare = json.loads(cloud_event(EVENT)), json.loads(cloud_event_without_data(EVENT))
    del whole["data"]
    assert bare.pop("dataref") == f"urn:tallgrass:outbox:{EVENT.outbox_id}"
    assert bare == whole


def test_an_event_is_one_line() -> None:
    """Line ends between the tokens of a payload become blanks; its value is the same."""
    payload = b'{\r\n  "a": "b\\nc"\n}'
    written = one_line(payload)
    assert b"\n" not in written
    assert b"\r" not in written
    assert json.loads(written) == json.loads(payload)


def test_the_name_of_a_pipeline_is_quoted_in_the_source() -> None:
    """A source is an address, whatever a pipeline is called."""
    event = EVENT._replace(pipeline_id="my pipe/1")
    assert json.loads(cloud_event(event))["source"] == "urn:tallgrass:pipeline:my%20pipe%2F1"

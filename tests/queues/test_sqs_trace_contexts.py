"""The trace context of whoever sent a message of SQS is a link of the attempt that it led to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.queues.aws_trace_header import traceparent_of
from tests.pipeline.scene import Pipeline, message_of, thing
from tests.queues.sqs_scene import open_at
from tests.support.backends import prepare
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.aws import AwsServer

TRACE, SPAN = "5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"
#: As Amazon's documents show it.
HEADER = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"
OTHER = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
OWN = {"DataType": "String", "StringValue": f"00-{OTHER[0]}-{OTHER[1]}-01"}
BY_AWS = {"DataType": "String", "StringValue": HEADER}


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("emulator", ["ministack", "moto"])
def test_the_sender_of_a_message_is_a_link_of_its_attempt(
    request: pytest.FixtureRequest, emulator: str, tmp_path: Path
) -> None:
    """Its own attribute comes first, then what AWS put there; one without has the batch alone."""
    server: AwsServer = request.getfixturevalue(emulator)
    made = server.make_queue()
    extras: list[dict[str, Any]] = [
        {"MessageAttributes": {"traceparent": OWN}},
        {"MessageSystemAttributes": {"AWSTraceHeader": BY_AWS}},
        {
            "MessageAttributes": {"traceparent": OWN},
            "MessageSystemAttributes": {"AWSTraceHeader": BY_AWS},
        },
        {},
    ]
    for number, extra in enumerate(extras):
        server.client("sqs").send_message(
            QueueUrl=made.url, MessageBody=message_of(thing(number).event()).decode(), **extra
        )
    recorder = MemoryRecorder()
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    pipeline = Pipeline(backend, tmp_path)
    pipeline.put(*(thing(number) for number in range(len(extras))))
    queue = open_at(made, server.url)
    pipeline.start(recorder=recorder, queue=queue).run_messages()
    queue.close()
    backend.close()
    (batch,) = [each.place for each in recorder.spans if each.name == "nodd_sns.batch"]
    links = {
        each.attributes["nodd.object_uri"]: each.place.links
        for each in recorder.spans
        if each.name == "nodd_sns.ingest" and each.place is not None
    }
    assert batch is not None
    assert links == {
        thing(0).uri: (batch.context, OTHER),
        thing(1).uri: (batch.context, (TRACE, SPAN)),
        thing(2).uri: (batch.context, OTHER),
        thing(3).uri: (batch.context,),
    }


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (HEADER, f"00-{TRACE}-{SPAN}-01"),
        (HEADER.replace("Sampled=1", "Sampled=0"), f"00-{TRACE}-{SPAN}-00"),
        (f"Self=x; Parent={SPAN}; Root=1-{TRACE[:8]}-{TRACE[8:]}", f"00-{TRACE}-{SPAN}-00"),
        (f"Root=1-{TRACE[:8]}-{TRACE[8:]};Sampled=1", None),
        (f"Root=2-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN}", None),
        (f"Root=1-{TRACE};Parent={SPAN}", None),
        (HEADER.replace(SPAN, SPAN.upper()), None),
        (";;=;Root", None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_of_aws_is_read_as_its_documents_say(header: str | None, told: str | None) -> None:
    """Root and Parent together name a span; anything else names none."""
    assert traceparent_of(header) == told

"""Events reach SQS and SNS: real clients against two emulators, and faults between."""

from __future__ import annotations

import json
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ConfigError
from tallgrass.sinks.aws_batch import BYTES_MAX, BatchSender
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.sinks.sns import open_sns
from tallgrass.sinks.sqs import open_sqs
from tests.sinks.receiver import PATIENCE_S, PAYLOAD, Receiver, event, write_chain
from tests.support.aws import ACCOUNT, REGION, AwsServer
from tests.support.faulty_endpoint import FaultyEndpoint, answers, breaks, fails_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("aws_environment")

ATTRIBUTES = ("event_name", "dataset_id", "care_label", "idempotency_key")


@pytest.fixture(params=["ministack", "moto"])
def aws(request: pytest.FixtureRequest) -> AwsServer:
    """Each emulator in turn."""
    server: AwsServer = request.getfixturevalue(request.param)
    return server


def make_queue(aws: AwsServer, *, fifo: bool = False) -> str:
    """Create a queue; return its address."""
    name = f"sink-{uuid.uuid4().hex[:12]}{'.fifo' if fifo else ''}"
    attributes = {"FifoQueue": "true"} if fifo else {}
    url: str = aws.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def received(aws: AwsServer, url: str, count: int) -> list[dict[str, Any]]:
    """Take so many messages out of a queue, and see that there are no more."""
    found: list[dict[str, Any]] = []
    for _ in range(100):
        answer = aws.client("sqs").receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
            WaitTimeSeconds=0 if len(found) >= count else 1,
        )
        messages = answer.get("Messages", [])
        for message in messages:
            aws.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        found += messages
        if len(found) >= count and not messages:
            break
    assert len(found) == count
    return found


def values(message: dict[str, Any]) -> dict[str, str]:
    """Return the attributes of a message."""
    return {name: each["StringValue"] for name, each in message["MessageAttributes"].items()}


# --- SQS ------------------------------------------------------------------------------------------


@pytest.mark.conformance("OB-2.4", "OB-4.3")
def test_a_queue_gets_the_stored_bytes_and_what_to_filter_by(aws: AwsServer) -> None:
    """Twenty-three events in three requests; each message is a payload."""
    url = make_queue(aws)
    sink = open_sqs({"url": url}, SinkResources())
    events = [event(number, payload=b'{"n":%d.50}' % number) for number in range(23)]
    assert sink.send(events) == [Delivered()] * 23
    sink.close()
    messages = {message["Body"].encode(): values(message) for message in received(aws, url, 23)}
    assert messages == {
        each.payload: {name: getattr(each, name) for name in ATTRIBUTES} for each in events
    }


def test_a_fifo_queue_keeps_the_order_of_a_dataset_and_drops_repetitions(aws: AwsServer) -> None:
    """The dataset is the group, the key tells repetitions."""
    url = make_queue(aws, fifo=True)
    sink = open_sqs({"url": url}, SinkResources())
    events = [event(number, payload=b'{"n":%d}' % number) for number in range(12)]
    assert sink.send(events) == [Delivered()] * 12
    assert sink.send(events[:3]) == [Delivered()] * 3
    sink.close()
    found = received(aws, url, 12)
    assert [json.loads(message["Body"])["n"] for message in found] == list(range(12))
    assert {message["Attributes"]["MessageGroupId"] for message in found} == {"goes-glm"}


def test_a_queue_may_be_named_by_its_arn(ministack: AwsServer) -> None:
    """With the place where it answers, if that is not AWS."""
    made = ministack.make_queue()
    sink = open_sqs({"url": made.arn, "endpoint_url": ministack.url}, SinkResources())
    assert sink.send([event()]) == [Delivered()]
    sink.close()
    [message] = received(ministack, made.url, 1)
    assert message["Body"].encode() == PAYLOAD


def test_keys_that_no_fifo_queue_takes_are_hashed(ministack: AwsServer) -> None:
    """Also with blanks and beyond 128 characters."""
    url = make_queue(ministack, fifo=True)
    sink = open_sqs({"url": url}, SinkResources())
    odd = event(1, dataset_id="my data", idempotency_key="k" * 200)
    assert sink.send([odd]) == [Delivered()]
    sink.close()
    [message] = received(ministack, url, 1)
    # By sha256sum.
    assert message["Attributes"]["MessageGroupId"].startswith("b2167b0a")
    assert len(message["Attributes"]["MessageDeduplicationId"]) == 64
    assert values(message)["dataset_id"] == "my data"


# --- SNS ------------------------------------------------------------------------------------------


@pytest.mark.conformance("OB-4.3")
def test_subscriptions_of_a_topic_filter_by_attributes(aws: AwsServer) -> None:
    """One queue hears of one dataset, one of public data, one of everything."""
    sns = aws.client("sns")
    topic = sns.create_topic(Name=f"topic-{uuid.uuid4().hex[:12]}")["TopicArn"]
    policies = {
        "glm": {"dataset_id": ["goes-glm"]},
        "public": {"care_label": ["public"]},
        "all": None,
    }
    queues = {}
    for name, policy in policies.items():
        queues[name] = make_queue(aws)
        attributes = {"RawMessageDelivery": "true"}
        if policy:
            attributes["FilterPolicy"] = json.dumps(policy)
        sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint=aws.arn_of(queues[name]),
            Attributes=attributes,
        )
    sink = open_sns({"topic": topic, "endpoint_url": aws.url}, SinkResources())
    sent = [
        event(1, payload=b'{"n":1.50}'),
        event(2, payload=b'{"n":2}', dataset_id="hrrr"),
        event(3, payload=b'{"n":3}', care_label="restricted"),
    ]
    assert sink.send(sent) == [Delivered()] * 3
    sink.close()
    bodies = {
        name: sorted(message["Body"] for message in received(aws, queues[name], count))
        for name, count in (("glm", 2), ("public", 2), ("all", 3))
    }
    assert bodies["glm"] == ['{"n":1.50}', '{"n":3}']
    assert bodies["public"] == ['{"n":1.50}', '{"n":2}']
    assert bodies["all"] == ['{"n":1.50}', '{"n":2}', '{"n":3}']


def test_a_topic_that_is_not_there_is_told(aws: AwsServer) -> None:
    """Somebody must make it; until then the event is tried again."""
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:no-such-topic"
    sink = open_sns({"topic": topic, "endpoint_url": aws.url}, SinkResources())
    [result] = sink.send([event()])
    sink.close()
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_misconfigured", False)
    assert "no-such-topic" in result.message


# --- faults ---------------------------------------------------------------------------------------


@pytest.fixture
def endpoint(ministack: AwsServer) -> Iterator[tuple[FaultyEndpoint, str]]:
    """A place between client and emulator, and a queue behind it."""
    made = ministack.make_queue()
    with FaultyEndpoint(ministack.url) as between:
        yield between, made.arn


def send_through(endpoint: tuple[FaultyEndpoint, str], count: int = 3) -> Sequence[Any]:
    """Send events through the faulty place."""
    between, arn = endpoint
    sink = open_sqs({"url": arn, "endpoint_url": between.url}, SinkResources())
    result = sink.send([event(number) for number in range(count)])
    sink.close()
    return result


@pytest.mark.parametrize(
    ("fault", "code", "permanent"),
    [
        (answers("ThrottlingException"), "sink_throttled", False),
        (answers("InternalFailure", 500), "sink_unreachable", False),
        (answers("ServiceUnavailable", 503), "sink_unreachable", False),
        (answers("AccessDenied", 403), "sink_misconfigured", False),
        (answers("QueueDoesNotExist"), "sink_misconfigured", False),
        (breaks(), "sink_unreachable", False),
        (answers("InvalidMessageContents"), "sink_refused", True),
    ],
)
def test_a_request_that_fails_is_told_for_each_event(
    endpoint: tuple[FaultyEndpoint, str],
    fault: Any,
    code: str,
    permanent: bool,  # noqa: FBT001 - a table
) -> None:
    """Tried once: the dispatcher tries again, and knows when."""
    endpoint[0].plan("SendMessageBatch", fault)
    result = send_through(endpoint)
    assert [(each.code, each.permanent) for each in result] == [(code, permanent)] * 3
    # A refusal may be one event's fault, so each is tried alone.
    assert len(endpoint[0].requests) == (4 if permanent else 1)


def test_entries_fail_each_for_itself(endpoint: tuple[FaultyEndpoint, str]) -> None:
    """What SQS blames on the sender is final, what it blames on itself is not."""
    endpoint[0].plan("SendMessageBatch", fails_entries("InternalError", sender=False, ids={"0"}))
    first = send_through(endpoint)
    assert [type(each) for each in first] == [Undelivered, Delivered, Delivered]
    assert (first[0].code, first[0].permanent) == ("sink_unreachable", False)
    endpoint[0].heal()
    endpoint[0].plan("SendMessageBatch", fails_entries("InvalidMessage", sender=True, ids={"2"}))
    second = send_through(endpoint)
    assert [type(each) for each in second] == [Delivered, Delivered, Undelivered]
    assert (second[2].code, second[2].permanent) == ("sink_refused", True)


def test_one_event_that_spoils_a_request_harms_no_neighbour(
    endpoint: tuple[FaultyEndpoint, str], ministack: AwsServer
) -> None:
    """The whole request is refused; sent one by one, only that event is."""

    def spoiled(request: dict[str, Any], pass_on: Any) -> Any:
        if any(entry["Id"] == "1" for entry in request["Entries"]):
            return answers("InvalidParameterValue")(request, pass_on)
        return pass_on(request)

    endpoint[0].plan("SendMessageBatch", spoiled)
    result = send_through(endpoint, 4)
    assert [isinstance(each, Delivered) for each in result] == [True, False, True, True]
    assert result[1].permanent


def test_a_service_that_is_down_is_asked_once(endpoint: tuple[FaultyEndpoint, str]) -> None:
    """Twenty-five events: the second and third request are not made."""
    endpoint[0].plan("SendMessageBatch", answers("ServiceUnavailable", 503))
    result = send_through(endpoint, 25)
    assert [(each.code, each.permanent) for each in result] == [("sink_unreachable", False)] * 25
    assert len(endpoint[0].requests) == 1


def test_nobody_listens() -> None:
    """It is told at once."""
    with FaultyEndpoint("http://127.0.0.1:1") as gone:
        url = gone.url
    sink = open_sqs({"url": f"{url}/{ACCOUNT}/queue"}, SinkResources())
    [result] = sink.send([event()])
    sink.close()
    # Without a region in the address the environment's counts.
    assert isinstance(result, Undelivered)
    assert result.code == "sink_unreachable"


def test_a_service_that_hangs_is_left_in_time() -> None:
    """Well before the lease ends."""
    over = threading.Event()
    with Receiver(lambda _handler: over.wait(PATIENCE_S)) as receiver:
        sink = open_sqs({"url": f"{receiver.url}/{ACCOUNT}/queue"}, SinkResources(lease_s=2.0))
        [result] = sink.send([event()])
        sink.close()
        over.set()
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_timeout", False)


def test_a_service_with_a_wrong_certificate_is_told(tmp_path: Path) -> None:
    """It gets no message."""
    with Receiver(chain=write_chain(tmp_path, "localhost", self_signed=True)) as receiver:
        sink = open_sqs({"url": f"{receiver.url}/{ACCOUNT}/queue"}, SinkResources())
        [result] = sink.send([event()])
        sink.close()
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_misconfigured", False)
    assert receiver.requests == []


# --- batches --------------------------------------------------------------------------------------


class Calls:
    """Counts requests; answers that all went well, unless told otherwise."""

    def __init__(self, **failed: bool) -> None:
        self.batches: list[list[str]] = []
        self.failed = failed
        self.now = 0.0
        self.takes_s = 0.0

    def __call__(self, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Answer a request."""
        self.batches.append([entry["Id"] for entry in entries])
        self.now += self.takes_s
        ids = [entry["Id"] for entry in entries]
        return {
            "Successful": [{"Id": each} for each in ids if f"n{each}" not in self.failed],
            "Failed": [
                {"Id": each, "Code": "InternalError", "SenderFault": self.failed[f"n{each}"]}
                for each in ids
                if f"n{each}" in self.failed
            ],
        }

    def send(self, events: Sequence[Any], *, fifo: bool = False) -> Sequence[Any]:
        """Send events."""
        sender = BatchSender(
            what="it",
            body="MessageBody",
            fifo=fifo,
            call=self,
            monotonic=lambda: self.now,
            send_s_max=30.0,
        )
        return sender.send(events)


def test_a_request_holds_ten_entries_and_256_kib() -> None:
    """Attributes count; the order is kept."""
    calls = Calls()
    sizes = [100_000, 100_000, 100_000, 10, 10, 200_000, *[10] * 12]
    events = [event(number, payload=b"1" * size) for number, size in enumerate(sizes)]
    assert calls.send(events) == [Delivered()] * 18
    assert [len(batch) for batch in calls.batches] == [2, 3, 10, 3]
    assert [each for batch in calls.batches for each in batch] == [str(n) for n in range(18)]


def test_an_event_that_fits_in_no_request_is_final_by_itself() -> None:
    """Its neighbours are sent."""
    calls = Calls()
    attributes = sum(len(name) + len("String") for name in ATTRIBUTES)
    attributes += len("nodd.item.created") + len("goes-glm") + len("public") + len("sha256:") + 64
    fits, too_long = BYTES_MAX - attributes, BYTES_MAX - attributes + 1
    result = calls.send([event(1, payload=b"1" * too_long), event(2, payload=b"1" * fits)])
    assert (result[0].code, result[0].permanent) == ("payload_too_large", True)
    assert result[1] == Delivered()


def test_characters_that_no_message_can_hold_are_told() -> None:
    """SQS would refuse the whole request."""
    [result] = Calls().send([event(payload='"\ufffe"'.encode())])
    assert (result.code, result.permanent) == ("payload_invalid", True)


def test_an_entry_that_the_answer_forgets_counts_as_not_sent() -> None:
    """Nothing is believed that was not said."""
    calls = Calls()
    sender = BatchSender(
        what="it",
        body="MessageBody",
        fifo=False,
        call=lambda _entries: {"Successful": [{"Id": "1"}]},
        monotonic=lambda: calls.now,
        send_s_max=30.0,
    )
    result = sender.send([event(0), event(1)])
    assert isinstance(result[0], Undelivered)
    assert (result[0].code, result[0].permanent) == ("sink_unreachable", False)
    assert result[1] == Delivered()


def test_in_a_fifo_queue_nothing_overtakes_what_failed() -> None:
    """The next request is not made; what was not sent is tried again, whatever failed."""
    calls = Calls(n4=True)
    result = calls.send([event(number) for number in range(25)], fifo=True)
    assert len(calls.batches) == 1
    assert [position for position, each in enumerate(result) if isinstance(each, Delivered)] == [
        0, 1, 2, 3, 5, 6, 7, 8, 9,
    ]  # fmt: skip
    assert not any(each.permanent for each in result[10:])


def test_no_request_begins_when_the_time_is_half_over() -> None:
    """A send is over before the lease; the rest is tried again."""
    calls = Calls()
    calls.takes_s = 14.0
    result = calls.send([event(number) for number in range(45)])
    assert len(calls.batches) == 2
    assert [each.code for each in result[20:]] == ["sink_timeout"] * 25


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        (open_sqs, {"url": "nonsense"}, "neither the ARN nor the address"),
        (open_sqs, {}, "url is missing"),
        (open_sns, {"topic": "nonsense"}, "is not the ARN of an SNS topic"),
        (open_sns, {"topic": "arn:aws:sns:us-east-1:000000000000:t", "ur": 1}, "unknown setting"),
    ],
)
def test_wrong_settings_are_refused(kind: Any, settings: dict[str, Any], text: str) -> None:
    """Each says what is wrong."""
    with pytest.raises(ConfigError, match=text):
        kind(settings, SinkResources())

"""What SQS and SNS have in common as sinks: entries, batches, clients, and what answers mean.

A message is the payload as it stands; attributes beside it let subscriptions and consumers choose.
A batch has at most ten entries and 256 KiB, which both services take, and an answer for each.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    ReadTimeoutError,
    SSLError,
)

import tallgrass
from tallgrass.errors import (
    ConfigError,
    QueueDenied,
    QueueMissing,
    QueueThrottled,
    QueueUnreachable,
    TallgrassError,
)
from tallgrass.outbox.event import OutboxEvent
from tallgrass.queues.sqs_errors import AWS_ERRORS, translate, unavailability
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered

BATCH_MAX = 10
BYTES_MAX = 262_144
_CONNECT_S_MAX = 5.0

#: Characters that neither service keeps as they are.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
#: What a group or deduplication id may be made of.
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_CODES: dict[type[TallgrassError], str] = {
    QueueDenied: "sink_misconfigured",
    QueueMissing: "sink_misconfigured",
    QueueThrottled: "sink_throttled",
    QueueUnreachable: "sink_unreachable",
}
#: Names that SNS gives to what SQS names otherwise.
_OF_SNS = {
    "AuthorizationError": "sink_misconfigured",
    "InternalError": "sink_unreachable",
    "KMSAccessDenied": "sink_misconfigured",
    "KMSDisabled": "sink_misconfigured",
    "KMSInvalidState": "sink_misconfigured",
    "KMSNotFound": "sink_misconfigured",
    "KMSOptInRequired": "sink_misconfigured",
    "KMSThrottling": "sink_throttled",
    "NotFound": "sink_misconfigured",
    "Throttled": "sink_throttled",
}

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An event as an entry of a batch, without its id."""

    position: int
    fields: Fields
    size: int


def open_client(
    service: str, *, region: str | None, endpoint_url: str | None, send_s_max: float
) -> Any:
    """Return a client of one try: the dispatcher tries again, and knows when."""
    connect_s = min(_CONNECT_S_MAX, send_s_max / 4)
    try:
        session = boto3.session.Session()
        named = region or session.region_name
        if named is None:
            raise ConfigError("the address names no region; give the ARN, or set AWS_REGION")
        return session.client(
            service,
            region_name=named,
            endpoint_url=endpoint_url,
            config=Config(
                connect_timeout=connect_s,
                read_timeout=send_s_max / 2 - connect_s,
                retries={"mode": "standard", "total_max_attempts": 1},
                max_pool_connections=64,
                user_agent_extra=f"tallgrass/{tallgrass.__version__}",
            ),
        )
    except BotoCoreError as exc:  # for example a profile that is not there
        raise ConfigError(f"no client for {service}: {exc}") from exc


def entry_of(event: OutboxEvent, position: int, *, body: str, fifo: bool) -> Entry | Undelivered:
    """Return the entry of an event, or why no service would take it; `body` names the message."""
    text = event.payload.decode()
    attributes = {
        name: {"DataType": "String", "StringValue": value} for name, value in _attributes_of(event)
    }
    size = len(event.payload) + sum(
        len(name) + len("String") + len(value["StringValue"].encode())
        for name, value in attributes.items()
    )
    if size > BYTES_MAX:
        return Undelivered(
            code="payload_too_large",
            message=f"with its attributes it has {size:,} bytes; {BYTES_MAX:,} are the most",
            permanent=True,
        )
    if _NO_TEXT.search(text):
        return Undelivered(
            code="payload_invalid",
            message="it holds characters that Amazon's messages cannot",
            permanent=True,
        )
    fields: Fields = {body: text, "MessageAttributes": attributes}
    if fifo:
        fields["MessageGroupId"] = _id(event.dataset_id)
        fields["MessageDeduplicationId"] = _id(event.idempotency_key)
    return Entry(position=position, fields=fields, size=size)


def _attributes_of(event: OutboxEvent) -> Iterator[tuple[str, str]]:
    yield "event_name", event.event_name
    yield "dataset_id", event.dataset_id
    yield "care_label", event.care_label
    yield "idempotency_key", event.idempotency_key
    if event.trace is not None:
        yield "traceparent", event.trace.created


def _id(text: str) -> str:
    return text if _ID.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()


def batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut into batches of at most ten entries and 256 KiB, in order."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == BATCH_MAX or size + entry.size > BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSender:
    """Sends events in batches by one request of a service."""

    #: Names the target in messages.
    what: str
    #: The service's name for the text of a message.
    body: str
    fifo: bool
    #: Makes the request from its entries.
    call: Callable[[Sequence[Fields]], Mapping[str, Any]]
    monotonic: Callable[[], float]
    send_s_max: float

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Send all events; answer for each."""
        deliveries: dict[int, Delivery] = {}
        entries = []
        for position, event in enumerate(events):
            made = entry_of(event, position, body=self.body, fifo=self.fifo)
            if isinstance(made, Undelivered):
                deliveries[position] = made
            else:
                entries.append(made)
        # A request takes at most half of the time, so none may begin in the second half.
        begins_until = self.monotonic() + self.send_s_max / 2
        left = deque(batches(entries))
        while left:
            if self.monotonic() > begins_until:
                late = Undelivered(code="sink_timeout", message=f"{self.what}: no time left")
                return _in_order(events, deliveries, late)
            batch = left.popleft()
            answers = self._send_batch(batch)
            if isinstance(answers, Undelivered) and answers.permanent and len(batch) > 1:
                # One of them may be to blame for all.
                left.extendleft([entry] for entry in reversed(batch))
                continue
            if isinstance(answers, Undelivered):
                answers = dict.fromkeys((entry.position for entry in batch), answers)
            deliveries |= answers
            if (failure := self._stops(answers)) is not None:
                return _in_order(events, deliveries, failure)
        return _in_order(events, deliveries, _UNTOLD)

    def _send_batch(self, batch: Sequence[Entry]) -> dict[int, Delivery] | Undelivered:
        """Send a batch; return what became of each, or why the whole request failed."""
        try:
            # Ids are positions: ids made of the events could collide, which refuses all.
            answer = self.call([{"Id": str(each.position), **each.fields} for each in batch])
        except AWS_ERRORS as exc:
            return _failure(exc, self.what)
        told: dict[int, Delivery] = dict.fromkeys((each.position for each in batch), _UNTOLD)
        told |= {int(done["Id"]): Delivered() for done in answer.get("Successful", ())}
        return told | {
            int(each["Id"]): _refusal(each, self.what) for each in answer.get("Failed", ())
        }

    def _stops(self, answers: Mapping[int, Delivery]) -> Undelivered | None:
        """Say why nothing more is sent: the service fails, or what failed must not be overtaken."""
        failures = [each for each in answers.values() if isinstance(each, Undelivered)]
        if not failures or not (self.fifo or len(failures) == len(answers)):
            return None
        first = failures[0]
        if first.permanent and not self.fifo:
            return None
        return replace(first, permanent=False, message=f"not sent, as one before: {first.message}")


class AwsSink:
    """One queue or topic."""

    batch_max = BATCH_MAX

    def __init__(self, client: Any, sender: BatchSender) -> None:
        self._client = client
        self._sender = sender

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Send events, ten a request."""
        return self._sender.send(events)

    def close(self) -> None:
        """Let connections go."""
        self._client.close()


#: An entry of which the answer says nothing counts as not sent.
_UNTOLD = Undelivered(code="sink_unreachable", message="the service said nothing of it")


def _in_order(
    events: Sequence[OutboxEvent], told: Mapping[int, Delivery], rest: Undelivered
) -> Sequence[Delivery]:
    return [told.get(position, rest) for position in range(len(events))]


def _failure(error: Exception, what: str) -> Undelivered:
    """Say why a whole request failed."""
    if isinstance(error, SSLError):
        return Undelivered(
            code="sink_misconfigured", message=f"{what}: its certificate is not trusted"
        )
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError):
        return Undelivered(code="sink_timeout", message=f"{what} did not answer in time")
    translated = translate(error, what)
    said = error.response["Error"].get("Code", "") if isinstance(error, ClientError) else ""
    code = _CODES.get(type(translated)) or _OF_SNS.get(said)
    return Undelivered(code=code or "sink_refused", message=str(translated), permanent=code is None)


def _refusal(failed: Mapping[str, Any], what: str) -> Undelivered:
    """Say why one entry failed."""
    said, text = str(failed.get("Code", "")), str(failed.get("Message", ""))
    kind = unavailability(said)
    code = _OF_SNS.get(said) or (None if kind is None else _CODES[kind])
    if code is None and not failed.get("SenderFault"):
        code = "sink_unreachable"
    return Undelivered(
        code=code or "sink_refused", message=f"{what}: {said}: {text}", permanent=code is None
    )

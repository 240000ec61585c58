"""Amazon SQS behind the queue protocol.

Every request is one of boto3's; this module cuts batches of ten, keeps several requests under way
at the same time, looks at each entry of an answer, and tells its errors as Tallgrass's own.
"""

import json
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from tallgrass.clock import Clock
from tallgrass.errors import (
    InvalidInput,
    QueueDenied,
    QueueMissing,
    QueueRefused,
    QueueUnreachable,
    TallgrassError,
)
from tallgrass.queues.aws_trace_header import traceparent_of
from tallgrass.queues.limits import NO_TEXT, POLL_S_MAX, require_bodies, require_visibility
from tallgrass.queues.protocol import QueueMessage, QueueStatus
from tallgrass.queues.sqs_address import SqsAddress, read_address
from tallgrass.queues.sqs_batches import BATCH_MAX, Fields, RefusedEntry, sendable, settle, tens
from tallgrass.queues.sqs_errors import AWS_ERRORS, translate

_TRACEPARENT = "traceparent"
_TRACE_HEADER = "AWSTraceHeader"
_SYSTEM_ATTRIBUTES = ("SentTimestamp", "ApproximateReceiveCount", _TRACE_HEADER)
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)


class SqsQueue:
    """A queue of SQS. Its verbs may be used by several threads."""

    system = "aws_sqs"

    def __init__(  # noqa: PLR0913 - everything is injected
        self,
        name: str,
        client: Any,
        address: SqsAddress,
        *,
        clock: Clock,
        sleep: Callable[[float], object],
        random: Callable[[], float],
        visibility_s: float,
        wait_s: float,
        receivers: int,
        max_receive_count: int | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        #: As configured: the queue itself is not asked.
        self.max_receive_count = max_receive_count
        self._client = client
        self._address = address
        self._url = address.url_at(client.meta.endpoint_url)
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._visibility_s = math.ceil(visibility_s)
        self._wait_s = math.ceil(wait_s)
        self._receivers = receivers
        self._interrupted = interrupted
        self._threads = ThreadPoolExecutor(receivers, thread_name_prefix="tallgrass-sqs")

    def close(self) -> None:
        """End threads and connections."""
        self._threads.shutdown()
        self._client.close()

    def receive(self, limit: int, *, wait: bool = True) -> Sequence[QueueMessage]:
        """Take up to `limit` messages; wait for the first of them, unless told not to.

        After an answer that was full several receivers ask on, each until its answer is not.
        """
        if limit < 1:
            raise InvalidInput(f"queue {self.name}: cannot receive {limit} messages")
        messages = self._first(min(limit, BATCH_MAX), self._wait_s if wait else 0)
        if len(messages) == BATCH_MAX < limit:
            messages += self._more(limit - BATCH_MAX)
        return messages

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        """Remove deliveries for good; return the receipts that SQS called invalid.

        SQS itself answers a receipt that has expired as if it had deleted the message.
        """
        return self._settle(
            "delete_message_batch",
            [{"ReceiptHandle": receipt} for receipt in dict.fromkeys(receipts)],
        )

    def change_visibility(self, changes: Sequence[tuple[str, float]]) -> Sequence[str]:
        """Let deliveries become visible again later; return the receipts no longer valid."""
        require_visibility(self.name, changes)
        return self._settle(
            "change_message_visibility_batch",
            [
                {"ReceiptHandle": receipt, "VisibilityTimeout": math.ceil(seconds)}
                for receipt, seconds in dict(changes).items()
            ],
        )

    def send(self, bodies: Sequence[bytes]) -> Sequence[str]:
        """Put messages into the queue; return their ids, in order.

        A body that no queue takes is refused before anything is sent. What fails later fails for
        its own batch: the error says how many were sent.
        """
        require_bodies(self.name, bodies)
        texts = [self._text(body) for body in bodies]
        sent: list[str] = []
        try:
            for batch in sendable(texts):
                sent += self._send_batch(batch)
        except TallgrassError as error:
            known = f"{len(sent):,} of {len(bodies):,} messages are known to be sent"
            raise type(error)(f"{error}. {known}", code=error.code) from error
        return sent

    def status(self) -> QueueStatus:
        """Count what is there, as nearly as SQS knows; dead letters where they may be counted."""
        attributes = self._attributes(self._url, (*_COUNTS, "RedrivePolicy"))
        visible, delayed, in_flight = (int(attributes.get(name, 0)) for name in _COUNTS)
        return QueueStatus(
            visible=visible + delayed,
            in_flight=in_flight,
            dead=self._dead(attributes.get("RedrivePolicy")),
            oldest_sent_at=None,
        )

    # --- receiving --------------------------------------------------------------------------------

    def _first(self, size: int, left_s: int) -> list[QueueMessage]:
        while True:
            poll_s = min(left_s, POLL_S_MAX)
            messages = self._poll(size, poll_s)
            left_s -= poll_s
            if messages or left_s <= 0 or self._interrupted():
                return messages

    def _more(self, limit: int) -> list[QueueMessage]:
        wanted = _Wanted(limit)

        def take() -> list[QueueMessage]:
            taken: list[QueueMessage] = []
            while size := wanted.take(BATCH_MAX):
                try:
                    found = self._poll(size, 0)
                except TallgrassError:
                    break  # the next receive meets it again; what was taken must not be lost
                taken += found
                if len(found) < size:
                    break
            return taken

        threads = min(self._receivers, math.ceil(limit / BATCH_MAX))
        takers = [self._threads.submit(take) for _ in range(threads)]
        return [message for taker in takers for message in taker.result()]

    def _poll(self, size: int, wait_s: int) -> list[QueueMessage]:
        answer = self._call(
            "receive_message",
            QueueUrl=self._url,
            MaxNumberOfMessages=size,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=self._visibility_s,
            MessageSystemAttributeNames=_SYSTEM_ATTRIBUTES,
            MessageAttributeNames=[_TRACEPARENT],
        )
        return [self._message(found) for found in answer.get("Messages", ())]

    def _message(self, found: dict[str, Any]) -> QueueMessage:
        attributes = found.get("Attributes", {})
        sent_ms = attributes.get("SentTimestamp")
        return QueueMessage(
            message_id=found["MessageId"],
            receipt=found["ReceiptHandle"],
            # A lone surrogate passes as it is: whoever reads the message refuses it there.
            body=found["Body"].encode("utf-8", "surrogatepass"),
            receive_count=int(attributes.get("ApproximateReceiveCount", 1)),
            sent_at=self._clock() if sent_ms is None else _instant(int(sent_ms)),
            traceparent=_sender_of(found),
        )

    # --- settling and sending ---------------------------------------------------------------------

    def _settle(self, action: str, entries: Sequence[Fields]) -> list[str]:
        """Do it to every entry; return the receipts that are no longer valid, in order."""
        # An empty receipt would make SQS refuse its whole batch.
        valid = [entry for entry in entries if entry["ReceiptHandle"]]
        silent = threading.Event()

        def do(part: Sequence[Fields]) -> list[Fields | RefusedEntry]:
            if silent.is_set():
                raise QueueUnreachable(f"{self._what(action)}: not tried, as others had no answer")
            try:
                return self._batch(action, part)
            except QueueUnreachable:
                silent.set()
                raise

        parts = [(part, self._threads.submit(do, part)) for part in tens(valid)]
        # Every part is tried before the first failure is told: the others are done all the same.
        # Only a service that does not answer is not waited for again and again, part by part.
        failures = [failure for _, doing in parts if (failure := doing.exception()) is not None]
        if failures:
            raise failures[0]
        stale = [""] if len(valid) < len(entries) else []
        for part, doing in parts:
            stale += [
                entry["ReceiptHandle"]
                for entry, outcome in zip(part, doing.result(), strict=True)
                if isinstance(outcome, RefusedEntry)
            ]
        return stale

    def _send_batch(self, texts: Sequence[str]) -> list[str]:
        outcomes = self._batch("send_message_batch", [{"MessageBody": text} for text in texts])
        ids: list[str] = []
        for outcome in outcomes:
            if isinstance(outcome, RefusedEntry):
                what = self._what("send_message_batch")
                raise QueueRefused(f"{what}: {outcome.code}: {outcome.message}")
            ids.append(outcome["MessageId"])
        return ids

    def _batch(self, action: str, entries: Sequence[Fields]) -> list[Fields | RefusedEntry]:
        return settle(
            entries,
            lambda batch: self._call(action, QueueUrl=self._url, Entries=batch),
            what=self._what(action),
            sleep=self._sleep,
            random=self._random,
        )

    def _text(self, body: bytes) -> str:
        """Read a body as the text that SQS takes; other characters it would replace."""
        if self._address.is_fifo:
            raise InvalidInput(f"queue {self.name}: a FIFO queue is read, not sent to")
        try:
            text = body.decode()
        except UnicodeDecodeError as exc:
            raise InvalidInput(
                f"queue {self.name}: SQS takes text in UTF-8 only: {exc}. Nothing was sent"
            ) from exc
        if found := NO_TEXT.search(text):
            raise InvalidInput(
                f"queue {self.name}: SQS takes no {found[0]!r} in a message. Nothing was sent"
            )
        return text

    # --- asking -----------------------------------------------------------------------------------

    def _dead(self, redrive_policy: str | None) -> int | None:
        """Count the dead letters; None without a queue for them, or without the right to look."""
        try:
            address = read_address(
                json.loads(redrive_policy or "{}").get("deadLetterTargetArn", "")
            )
            url = address.url_at(self._client.meta.endpoint_url)
            attributes = self._attributes(url, _COUNTS)
        except (InvalidInput, QueueDenied, QueueMissing, QueueRefused, ValueError):
            return None
        return sum(int(attributes.get(name, 0)) for name in _COUNTS)

    def _attributes(self, url: str, names: Sequence[str]) -> dict[str, str]:
        answer = self._call("get_queue_attributes", QueueUrl=url, AttributeNames=names)
        attributes: dict[str, str] = answer.get("Attributes", {})
        return attributes

    def _call(self, action: str, **parameters: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, action)(**parameters)
        except AWS_ERRORS as exc:
            raise translate(exc, self._what(action)) from exc
        return answer

    def _what(self, action: str) -> str:
        return f"queue {self.name}: {action}"


class _Wanted:
    """How many messages are still asked for, shared by the receivers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()

    def take(self, most: int) -> int:
        """Return how many to ask for, 0 when enough were asked for."""
        with self._lock:
            size = min(most, self._count)
            self._count -= size
        return size


def _sender_of(found: dict[str, Any]) -> str | None:
    """Return the trace context that stands beside a message: the sender's own, else AWS's."""
    own: str | None = found.get("MessageAttributes", {}).get(_TRACEPARENT, {}).get("StringValue")
    return own or traceparent_of(found.get("Attributes", {}).get(_TRACE_HEADER))


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)

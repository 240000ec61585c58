"""Spans on their way to a collector: a bounded queue, and a thread that empties it.

The SDK's own way from a started span to its queue costs 21 µs a span, its processor waits half a
minute for a collector that hangs when it is closed, and what it drops it does not count. So spans
that have ended are queued as they are, 1 µs each, and made into the SDK's on the thread.
"""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from tallgrass.telemetry import trace_context
from tallgrass.telemetry.pushing import Pushing, Sent

#: Spans of one request.
SEND_MAX = 512
_EVERY_S = 5.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("tallgrass")
_UNSET, _FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ERROR = "error.type"
#: What the conventions for messaging call the side that a span shows.
_KINDS = {
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
    "settle": SpanKind.CLIENT,
    "create": SpanKind.PRODUCER,
    "send": SpanKind.PRODUCER,
}


class HashedOnce(Resource):
    """A resource that remembers its hash: exporters ask for it, made of JSON, at every span.

    That was a quarter of what a span costs to be sent.
    """

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __eq__(self, other: object) -> bool:
        """Compare as resources do."""
        return super().__eq__(other)

    def __hash__(self) -> int:
        """Return what a resource never changes."""
        return self._hash


class EndedSpan(NamedTuple):
    """A span as it was reported."""

    name: str
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, object]
    place: trace_context.SpanPlace


class SpanSending:
    """Sends spans in the background; offering one never waits."""

    def __init__(
        self,
        exporter: SpanExporter,
        resource: Resource,
        *,
        waiting_max: int,
        dropped: Callable[[int, str], None],
        sent: Sent,
        every_s: float = _EVERY_S,
    ) -> None:
        self._exporter = exporter
        self._resource = HashedOnce(resource)
        self._waiting: deque[EndedSpan] = deque()
        #: How many are being sent now.
        self._under_way = 0
        self._closed = False
        self._waiting_max = waiting_max
        #: So many are sent at once, not at the next time.
        self._enough = min(SEND_MAX, -(-waiting_max // 2))
        self._dropped = dropped
        self._sent = sent
        self._pushing = Pushing("tallgrass-spans", self._push, every_s, failed=self._lose)

    def start(self) -> None:
        """Begin to send."""
        self._pushing.start()

    def offer(self, span: EndedSpan) -> None:
        """Take a span, or drop it and count it if too many wait."""
        if len(self._waiting) >= self._waiting_max:
            self._dropped(1, "queue_full")
            return
        self._waiting.append(span)
        # Not at each one beyond: the thread that is awake sends until none waits.
        if len(self._waiting) % self._enough == 0:
            self._pushing.wake()

    def close(self, timeout_s: float) -> None:
        """Send what waits, for no longer than so; the rest is dropped and counted."""
        self._pushing.close(timeout_s)
        self._exporter.shutdown()
        self._closed = True
        if left := len(self._waiting) + self._under_way:
            self._dropped(left, "closed")

    def _push(self) -> None:
        """Send until nothing waits, or until a send fails: the rest waits for the next time."""
        while self._waiting:
            ended = [self._waiting.popleft() for _ in range(min(SEND_MAX, len(self._waiting)))]
            self._under_way = len(ended)
            spans = [readable(span, self._resource) for span in ended]
            if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                self._lose()
                return
            self._under_way = 0
            if self._closed:
                return  # given up meanwhile, and counted
            self._sent(ok=True)

    def _lose(self) -> None:
        """Count what was being sent and reached nobody."""
        lost, self._under_way = self._under_way, 0
        if not self._closed:  # else given up meanwhile, and counted
            self._sent(ok=False)
            self._dropped(lost, "undelivered")


def readable(span: EndedSpan, resource: Resource) -> ReadableSpan:
    """Return a span as the SDK's exporters take it."""
    given = {key: _plain(value) for key, value in span.attributes.items() if value is not None}
    parent, links = span.place.parent, span.place.links
    return ReadableSpan(
        span.name,
        context=_context(span.place.context),
        parent=None if parent is None else _context(parent),
        resource=resource,
        attributes=given,
        links=[Link(_context(link)) for link in links],
        kind=_KINDS.get(str(given.get("messaging.operation.type")), SpanKind.INTERNAL),
        status=_FAILED if _ERROR in given else _UNSET,
        start_time=_nanoseconds(span.started_at),
        end_time=_nanoseconds(span.ended_at),
        instrumentation_scope=_SCOPE,
    )


def _context(context: trace_context.SpanContext) -> SpanContext:
    return SpanContext(
        int(context.trace_id, 16), int(context.span_id, 16), is_remote=False, trace_flags=_SAMPLED
    )


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND * 1_000


def _plain(value: object) -> str | bool | int | float | list[str]:
    """Return a value as attributes can hold it."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [str(each) for each in value]
    return str(value)

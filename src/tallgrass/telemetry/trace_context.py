"""Where a span stands: W3C trace context whose ids are made of what the span tells of.

Nothing need be stored to carry a trace through ledger and outbox: whoever knows a unit's id, its
attempt number or an event's key knows the span. So a dispatcher finds the attempt that wrote its
event, a replay the attempt that it repeats, in another process and years later.
"""

import hashlib
import re
from typing import NamedTuple

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_VERSION = "00"
_KEPT = "01"
_NOT_KEPT = "00"
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


class SpanContext(NamedTuple):
    """What names a span everywhere: 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str

    def traceparent(self, *, kept: bool) -> str:
        """Return the W3C header; it tells others whether the spans of this trace are kept here."""
        return f"{_VERSION}-{self.trace_id}-{self.span_id}-{_KEPT if kept else _NOT_KEPT}"

    def below(self, *parts: str | int) -> "SpanContext":
        """Return a span of the same trace that is named by this one and the parts."""
        return SpanContext(self.trace_id, _digits(16, self.span_id, *parts))


class SpanPlace(NamedTuple):
    """Where a span stands among others."""

    context: SpanContext
    #: None: a root of its trace.
    parent: SpanContext | None = None
    #: Spans of other traces that led to this one.
    links: tuple[SpanContext, ...] = ()


def unit_trace(wal_id: str) -> str:
    """Return the trace of a unit: of all its attempts and of the events that they wrote."""
    # Written out, for it is made for every unit: `_digits` takes twice as long.
    return hashlib.sha256(f"5:trace,{len(wal_id)}:{wal_id},".encode()).hexdigest()[:32]


def attempt_context(wal_id: str, attempt_no: int) -> SpanContext:
    """Return the span of one attempt."""
    return SpanContext(unit_trace(wal_id), _digits(16, "attempt", wal_id, attempt_no))


def event_context(subject: str, idempotency_key: str) -> SpanContext:
    """Return the span that wrote an event, by what its row in the outbox says."""
    return SpanContext(unit_trace(subject), _digits(16, "event", subject, idempotency_key))


def named_context(kind: str, *parts: str | int) -> SpanContext:
    """Return the root of a trace of its own: a batch, a dispatch, a replay run."""
    return SpanContext(_digits(32, "trace of", kind, *parts), _digits(16, "root of", kind, *parts))


def read_traceparent(text: str | None) -> SpanContext | None:
    """Read a W3C header as others send it; None where it is none, as the standard says."""
    found = None if text is None else _TRACEPARENT.fullmatch(text)
    if found is None or (text is not None and text.startswith(_VERSION) and found[4]):
        return None
    context = SpanContext(found[1], found[2])
    if context.trace_id == _NO_TRACE or context.span_id == _NO_SPAN:
        return None
    return context


def _digits(count: int, *parts: str | int) -> str:
    """Hash the parts, each with its length before it, to so many hexadecimal digits.

    All of them look random, the last ones too: samplers go by those.
    """
    named = "".join(f"{len(text)}:{text}," for text in map(str, parts))
    return hashlib.sha256(named.encode()).hexdigest()[:count]

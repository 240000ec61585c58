"""message-parse: from the bytes of a queue message to ingest units. Pure, and it never raises.

Each record stands for itself: one that cannot be understood poisons no neighbour. Whoever has many
messages opens all of them first: each half runs with its own code at hand, in a tenth less time.
"""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from tallgrass.datasets.catalogue import Catalogue, IgnoredKey
from tallgrass.errors import InvalidInput, TallgrassError, TransientError
from tallgrass.intake.announced import RECORDS_MAX, Announced, Said
from tallgrass.intake.envelopes import Opened, instant_or_none, open_body
from tallgrass.intake.events import read_event
from tallgrass.intake.message import Deferred, Ignored, ParsedMessage, Poison
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.object_uri import object_uri
from tallgrass.ledger.unit import PROVIDERS, EventMetadata, IngestUnit

#: Is given each SNS envelope of a message, and None for an event that came without one. It refuses
#: what may not come in (InvalidInput), or cannot tell yet (TransientError).
Admission = Callable[[Mapping[str, Any] | None], None]

#: What each record of a message says, with the envelope that it came in.
Records = list[tuple[Said, Opened]]

#: A poison's message names the first faults and counts the rest.
_FAULTS_NAMED_MAX = 3
_FAULT_CHARS_MAX = 300
_UNEXPECTED = "internal_error"
#: Nothing else a sender says beside its event is kept, so it must look like nothing else.
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def parse_message(
    body: bytes,
    *,
    message_id: str | None,
    sent_at: datetime,
    queue: str,
    catalogue: Catalogue,
    providers: Collection[str] = PROVIDERS,
    admit: Admission | None = None,
    traceparent: str | None = None,
) -> ParsedMessage:
    """Return the units of a message, what of it is ignored, and what could not be understood."""
    return understand(
        open_message(body, admit),
        message_id=message_id,
        sent_at=sent_at,
        queue=queue,
        catalogue=catalogue,
        providers=providers,
        traceparent=traceparent,
    )


def open_message(body: bytes, admit: Admission | None = None) -> Records | ParsedMessage:
    """Return what each record of a message says; or what becomes of one that cannot be opened."""
    try:
        return _records(body, admit)
    except InvalidInput as exc:
        fault = Poison(code=exc.code, message=_told(exc))
        return ParsedMessage(poison=fault, faults=(fault,))
    except TransientError as exc:
        return ParsedMessage(deferred=Deferred(code=exc.code, message=_told(exc)))
    except Exception as exc:  # noqa: BLE001 - one odd message must not harm its neighbours
        fault = Poison(code=_UNEXPECTED, message=_told(_unexpected(exc)))
        return ParsedMessage(poison=fault, faults=(fault,))


def understand(
    records: Records | ParsedMessage,
    *,
    message_id: str | None,
    sent_at: datetime,
    queue: str,
    catalogue: Catalogue,
    providers: Collection[str] = PROVIDERS,
    traceparent: str | None = None,
) -> ParsedMessage:
    """Return the units of a message that was opened; what could not be opened stays what it is.

    A message without an id of its own, such as a file's, has that of the SQS message in it. Its
    sender's trace context is the one that stands beside it, else that of its envelope.
    """
    if isinstance(records, ParsedMessage):
        return records
    units: list[IngestUnit] = []
    ignored: list[Ignored] = []
    faults: list[Poison] = []
    beside = _context(traceparent)
    for number, (said, opened) in enumerate(records, start=1):
        known: IngestUnit | Ignored | InvalidInput
        if isinstance(said, Announced):
            event = _event(said, opened, message_id, sent_at, beside)
            known = _unit(said, event, queue, catalogue, providers)
        else:
            known = said
        if isinstance(known, IngestUnit):
            units.append(known)
        elif isinstance(known, Ignored):
            ignored.append(known)
        else:
            faults.append(_poison(number, len(records), known))
    return ParsedMessage(
        units=tuple(units), ignored=tuple(ignored), poison=_together(faults), faults=tuple(faults)
    )


def _records(body: bytes, admit: Admission | None) -> Records:
    """Return what each record of a body says, with the envelope that it came in."""
    records: Records = []
    for opened in open_body(load_strict(body)):
        records += [(said, opened) for said in _admitted(opened, admit)]
        if len(records) > RECORDS_MAX:
            raise InvalidInput(f"more than {RECORDS_MAX} records")
    return records


def _admitted(opened: Opened, admit: Admission | None) -> list[Said]:
    """Return what an event says, if it may come in."""
    if isinstance(opened.event, InvalidInput):
        return [opened.event]
    if admit is not None:
        try:
            admit(opened.envelope)
        except InvalidInput as exc:
            return [exc]
    return read_event(opened.event)


def _event(
    announced: Announced,
    opened: Opened,
    message_id: str | None,
    sent_at: datetime,
    beside: str | None,
) -> EventMetadata:
    """Return through which messages a record came, and when it was announced."""
    return EventMetadata(
        event_time=(
            opened.sent_at or instant_or_none(announced.event_time) or opened.queued_at or sent_at
        ),
        sns_message_id=opened.sns_message_id,
        sqs_message_id=message_id or opened.sqs_message_id,
        traceparent=beside or _context(opened.traceparent),
    )


def _context(given: Any) -> str | None:
    """Return a trace context that may be kept: of its form and length, whatever it names."""
    if isinstance(given, str) and _TRACEPARENT.fullmatch(given):
        return given
    return None


def _unit(
    announced: Announced,
    event: EventMetadata,
    queue: str,
    catalogue: Catalogue,
    providers: Collection[str],
) -> IngestUnit | Ignored | InvalidInput:
    """Return the unit that a record announces, or why it is passed over."""
    provider, key = announced.provider, announced.key
    bucket = catalogue.bucket_now(provider, announced.bucket)
    try:
        uri = object_uri(provider, bucket, key)
        if announced.ignored is not None:
            return Ignored(reason=announced.ignored, object_uri=uri)
        found = catalogue.route(provider, bucket, key)
        if isinstance(found, IgnoredKey):
            return Ignored(reason=found.reason, object_uri=uri)
        if found is None:
            return InvalidInput(f"no dataset claims the bucket of {uri!r}", code="unroutable")
        return IngestUnit.of(
            dataset=found.dataset.id,
            object_uri=uri,
            provider=provider,
            queue=queue,
            time_range_start=found.start,
            time_range_end=found.end,
            event=event,
            object_ref=announced.object_ref,
            providers=providers,
        )
    except InvalidInput as exc:
        return exc
    except Exception as exc:  # noqa: BLE001 - one odd record must not harm its neighbours
        return _unexpected(exc)


def _unexpected(exc: Exception) -> InvalidInput:
    """Return a fault of ours as one of the message: it is kept, and fed again once it is mended."""
    return InvalidInput(f"{type(exc).__name__}: {exc}", code=_UNEXPECTED)


def _poison(number: int, records: int, fault: InvalidInput) -> Poison:
    """Return why one record could not be understood; it says which, where there are several."""
    place = f"record {number} of {records}: " if records > 1 else ""
    return Poison(code=fault.code, message=place + _told(fault))


def _together(faults: list[Poison]) -> Poison | None:
    """Return one poison for all faults of a message, with the code of the first."""
    if not faults:
        return None
    named = "; ".join([fault.message for fault in faults[:_FAULTS_NAMED_MAX]])
    rest = len(faults) - _FAULTS_NAMED_MAX
    more = f"; and {rest} more" if rest > 0 else ""
    return Poison(code=faults[0].code, message=named + more)


def _told(fault: TallgrassError) -> str:
    """Return a fault as a short printable text; it may quote what the message holds."""
    text = str(fault)[:_FAULT_CHARS_MAX]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)

"""message-parse: from the bytes of a queue message to ingest units. Pure, and it never raises.

Each record stands for itself: one that cannot be understood poisons no neighbour.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from tallgrass.datasets.catalogue import Catalogue, IgnoredKey
from tallgrass.errors import InvalidInput, TallgrassError, TransientError
from tallgrass.intake.envelopes import Opened, instant_or_none, open_body
from tallgrass.intake.message import Deferred, Ignored, ParsedMessage, Poison
from tallgrass.intake.s3_event import PROVIDER, Announced, is_test_event, read_records, records_of
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.object_uri import object_uri
from tallgrass.ledger.unit import PROVIDERS, EventMetadata, IngestUnit

#: Is given the SNS envelope of a message, None for raw delivery. It refuses what may not come in
#: (InvalidInput), or cannot tell yet (TransientError).
Admission = Callable[[Mapping[str, Any] | None], None]

#: A poison's message names the first faults and counts the rest.
_FAULTS_NAMED_MAX = 3
_FAULT_CHARS_MAX = 300


def parse_message(
    body: bytes,
    *,
    message_id: str,
    sent_at: datetime,
    queue: str,
    catalogue: Catalogue,
    providers: Collection[str] = PROVIDERS,
    admit: Admission | None = None,
) -> ParsedMessage:
    """Return the units of a message, what of it is ignored, and what could not be understood."""
    try:
        opened = open_body(load_strict(body))
        if admit is not None:
            admit(opened.envelope)
        if is_test_event(opened.event):
            return ParsedMessage(ignored=(Ignored(reason="test_event"),))
        records = records_of(opened.event)
    except InvalidInput as exc:
        return ParsedMessage(poison=Poison(code=exc.code, message=_told(exc)))
    except TransientError as exc:
        return ParsedMessage(deferred=Deferred(code=exc.code, message=_told(exc)))
    units: list[IngestUnit] = []
    ignored: list[Ignored] = []
    faults: list[tuple[int, InvalidInput]] = []
    for number, announced in enumerate(read_records(records), start=1):
        if isinstance(announced, InvalidInput):
            faults.append((number, announced))
            continue
        try:
            known = _unit(announced, opened, message_id, sent_at, queue, catalogue, providers)
        except InvalidInput as exc:
            faults.append((number, exc))
            continue
        if isinstance(known, IngestUnit):
            units.append(known)
        else:
            ignored.append(known)
    return ParsedMessage(
        units=tuple(units), ignored=tuple(ignored), poison=_poison(faults, len(records))
    )


def _unit(
    announced: Announced,
    opened: Opened,
    message_id: str,
    sent_at: datetime,
    queue: str,
    catalogue: Catalogue,
    providers: Collection[str],
) -> IngestUnit | Ignored:
    """Return the unit that a record announces, or why it is passed over."""
    uri = object_uri(PROVIDER, announced.bucket, announced.key)
    if announced.ignored is not None:
        return Ignored(reason=announced.ignored, object_uri=uri)
    found = catalogue.route(PROVIDER, announced.bucket, announced.key)
    if found is None:
        raise InvalidInput(f"no dataset claims the bucket of {uri!r}", code="unroutable")
    if isinstance(found, IgnoredKey):
        return Ignored(reason=found.reason, object_uri=uri)
    event_time = opened.sent_at or instant_or_none(announced.event_time) or sent_at
    return IngestUnit.of(
        dataset=found.dataset.id,
        object_uri=uri,
        provider=PROVIDER,
        queue=queue,
        time_range_start=found.start,
        time_range_end=found.end,
        event=EventMetadata(
            event_time=event_time,
            sns_message_id=opened.sns_message_id,
            sqs_message_id=message_id,
        ),
        object_ref=announced.object_ref,
        providers=providers,
    )


def _poison(faults: list[tuple[int, InvalidInput]], records: int) -> Poison | None:
    """Return one poison for all faults of a message, with the code of the first."""
    if not faults:
        return None
    named = "; ".join(
        f"record {number} of {records}: {_told(fault)}"
        for number, fault in faults[:_FAULTS_NAMED_MAX]
    )
    rest = len(faults) - _FAULTS_NAMED_MAX
    more = f"; and {rest} more" if rest > 0 else ""
    return Poison(code=faults[0][1].code, message=named + more)


def _told(fault: TallgrassError) -> str:
    """Return a fault as a short printable text; it may quote what the message holds."""
    text = str(fault)[:_FAULT_CHARS_MAX]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)

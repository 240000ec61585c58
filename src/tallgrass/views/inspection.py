"""What the pipeline would make of a key or of a message, as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallgrass.datasets.key_report import KeyReport, dataset_of_uri, report_key
from tallgrass.error_codes import lookup
from tallgrass.errors import InvalidInput

if TYPE_CHECKING:
    from tallgrass.datasets.catalogue import Catalogue
    from tallgrass.intake.message import ParsedMessage
    from tallgrass.ledger.unit import IngestUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFault:
    """An address that cannot be read as a key, and the reason."""

    #: As it was given; None if it is no text.
    key: str | None
    error: dict[str, str]
    #: Whose key it is, where that can be told.
    dataset: str | None = None


def inspect_key(
    catalogue: Catalogue, line: str | InvalidInput, providers: frozenset[str]
) -> KeyReport | KeyFault:
    """Tell what a key says; a line that is not text is answered with its own error."""
    if isinstance(line, InvalidInput):
        return _fault(None, line)
    try:
        return report_key(catalogue, line, providers)
    except InvalidInput as exc:
        return _fault(line, exc, dataset_of_uri(catalogue, line, providers))


def _fault(key: str | None, exc: InvalidInput, dataset: str | None = None) -> KeyFault:
    error = {"code": exc.code, "message": str(exc), "remedy": lookup(exc.code).remedy}
    return KeyFault(key=key, error=error, dataset=dataset)


def message_document(found: ParsedMessage) -> dict[str, object]:
    """Return which units a notification announces, and what is wrong with it."""
    return {
        "units": [_unit(unit) for unit in found.units],
        "ignored": found.ignored,
        "errors": [
            {"code": one.code, "message": one.message, "remedy": lookup(one.code).remedy}
            for one in found.faults
        ],
    }


def _unit(unit: IngestUnit) -> dict[str, object]:
    return {
        "wal_id": unit.wal_id,
        "dataset": unit.dataset,
        "object_uri": unit.object_uri,
        "provider": unit.provider,
        "time_range_start": unit.time_range_start,
        "time_range_end": unit.time_range_end,
        "event_time": unit.event.event_time,
        "sns_message_id": unit.event.sns_message_id,
        "sqs_message_id": unit.event.sqs_message_id,
        "object_ref": unit.object_ref,
    }

"""The closed vocabularies of the record and the attempt, in the specifications' own words."""

from enum import StrEnum
from typing import TypeVar

from tallgrass.errors import InvalidInput

_Word = TypeVar("_Word", bound=StrEnum)


class Status(StrEnum):
    """Where a unit stands; a record has exactly one."""

    PENDING = "pending"  # recorded and idle: new, parked, or reset for another try
    IN_PROGRESS = "in_progress"  # held by one worker through its open attempt
    SUCCEEDED = "succeeded"  # terminal: item and provenance are in the catalog
    FAILED = "failed"  # not terminal: open to retry or replay
    QUARANTINED = "quarantined"  # terminal: held for a person


class AttemptStatus(StrEnum):
    """What became of one attempt."""

    PENDING = "pending"  # open: this row is the lock
    APPLIED = "applied"  # its effects are in the catalog; never changed again
    FAILED = "failed"  # it reported its failure
    ROLLED_BACK = "rolled_back"  # abandoned; recovery found nothing of it left


class Intent(StrEnum):
    """Why an attempt was opened."""

    INGEST = "ingest"  # the first way into the catalog
    REINGEST = "reingest"  # the source object was overwritten
    REPAIR = "repair"  # the same object again, with mended code or configuration
    BACKFILL = "backfill"  # an object that no notification brought


class JournalReason(StrEnum):
    """Why the journal tells of a unit, beside error codes and what people say."""

    NEWER_OBJECT = "newer_object"  # its object was overwritten
    ANNOUNCED_OBJECT = "announced_object"  # a message told the listed object's place in the order
    LISTED_OBJECT = "listed_object"  # it waited for a message, and a listing found its object
    KILL_SWITCH = "kill_switch"  # its dataset is switched off: it waits


class CheckStatus(StrEnum):
    """Outcome of integrity-check and of metadata-extract."""

    UNKNOWN = "unknown"
    OK = "ok"
    SUSPECT = "suspect"
    FAILED = "failed"


class StacStatus(StrEnum):
    """Outcome of stac-register."""

    UNKNOWN = "unknown"
    CREATED = "created"
    UPDATED = "updated"
    NO_OP = "no-op"
    FAILED = "failed"


class ProvenanceStatus(StrEnum):
    """Outcome of provenance-emit."""

    UNKNOWN = "unknown"
    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"


def word(vocabulary: type[_Word], text: str) -> _Word:
    """Return the member that `text` names; any other text is refused with the allowed words."""
    try:
        return vocabulary(text)
    except ValueError:
        allowed = ", ".join(vocabulary)
        raise InvalidInput(
            f"{text!r} is not a {vocabulary.__name__}: allowed are {allowed}", code="unknown_status"
        ) from None

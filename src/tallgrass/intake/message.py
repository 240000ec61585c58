"""What a queue message turns out to say."""

from dataclasses import dataclass
from enum import StrEnum

from tallgrass.ledger.unit import IngestUnit
from tallgrass.made_often import made_often


class IgnoreReason(StrEnum):
    """Why an event makes no unit, beside what a dataset says of its keys."""

    DELETION = "deletion"
    METADATA_UPDATE = "metadata_update"
    OTHER_EVENT = "other_event"
    TEST_EVENT = "test_event"
    SUBSCRIPTION_CONFIRMED = "subscription_confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A record of a message that is no unit: acknowledged, and counted by its reason."""

    #: `deletion`, `test_event`, `sidecar`, `metadata_only`, `not_ingestable` …
    reason: str
    object_uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """Why nothing, or not everything, of a message could be understood."""

    #: A code of the registry: `unroutable`, `missing_required_field`, `invalid_input` …
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Why a message cannot be judged yet: it stays in the queue and comes again."""

    #: A code of the registry.
    code: str
    message: str


@made_often
class ParsedMessage:
    """0…n units; what was ignored; and, if part of it could not be understood, why."""

    units: tuple[IngestUnit, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    #: All faults in one, with the code of the first.
    poison: Poison | None = None
    #: Each fault by itself, in the order of the message.
    faults: tuple[Poison, ...] = ()
    #: Then there is nothing else.
    deferred: Deferred | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonMessage:
    """A message that no unit could be made of."""

    queue: str
    body: bytes
    message_id: str | None
    error_code: str
    error_message: str

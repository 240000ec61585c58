"""An object that an event speaks of, whichever provider sent the event."""

from typing import Any, NamedTuple

from tallgrass.errors import InvalidInput
from tallgrass.intake.message import Ignored, IgnoreReason
from tallgrass.ledger.unit import ObjectReference

#: As many records of the usual length as the largest message holds; so many are read in some ten
#: milliseconds.
RECORDS_MAX = 1250

#: Why an event that makes no object is passed over.
DELETION = IgnoreReason.DELETION.value
METADATA_UPDATE = IgnoreReason.METADATA_UPDATE.value
OTHER_EVENT = IgnoreReason.OTHER_EVENT.value


class Announced(NamedTuple):
    """An object that an event speaks of. A tuple: it is made in a third of a dataclass's time."""

    provider: str
    #: As datasets know it: for Azure ``ACCOUNT.CONTAINER``.
    bucket: str
    #: Decoded: as the object store knows it.
    key: str
    #: As the event gives it; None where it has none.
    event_time: Any
    object_ref: ObjectReference
    #: None for a new object; else why the event is passed over.
    ignored: str | None = None


#: What one event, or one record of it, says; or why it cannot be understood.
Said = Announced | Ignored | InvalidInput

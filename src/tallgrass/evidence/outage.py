"""Back-pressure: while no object can be read, no further unit is taken.

Each unit taken during an outage would spend an attempt and a delivery of its message, and minutes
later all of them would be dead letters. So a batch of which nothing could be read closes the way,
and one of its objects is asked for now and then until the store answers again.
"""

from collections.abc import Callable, Sequence

from tallgrass.evidence.reading import Evidence, EvidenceReader, ReadFailure
from tallgrass.ledger.unit import IngestUnit

#: Fewer failures may be the objects' own.
UNITS_MIN = 5
#: Objects that are asked for; one of them may be broken by itself.
ASKED_MAX = 3
#: After so long a batch is let through anyway: it costs one attempt, and waiting for objects that
#: are broken for good would cost everything.
OUTAGE_S_MAX = 300.0

_UNREACHABLE = frozenset({"io_error", "transient_network_error"})


class Outage:
    """Notices that the objects' store does not answer, and that it does again."""

    def __init__(self, reader: EvidenceReader, monotonic: Callable[[], float]) -> None:
        self._reader = reader
        self._monotonic = monotonic
        self._asked: Sequence[IngestUnit] = ()
        self._until = 0.0

    def note(
        self, units: Sequence[IngestUnit], readings: Sequence[Evidence | ReadFailure]
    ) -> None:
        """Look at a batch: if nothing of it could be read, the way is closed."""
        if len(units) >= UNITS_MIN and all(map(_is_unreachable, readings)):
            self._asked = units[:ASKED_MAX]
            self._until = self._monotonic() + OUTAGE_S_MAX

    def lasts(self) -> bool:
        """Ask again, if the way is closed; tell whether it still is."""
        if self._asked and (
            self._monotonic() >= self._until
            or not all(map(_is_unreachable, self._reader.read(self._asked)))
        ):
            self._asked = ()
        return bool(self._asked)


def _is_unreachable(reading: Evidence | ReadFailure) -> bool:
    return isinstance(reading, ReadFailure) and reading.code in _UNREACHABLE

"""Back-pressure: while no object can be read, no further unit is taken.

Each unit taken during an outage would spend an attempt and a delivery of its message, and minutes
later all of them would be dead letters. So a batch of which nothing could be read closes the way,
and some of its objects are asked for now and then until the store answers again.
"""

from collections.abc import Callable, Sequence

from tallgrass.errors import ObjectsUnreachable
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


class OutageWatch:
    """Reads as the reader that it is given, and remembers whether the store answers."""

    def __init__(self, reader: EvidenceReader, monotonic: Callable[[], float]) -> None:
        self._reader = reader
        self._monotonic = monotonic
        #: What could not be read when the way was closed; empty while it is open.
        self._asked: Sequence[IngestUnit] = ()
        self._until = 0.0

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Return one answer for each unit; if none could be read, the way is closed."""
        readings = self._reader.read(units)
        if len(units) >= UNITS_MIN and all(map(_is_unreachable, readings)):
            self._asked = units[:ASKED_MAX]
            self._until = self._monotonic() + OUTAGE_S_MAX
        return readings

    def require_open(self) -> None:
        """Ask again, if the way is closed; refuse further units while nothing can be read."""
        if not self._asked:
            return
        readings = self._reader.read(self._asked)
        if all(map(_is_unreachable, readings)) and self._monotonic() < self._until:
            raise ObjectsUnreachable(f"{self._asked[0].object_uri} and others cannot be read")
        self._asked = ()


def _is_unreachable(reading: Evidence | ReadFailure) -> bool:
    return isinstance(reading, ReadFailure) and reading.code in _UNREACHABLE

"""Back-pressure: while no object can be read, no further unit is taken.

Each unit taken during an outage would spend an attempt and a delivery of its message, and minutes
later all of them would be dead letters. So a batch of which nothing could be read closes the way,
and some of its objects are asked for now and then until the store answers again.

The objects may be to blame, or the rights to them alone. So what was read last is asked for too:
of the same bucket; or of any, where all of the batch were denied, as one bucket may be private and
others not. While nothing of that kind was read yet, a few readings in a row must fail, in one batch
or in several.
"""

from collections.abc import Callable, Sequence

from tallgrass.errors import ObjectsUnreachable
from tallgrass.evidence.reading import Evidence, EvidenceReader, ReadFailure
from tallgrass.ledger.unit import IngestUnit

#: Fewer failures may be the objects' own. In a slow feed all may be of one message, which has five
#: deliveries.
FAILURES_MIN = 3
#: Objects that are asked for; one of them may be broken by itself.
ASKED_MAX = 3
#: After so long a batch is let through, if any store answers: it costs one attempt, and waiting for
#: objects that are broken for good would cost everything.
OUTAGE_S_MAX = 300.0

_DENIED, _NO_ANSWER = "access_denied", "transient_network_error"
_UNREAD = frozenset({"io_error", _NO_ANSWER, _DENIED})


class OutageWatch:
    """Reads as the reader that it is given, and remembers whether the store answers."""

    def __init__(self, reader: EvidenceReader, monotonic: Callable[[], float]) -> None:
        self._reader = reader
        self._monotonic = monotonic
        #: Readings that failed since the last one that did not.
        self._failures = 0
        #: What was read last, by bucket; the latest is the last one.
        self._last_read: dict[str, IngestUnit] = {}
        #: What could not be read when the way was closed; empty while it is open.
        self._asked: Sequence[IngestUnit] = ()
        self._until = 0.0

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Return one answer for each unit; if none could be read, the way may be closed."""
        readings = self._reader.read(units)
        if not all(map(_is_unread, readings)):
            self._failures = 0
            self._note(units, readings)
        elif readings:
            self._failures += len(readings)
            before = self._readable_before(units, readings)
            if before or self._failures >= FAILURES_MIN:
                self._asked = [*units[:ASKED_MAX], *before]
                self._until = self._monotonic() + OUTAGE_S_MAX
        return readings

    def require_open(self) -> None:
        """Ask again, if the way is closed; refuse further units while nothing can be read."""
        if not self._asked:
            return
        if not all(map(_is_unread, self._reader.read(self._asked))):
            self._failures = 0
        elif self._monotonic() < self._until or self._nobody_answers():
            raise ObjectsUnreachable(f"{self._asked[0].object_uri} and others cannot be read")
        self._asked = ()

    def _nobody_answers(self) -> bool:
        """Tell whether no store answers, which no object can be to blame for."""
        readings = self._reader.read(list(self._last_read.values())[-ASKED_MAX:])
        return bool(readings) and all(
            isinstance(each, ReadFailure) and each.code == _NO_ANSWER for each in readings
        )

    def _note(
        self, units: Sequence[IngestUnit], readings: Sequence[Evidence | ReadFailure]
    ) -> None:
        for unit, reading in zip(units, readings, strict=True):
            if isinstance(reading, Evidence):
                bucket = _bucket(unit)
                self._last_read.pop(bucket, None)
                self._last_read[bucket] = unit

    def _readable_before(
        self, units: Sequence[IngestUnit], readings: Sequence[Evidence | ReadFailure]
    ) -> list[IngestUnit]:
        """Return what could be read before, and tells by now whether it is the units' own fault."""
        if all(isinstance(each, ReadFailure) and each.code == _DENIED for each in readings):
            return list(self._last_read.values())[-1:]
        buckets = dict.fromkeys(map(_bucket, units))
        return [self._last_read[bucket] for bucket in buckets if bucket in self._last_read]


def _bucket(unit: IngestUnit) -> str:
    return unit.object_uri.split("/", 3)[2]


def _is_unread(reading: Evidence | ReadFailure) -> bool:
    return isinstance(reading, ReadFailure) and reading.code in _UNREAD

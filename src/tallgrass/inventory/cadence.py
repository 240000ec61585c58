"""Gaps: where objects should have come by the dataset's cadence, and none did. Pure.

Instants may be told in any order. The window is cut into quarters of the cadence, one byte each, so
that memory follows the window and not the number of objects. Sources are not exact: two instants
that follow each other within one and a half cadences are neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from math import ceil

from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.key_grammar import match_key

#: Slots that a cadence is cut into.
_QUARTERS = 4
#: Slots between two instants beyond which something is missing: one and a half cadences.
_NEIGHBOURS = 6
#: Bytes for all series together; a window that needs more is too long to be judged at once.
SLOTS_MAX = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch in which nothing came; each end is exact to a quarter of the cadence."""

    series: str
    #: Of the last instant before it, or the window's begin.
    start: datetime
    #: Of the first instant behind it, or the window's end.
    end: datetime
    #: How many instants the cadence asks for in between.
    missing: int


@dataclass(slots=True)
class Cadence:
    """Which instants of a window were seen, series by series."""

    since: datetime
    until: datetime
    cadence_s: float
    #: Whether the window has more slots than are kept: there are no answers then.
    too_long: bool = False
    _slots: int = field(init=False)
    _slot_s: float = field(init=False)
    _seen: dict[str, bytearray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Cut the window."""
        self._slot_s = self.cadence_s / _QUARTERS
        length_s = max(0.0, (self.until - self.since).total_seconds())
        self._slots = max(1, ceil(length_s / self._slot_s))

    def see(self, series: str, instant: datetime) -> None:
        """Take note of an instant; one outside the window tells nothing."""
        if self.too_long or not self.since <= instant < self.until:
            return
        seen = self._seen.get(series)
        if seen is None:
            if (len(self._seen) + 1) * self._slots > SLOTS_MAX:
                self.too_long = True
                self._seen.clear()
                return
            seen = self._seen[series] = bytearray(self._slots)
        slot = int((instant - self.since).total_seconds() / self._slot_s)
        seen[min(slot, self._slots - 1)] = 1

    def gaps(self, whole: str) -> Iterator[Gap]:
        """Yield what is missing, by series; a window without any instant is one gap of `whole`.

        A series that was not seen at all is not known to be one: an archive ends, a satellite is
        replaced.
        """
        if self.too_long:
            return
        found = self._seen or {whole: bytearray(self._slots)}
        for series in sorted(found):
            yield from self._gaps_of(series, found[series])

    def _gaps_of(self, series: str, seen: bytearray) -> Iterator[Gap]:
        before: int | None = None
        for after in chain(_marks(seen), (None,)):
            gap = self._gap(series, before, after)
            if gap is not None:
                yield gap
            before = after

    def _gap(self, series: str, before: int | None, after: int | None) -> Gap | None:
        """Return what is missing between two neighbours; None stands for an end of the window."""
        first = 0 if before is None else before
        last = self._slots if after is None else after
        if last - first <= _NEIGHBOURS:
            return None
        return Gap(
            series=series,
            start=self._instant(first),
            end=self.until if after is None else self._instant(last),
            missing=_missing(last - first, before is None, after is None),
        )

    def _instant(self, slot: int) -> datetime:
        return self.since + timedelta(seconds=slot * self._slot_s)


def _marks(seen: bytearray) -> Iterator[int]:
    slot = seen.find(1)
    while slot >= 0:
        yield slot
        slot = seen.find(1, slot + 1)


def _missing(slots: int, from_begin: bool, to_end: bool) -> int:  # noqa: FBT001 - two ends
    """Return how many instants fit into a gap; the window's begin may be one, its end is none."""
    if from_begin:
        return ceil(slots / _QUARTERS) if to_end else slots // _QUARTERS
    return (ceil if to_end else round)(slots / _QUARTERS) - 1


def instant_of(dataset: Dataset, key: str, start: datetime) -> datetime:
    """Return the instant that the cadence counts: of model output the run's, else the data's."""
    layouts = (dataset.key, *dataset.key.layouts)
    if all(layout.reference is None for layout in layouts):
        return start
    match = match_key(dataset, key)
    return start if match is None else match.reference or start

"""What the items of a collection span and share: box, time range, and values of properties."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import orjson

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.stac.extensions import declared
from tallgrass.stac.geometry import Box

_EDGE = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Count, box and time range of items. No box: none of them has a place."""

    items: int
    box: Box | None
    start: datetime
    end: datetime


class BoxAndTimes(Protocol):
    """What a collection's extent is made of."""

    @property
    def box(self) -> Box | None:
        """The box around all items; None if none has a place."""

    @property
    def start(self) -> datetime:
        """The first instant."""

    @property
    def end(self) -> datetime:
        """The last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The outermost sides of boxes; crossing ones, whose west lies east of their east, apart."""

    south: float | None
    north: float | None
    west: float | None
    east: float | None
    crossing_west: float | None
    crossing_east: float | None

    def around(self) -> Box | None:
        """Return the smallest box that is sure to hold all; it may cross, or go all round."""
        if self.south is None or self.north is None:
            return None
        west, east = self._longitudes()
        return west, self.south, east, self.north

    def _longitudes(self) -> tuple[float, float]:
        if self.crossing_west is None or self.crossing_east is None:
            assert self.west is not None  # noqa: S101 - where there is a south there is a west
            assert self.east is not None  # noqa: S101
            return self.west, self.east
        if self.west is None or self.east is None:
            crosses = self.crossing_west > self.crossing_east
            return (self.crossing_west, self.crossing_east) if crosses else (-_EDGE, _EDGE)
        # The wider gap between the crossing ones and the others stays outside.
        behind, before = self.west - self.crossing_east, self.crossing_west - self.east
        if max(behind, before) <= 0 or self.crossing_west <= self.crossing_east:
            return -_EDGE, _EDGE
        if before >= behind:
            return self.crossing_west, max(self.east, self.crossing_east)
        return min(self.west, self.crossing_west), self.crossing_east


def with_extent(collection: bytes, extent: BoxAndTimes) -> bytes:
    """Return a collection with the extent of its items.

    Without a place among the items, it keeps the box that it has.
    """
    document = orjson.loads(collection)
    box = document["extent"]["spatial"]["bbox"] if extent.box is None else [extent.box]
    interval = [format_instant(extent.start), format_instant(extent.end)]
    document["extent"] = {"spatial": {"bbox": box}, "temporal": {"interval": [interval]}}
    return canonical_bytes(document)


def with_values(collection: bytes, values: Mapping[str, Sequence[object]]) -> bytes:
    """Return a collection whose summaries also tell the values that its items have."""
    document = orjson.loads(collection)
    summaries = {**document["summaries"], **values}
    document["summaries"] = summaries
    document["stac_extensions"] = sorted(
        {*document["stac_extensions"], *declared(name for name in summaries)}
    )
    return canonical_bytes(document)

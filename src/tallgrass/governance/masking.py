"""Places generalised to a grid of degrees: always to the same cell, never by chance.

A tier says how exact a place may be told (Chapman's best practice for sensitive places): 1°, 0.1°,
0.01° or 0.001°. `mask` looks through a JSON document: GeoJSON geometries, boxes, fields of latitude
and longitude or of lists of them, and texts such as ids and hrefs that spell coordinates. One place
that must not be told exactly makes all places of the document coarse: its neighbours would give it
away.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tallgrass.governance.places import (
    Document,
    Extent,
    Grid,
    Position,
    extents_in,
    snapped,
)

_ROUND = 360.0


class Tier(IntEnum):
    """How exact a place may be told: the decimals of a degree that stay."""

    #: 1°, about 100 km: extreme sensitivity.
    EXTREME = 0
    #: 0.1°, about 10 km.
    HIGH = 1
    #: 0.01°, about 1 km.
    MEDIUM = 2
    #: 0.001°, about 100 m.
    LOW = 3

    @property
    def degrees(self) -> float:
        """The size of a cell."""
        return float(f"1e-{self.value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedArea:
    """A box inside of which places may be told only so exactly; it may cross 180°."""

    name: str
    west: float
    south: float
    east: float
    north: float
    tier: Tier

    def holds(self, position: Position) -> bool:
        """Tell whether a longitude and latitude lie in it, its edges included."""
        longitude, latitude = position
        return self._has_latitude(latitude) and self._has_longitude(longitude)

    def is_told_by(self, extent: Extent | Grid) -> bool:
        """Tell whether an extent gives away a place in the area.

        One does that has a corner in it, or that meets it and is itself smaller than the cell that
        is allowed: its position tells where the area is. A satellite's view of half the Earth
        tells nothing. A grid does that has a node in it.
        """
        if isinstance(extent, Grid):
            return any(self._has_latitude(each) for each in extent.latitudes) and any(
                self._has_longitude(each) for each in extent.longitudes
            )
        if any(self.holds(position) for position in extent.positions):
            return True
        size = self.tier.degrees
        west, degrees = extent.arc
        if degrees >= size or extent.north - extent.south >= size:
            return False
        if extent.south > self.north or extent.north < self.south:
            return False
        return self._has_longitude(west) or (self.west - west) % _ROUND <= degrees

    def _has_latitude(self, latitude: float) -> bool:
        return self.south <= latitude <= self.north

    def _has_longitude(self, longitude: float) -> bool:
        """Tell it of any number that means the same meridian: -95.2 is 264.8."""
        if self.east - self.west >= _ROUND:
            return True
        # Compared as they are written first: a difference may be off by its last digit.
        if self.west <= longitude <= self.east or longitude in {self.west, self.east}:
            return True
        return (longitude - self.west) % _ROUND <= (self.east - self.west) % _ROUND


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingPolicy:
    """What must not be told exactly: areas anywhere, and everything under a care label."""

    areas: tuple[ProtectedArea, ...] = ()
    #: Care label → the tier of all places of its documents.
    labels: tuple[tuple[str, Tier], ...] = (
        ("sensitive", Tier.HIGH),
        ("restricted", Tier.EXTREME),
    )

    def tier_of(self, document: Document, care_label: str) -> Tier | None:
        """Return the strictest tier that the document falls under; None if all may be told."""
        tiers = [tier for label, tier in self.labels if label == care_label]
        if self.areas:
            tiers.extend(self._tiers_by_area(extents_in(document)))
        return min(tiers, default=None)

    def _tiers_by_area(self, extents: Iterator[Extent | Grid]) -> Iterator[Tier]:
        for extent in extents:
            for area in self.areas:
                if area.is_told_by(extent):
                    yield area.tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """A document that may be told, and how exact its places are; None: as they were."""

    document: Mapping[str, Any]
    tier: Tier | None


def mask(document: Mapping[str, Any], care_label: str, policy: MaskingPolicy) -> Masked:
    """Return the document with its places as exact as the policy allows.

    A document without places is returned as it is, whatever its label.
    """
    tier = policy.tier_of(document, care_label)
    if tier is None:
        return Masked(document=document, tier=None)
    while True:
        made = snapped(document, tier.value)
        # A coarser place may lie in an area that is stricter still.
        stricter = policy.tier_of(made, care_label)
        if stricter is None or stricter >= tier:
            changed = made != document
            return Masked(document=made if changed else document, tier=tier if changed else None)
        tier = stricter

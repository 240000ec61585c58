"""Boxes and properties on a grid of degrees: what a place may be told as."""

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from tallgrass.governance.places import PROJECTION, snapped
from tallgrass.stac.geometry import Box

_LONGITUDE_MAX = 180
_LATITUDE_MAX = 90


def coarse_properties(properties: Mapping[str, object], degrees: float) -> dict[str, Any]:
    """Return properties without exact places."""
    kept = {name: each for name, each in properties.items() if not name.startswith(PROJECTION)}
    coarse: dict[str, Any] = snapped(kept, decimals_of(degrees))
    return coarse


def coarse_box(box: Box, degrees: float) -> Box:
    """Return the cells that a box lies in; one at least, so that no point is told by its corner."""
    cell = Decimal(1).scaleb(-decimals_of(degrees))
    west, south, east, north = box
    left, right = _span(west, east if east >= west else _LONGITUDE_MAX, cell, _LONGITUDE_MAX)
    if east < west:
        # It crosses the antimeridian: each side by itself, unless they then meet.
        _, right = _span(-_LONGITUDE_MAX, east, cell, _LONGITUDE_MAX)
        if right >= left:
            left, right = Decimal(-_LONGITUDE_MAX), Decimal(_LONGITUDE_MAX)
    bottom, top = _span(south, north, cell, _LATITUDE_MAX)
    return float(left), float(bottom), float(right), float(top)


def _span(low: float, high: float, cell: Decimal, end: int) -> tuple[Decimal, Decimal]:
    """Return the outer edges of the cells from one degree to another."""
    first = Decimal(repr(low)).quantize(cell, ROUND_FLOOR)
    last = Decimal(repr(high)).quantize(cell, ROUND_CEILING)
    if first == last:
        last += cell
    if last > end:
        first, last = min(first, end - cell), Decimal(end)
    # Without the sign of a zero, which tells a side.
    return first + 0, last + 0


def decimals_of(degrees: float) -> int:
    """Return how many decimals of a degree a cell's edges have."""
    return max(0, -int(Decimal(repr(degrees)).adjusted()))

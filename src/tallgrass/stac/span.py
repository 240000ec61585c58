"""What items span and share, noted batch by batch and gathered for their collection.

A span only grows: many may be merged in any order, one of them twice, with the same result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

import orjson

from tallgrass.canonical_json import canonical_text
from tallgrass.clock import format_instant, parse_instant
from tallgrass.stac.extent import Sides
from tallgrass.stac.geometry import Box

#: Of one property; more would tell a reader less.
VALUES_MAX = 50

Value = str | int | float

#: A box south of which there is none lies outside the world: the item has no place.
_NORTH_MAX = 90.0
#: Types, not classes: a truth is no number.
_SCALARS = frozenset({str, int, float})


class Spanning(Protocol):
    """An item as far as it counts here."""

    @property
    def bbox(self) -> Box:
        """Its box; one outside the world where it has no place."""

    @property
    def start(self) -> datetime:
        """Its first instant."""

    @property
    def end(self) -> datetime:
        """Its last."""

    @property
    def summarised(self) -> Mapping[str, object]:
        """Those of its properties that its collection may tell in summaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Sides, times, and the values of properties; None where there are too many to tell."""

    sides: Sides
    start: datetime
    end: datetime
    values: Mapping[str, frozenset[Value] | None]

    @property
    def box(self) -> Box | None:
        """The box around all; None if none has a place."""
        return self.sides.around()

    def few(self, names: Iterable[str]) -> dict[str, list[Value]]:
        """Return the values of the named properties, in order, where they are few."""
        return {name: sorted(found, key=str) for name in names if (found := self.values.get(name))}

    def limited_to(self, names: Iterable[str]) -> "Span":
        """Return the span with the named properties alone."""
        values = {name: self.values[name] for name in names if name in self.values}
        return Span(sides=self.sides, start=self.start, end=self.end, values=values)

    def text(self) -> str:
        """Return it as canonical JSON."""
        values = {
            name: None if found is None else sorted(found, key=str)
            for name, found in self.values.items()
        }
        times = {"start": format_instant(self.start), "end": format_instant(self.end)}
        return canonical_text({"sides": asdict(self.sides), **times, "values": values})


def span_of(items: Sequence[Spanning]) -> Span:
    """Return what some items span; there is at least one."""
    # Boxes repeat: many datasets have one for all of their items.
    placed = [box for box in {item.bbox for item in items} if box[1] <= _NORTH_MAX]
    plain = [box for box in placed if box[0] <= box[2]]
    crossing = [box for box in placed if box[0] > box[2]]
    names = set[str]().union(*(item.summarised for item in items))
    return Span(
        sides=Sides(
            south=min((box[1] for box in placed), default=None),
            north=max((box[3] for box in placed), default=None),
            west=min((box[0] for box in plain), default=None),
            east=max((box[2] for box in plain), default=None),
            crossing_west=min((box[0] for box in crossing), default=None),
            crossing_east=max((box[2] for box in crossing), default=None),
        ),
        start=min(item.start for item in items),
        end=max(item.end for item in items),
        values={name: found for name in names if (found := _values(name, items)) != frozenset()},
    )


def merged(spans: Sequence[Span]) -> Span:
    """Return the span around spans; there is at least one."""
    sides = [each.sides for each in spans]
    names = {name for each in spans for name in each.values}
    return Span(
        sides=Sides(
            south=_least(each.south for each in sides),
            north=_most(each.north for each in sides),
            west=_least(each.west for each in sides),
            east=_most(each.east for each in sides),
            crossing_west=_least(each.crossing_west for each in sides),
            crossing_east=_most(each.crossing_east for each in sides),
        ),
        start=min(each.start for each in spans),
        end=max(each.end for each in spans),
        values={
            name: _union([each.values[name] for each in spans if name in each.values])
            for name in names
        },
    )


def span_from(text: str) -> Span:
    """Read a span as `Span.text` wrote it."""
    document = orjson.loads(text)
    return Span(
        sides=Sides(**document["sides"]),
        start=parse_instant(document["start"]),
        end=parse_instant(document["end"]),
        values={
            name: None if found is None else frozenset(found)
            for name, found in document["values"].items()
        },
    )


def _values(name: str, items: Sequence[Spanning]) -> frozenset[Value] | None:
    found = {
        item.summarised.get(name) for item in items if type(item.summarised.get(name)) in _SCALARS
    }
    return _limited(frozenset(found))  # type: ignore[arg-type]


def _union(found: Sequence[frozenset[Value] | None]) -> frozenset[Value] | None:
    known = [each for each in found if each is not None]
    return None if len(known) < len(found) else _limited(frozenset[Value]().union(*known))


def _limited(found: frozenset[Value]) -> frozenset[Value] | None:
    return found if len(found) <= VALUES_MAX else None


def _least(sides: Iterable[float | None]) -> float | None:
    return min((side for side in sides if side is not None), default=None)


def _most(sides: Iterable[float | None]) -> float | None:
    return max((side for side in sides if side is not None), default=None)

"""Where items lie, as far as governance lets it be told (pure).

Pages and documents ask the same gate as events do. Data that may not be published are shown without
any place, and no place is more exact than the present policy allows, even if an item was made under
a milder one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallgrass.governance.gate import Action, GateRequest, gate
from tallgrass.governance.places import WITHHELD, snapped, snapped_field
from tallgrass.stac.coarse_places import coarse_box, coarse_properties, decimals_of
from tallgrass.stac.geometry import box_of, geometry_of
from tallgrass.views.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallgrass.governance.policy import Policies
    from tallgrass.ledger.record import WalRecord
    from tallgrass.replay.run import RunRecord
    from tallgrass.stac.geometry import Box

_ROUND = 360.0
_EDGE = 180.0
#: Members of an item that tell where it lies.
_PLACES = frozenset({"geometry", "bbox", "properties"})
#: What of an object's header places every pixel of it.
_GRID = "grid"
#: The values of a field that verification compares.
_SIDES = ("stored", "found")
#: Fields of a record that may spell coordinates.
_WORDS_OF_A_RECORD = (
    "object_uri",
    "last_error_message",
    "stac_item_id",
    "stac_item_href",
    "extensions",
    "next_object",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """How exactly the places of a dataset may be told."""

    #: Why nothing may be; None where something may.
    refusal: str | None
    #: Size of the cells that places are told in; 0: as exact as they are.
    degrees: float

    @property
    def is_exact(self) -> bool:
        """Whether places are told as they are stored."""
        return self.refusal is None and not self.degrees


def telling_of(policies: Policies, dataset: str) -> Telling:
    """Ask the gate."""
    admission = gate(
        GateRequest(action=Action.PUBLISH, dataset=dataset, policy=policies.of(dataset))
    )
    return Telling(refusal=admission.refusal, degrees=admission.masking_degrees)


def told(value: object, telling: Telling) -> Any:
    """Return a value in JSON's types, its places only as exact as is allowed."""
    document = plain(value)
    return snapped(document, decimals_of(telling.degrees)) if telling.degrees else document


def record_as_told(record: WalRecord, telling: Telling) -> WalRecord:
    """Return a record whose addresses and messages tell no place more exactly than is allowed."""
    if not telling.degrees:
        return record
    return replace(
        record, **{name: told(getattr(record, name), telling) for name in _WORDS_OF_A_RECORD}
    )


def evidence_as_told(evidence: Mapping[str, Any] | None, telling: Telling) -> Any:
    """Return the evidence of an object as far as it may be told; None if nothing may be."""
    if evidence is None or telling.refusal is not None:
        return None
    if not telling.degrees:
        return evidence
    if not isinstance(evidence.get("header"), dict):
        # Of a ledger that was imported: nothing in it is known to be a grid.
        return told(evidence, telling)
    header = {name: each for name, each in evidence["header"].items() if name != _GRID}
    return told({**evidence, "header": header}, telling)


def field_as_told(pointer: str, value: str | None, telling: Telling) -> str | None:
    """Return one field of a document, written as JSON, as it may be told."""
    if value is None or (telling.refusal is None and not telling.degrees):
        return value
    if telling.refusal is not None:
        return WITHHELD
    return snapped_field(pointer, value, decimals_of(telling.degrees))


def changes_as_told(policies: Policies, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return what replays changed in records; former values of fields may be places too."""
    return [_changes(each, telling_of(policies, each.dataset)) for each in records]


def judgement_as_told(unit: Mapping[str, Any], telling: Telling) -> dict[str, Any]:
    """Return what verification found of a unit, field by field, as it may be told."""
    fields = [
        {**each, **{name: field_as_told(each["field"], each[name], telling) for name in _SIDES}}
        for each in unit["fields"]
    ]
    return {**told({**unit, "fields": ()}, telling), "fields": fields}


def item_as_told(item: Mapping[str, Any] | None, telling: Telling) -> dict[str, Any] | None:
    """Return an item as far as it may be told; None if nothing may be."""
    if item is None or telling.refusal is not None:
        return None
    if telling.degrees <= item["properties"].get("anon:size", 0.0):
        return dict(item)
    rest = {name: each for name, each in item.items() if name not in _PLACES}
    coarse = {**told(rest, telling), "geometry": None}
    if item.get("bbox") is not None:
        box = coarse_box(_flat(item["bbox"]), telling.degrees)
        coarse |= {"bbox": list(box), "geometry": geometry_of(box)}
    properties = coarse_properties(item["properties"], telling.degrees)
    return {**coarse, "properties": {**properties, "anon:size": telling.degrees}}


def box_of_item(item: Mapping[str, Any]) -> Box | None:
    """Return the box that an item lies in; None where it has no place."""
    return None if item.get("bbox") is None else _flat(item["bbox"])


def _changes(record: RunRecord, telling: Telling) -> RunRecord:
    changes = [
        replace(
            each,
            before=field_as_told(each.pointer, each.before, telling),
            after=field_as_told(each.pointer, each.after, telling),
        )
        for each in record.changes
    ]
    return replace(record, changes=tuple(changes))


def around(boxes: Iterable[Box]) -> Box | None:
    """Return the smallest box around all boxes; west is greater than east if it crosses 180°.

    Longitudes form a circle: the box leaves out the widest gap on it.
    """
    found = list(boxes)
    if not found:
        return None
    south, north = min(box[1] for box in found), max(box[3] for box in found)
    spans = sorted((west, east if east >= west else east + _ROUND) for west, _, east, _ in found)
    gap, start, reach = 0.0, spans[0][0], spans[0][1]
    for west, east in spans[1:]:
        if west - reach > gap:
            gap, start = west - reach, west
        reach = max(reach, east)
    # The gap behind the last span goes round to the first.
    if spans[0][0] + _ROUND - reach >= gap:
        gap, start = spans[0][0] + _ROUND - reach, spans[0][0]
    if gap <= 0:
        return -_EDGE, south, _EDGE, north
    end = start + _ROUND - gap
    return start, south, end if end <= _EDGE else end - _ROUND, north


def in_words(box: Box) -> str:
    """Return a box as people say it."""
    west, south, east, north = box
    if (west, east) == (-_EDGE, _EDGE):
        return f"{_latitude(south)} to {_latitude(north)}, all round"
    if west == east and south == north:
        return f"{_latitude(south)}, {_longitude(west)}"
    latitudes = f"{_latitude(south)} to {_latitude(north)}"
    return f"{latitudes}, {_longitude(west)} to {_longitude(east)}"


def _flat(values: Sequence[float]) -> Box:
    """Return a box without heights."""
    half = len(values) // 2
    return box_of((*values[:2], *values[half : half + 2]))


def _latitude(degrees: float) -> str:
    return f"{abs(degrees):.1f}° {'S' if degrees < 0 else 'N'}"


def _longitude(degrees: float) -> str:
    return f"{abs(degrees):.1f}° {'W' if degrees < 0 else 'E'}"

"""How what a replay made differs from what was there before, and whether that was announced.

With the same object, code and configuration any difference is a mismatch. With other code or
configuration a mismatch is a field of the item that the run did not name. An item of a newer object
is other data: it never mismatches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tallgrass.canonical_json import canonical_text
from tallgrass.stac.comparison import Difference, differences

#: Of one record, kept and shown; a change of everything tells nothing by its hundredth field.
CHANGES_MAX = 100
VALUE_CHARS_MAX = 200

ITEM = "item"
PROVENANCE = "provenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What an attempt that was applied made, and of what."""

    #: Stands for the object version, the code and the configuration together.
    activity_id: str | None
    #: The object's version id and etag as read.
    object_version: tuple[str | None, str | None]
    item: bytes
    #: None where the document is not there any more.
    provenance: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs, with both values as JSON; None where it is absent."""

    document: str
    pointer: str
    before: str | None
    after: str | None
    #: Whether the run said that it would change.
    expected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that differs, and whether it may."""

    changes: tuple[Change, ...] = ()
    mismatch: bool = False


def compare(before: Made, after: Made, expected: Sequence[str]) -> Comparison:
    """Compare what was there with what a replay made of it."""
    same_activity = before.activity_id is not None and before.activity_id == after.activity_id
    fields = [(ITEM, found) for found in differences(before.item, after.item)]
    if same_activity and before.provenance is not None and after.provenance is not None:
        found = differences(before.provenance, after.provenance)
        fields += [(PROVENANCE, each) for each in found]
    changes = tuple(_change(document, each, expected) for document, each in fields)
    if same_activity:
        mismatch = bool(changes)
    elif before.object_version != after.object_version:
        mismatch = False
    else:
        mismatch = any(not change.expected for change in changes)
    return Comparison(changes=changes, mismatch=mismatch)


def announced(pointer: str, expected: Sequence[str]) -> bool:
    """Tell whether a field is one of those named, or lies below one."""
    return any(
        pointer == named or pointer.startswith(f"{named.rstrip('/')}/") for named in expected
    )


def changes_text(changes: Sequence[Change]) -> str | None:
    """Write changes as they are kept: bounded, with the number of all; None for none."""
    if not changes:
        return None
    return canonical_text(
        {
            "total": len(changes),
            "fields": [
                {
                    "document": each.document,
                    "pointer": each.pointer,
                    "before": _bounded(each.before),
                    "after": _bounded(each.after),
                    "expected": each.expected,
                }
                for each in changes[:CHANGES_MAX]
            ],
        }
    )


def changes_from(text: str | None) -> tuple[int, tuple[Change, ...]]:
    """Read what `changes_text` wrote: the number of all changes, and those that were kept."""
    if text is None:
        return 0, ()
    value: dict[str, Any] = orjson.loads(text)
    return value["total"], tuple(Change(**field) for field in value["fields"])


def _change(document: str, found: Difference, expected: Sequence[str]) -> Change:
    return Change(
        document=document,
        pointer=found.pointer,
        before=found.left,
        after=found.right,
        expected=document == ITEM and announced(found.pointer, expected),
    )


def _bounded(value: str | None) -> str | None:
    if value is None or len(value) <= VALUE_CHARS_MAX:
        return value
    return value[: VALUE_CHARS_MAX - 1] + "…"

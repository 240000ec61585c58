"""How two items, or two provenance bodies, differ: field by field."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from tallgrass.canonical_json import canonical_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that is not the same, with both values as JSON; None where it is absent."""

    #: JSON Pointer (RFC 6901), such as ``/properties/datetime``.
    pointer: str
    left: str | None
    right: str | None


class _Absent:
    """A field that one of the two does not have; its JSON null is something else."""


_ABSENT = _Absent()


def differences(left: bytes, right: bytes) -> tuple[Difference, ...]:
    """Return the fields in which two JSON documents differ, in the order of their pointers."""
    if left == right:
        return ()
    return tuple(_compare("", orjson.loads(left), orjson.loads(right)))


def _compare(pointer: str, left: Any, right: Any) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _compare(below, left.get(name, _ABSENT), right.get(name, _ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            yield from _compare(f"{pointer}/{index}", _at(left, index), _at(right, index))
    else:
        # As text: 1, 1.0 and true are equal in Python, and not the same bytes.
        texts = _text(left), _text(right)
        if texts[0] != texts[1]:
            yield Difference(pointer=pointer, left=texts[0], right=texts[1])


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _text(value: Any) -> str | None:
    return None if value is _ABSENT else canonical_text(value)

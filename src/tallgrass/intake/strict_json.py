"""JSON from strangers: read strictly, within bounds, or refused with a short reason.

jiter refuses what is no JSON, duplicate keys, NaN, lone surrogates and broken UTF-8. What it lets
through is refused here: too large, too many values, too deep, numbers that become infinite, and
integers that no database column holds.
"""

from typing import Any

import jiter

from tallgrass.errors import InvalidInput

#: What Amazon SQS carries at most.
BYTES_MAX = 1 << 20
#: A notification of the largest size has fewer; so many are read in a few milliseconds.
VALUES_MAX = 40_000
#: Of them lists and tables, which take the most time: a record of S3's has eight.
CONTAINERS_MAX = 16_000
DEPTH_MAX = 64
#: What SQLite's and PostgreSQL's widest integer holds.
INTEGER_MAX = (1 << 63) - 1
INTEGER_MIN = -(1 << 63)
#: A shorter text cannot have more than CONTAINERS_MAX values, since each takes two characters.
_BYTES_BEFORE_COUNTING = 2 * CONTAINERS_MAX

_INFINITY = float("inf")


class StrictJsonError(InvalidInput):
    """Bytes that are not the strict JSON that is read here."""


class Allowance:
    """How many values the texts of a message may have together, however they are nested."""

    __slots__ = ("_bytes_uncounted", "_containers_left", "_values_left")

    def __init__(self) -> None:
        self._bytes_uncounted = _BYTES_BEFORE_COUNTING
        self._containers_left = CONTAINERS_MAX
        self._values_left = VALUES_MAX

    def take(self, text: bytes) -> None:
        """Count what opens and separates values; signs inside texts count too."""
        self._bytes_uncounted -= len(text)
        if self._bytes_uncounted >= 0:
            return
        containers = text.count(b"[") + text.count(b"{")
        self._containers_left -= containers
        self._values_left -= containers + text.count(b",") + 1
        if self._containers_left < 0:
            raise StrictJsonError(f"more than {CONTAINERS_MAX} lists and tables")
        if self._values_left < 0:
            raise StrictJsonError(f"more than {VALUES_MAX} values")


def load_strict(data: bytes, allowance: Allowance | None = None) -> Any:
    """Return the JSON value; whatever is not strict or not within bounds is refused.

    A text that stands in another takes of that one's allowance.
    """
    if len(data) > BYTES_MAX:
        raise StrictJsonError(f"{len(data)} bytes; at most {BYTES_MAX} are read")
    (allowance or Allowance()).take(data)
    try:
        value = jiter.from_json(
            data, allow_inf_nan=False, cache_mode="keys", catch_duplicate_keys=True
        )
    except ValueError as exc:
        raise StrictJsonError(f"not strict JSON: {str(exc)[:200]}") from exc
    _require_bounds(value)
    return value


def _require_bounds(value: Any) -> None:
    """Refuse numbers out of bounds, and depth."""
    values = [value]
    containers = 0
    # The list grows while it is gone through: half the time of a walk level by level.
    for one in values:
        # Exact types, as jiter makes no others, and the most frequent first.
        kind = type(one)
        if kind is str:
            continue
        if kind is dict:
            containers += 1
            values += one.values()
        elif kind is list:
            containers += 1
            values += one
        elif kind is int:
            if not INTEGER_MIN <= one <= INTEGER_MAX:
                raise StrictJsonError("an integer of more than 64 bits")
        elif kind is float and not -_INFINITY < one < _INFINITY:
            raise StrictJsonError("a number beyond all bounds")
    if containers > DEPTH_MAX:
        _require_depth(value)


def _require_depth(value: Any) -> None:
    """Go down level by level."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        tables = [one for one in level if type(one) is dict]
        lists = [one for one in level if type(one) is list]
        if not tables and not lists:
            return
        level = [one for table in tables for one in table.values()]
        level += [one for each in lists for one in each]
    raise StrictJsonError(f"deeper than {DEPTH_MAX} levels")

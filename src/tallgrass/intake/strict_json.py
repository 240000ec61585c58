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
DEPTH_MAX = 64
#: What SQLite's and PostgreSQL's widest integer holds.
INTEGER_MAX = (1 << 63) - 1
INTEGER_MIN = -(1 << 63)
#: A shorter text cannot have more values than VALUES_MAX, since each takes two characters.
BYTES_BEFORE_COUNTING = 2 * VALUES_MAX

_INFINITY = float("inf")


class StrictJsonError(InvalidInput):
    """Bytes that are not the strict JSON that is read here."""


def load_strict(data: bytes) -> Any:
    """Return the JSON value; whatever is not strict or not within bounds is refused."""
    if len(data) > BYTES_MAX:
        raise StrictJsonError(f"{len(data)} bytes; at most {BYTES_MAX} are read")
    if len(data) > BYTES_BEFORE_COUNTING and values_at_most(data) > VALUES_MAX:
        raise StrictJsonError(f"more than {VALUES_MAX} values")
    try:
        value = jiter.from_json(
            data, allow_inf_nan=False, cache_mode="keys", catch_duplicate_keys=True
        )
    except ValueError as exc:
        raise StrictJsonError(f"not strict JSON: {str(exc)[:200]}") from exc
    _require_bounds(value)
    return value


def values_at_most(data: bytes) -> int:
    """Count what separates and opens values; signs inside texts count too, so it may be fewer."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


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

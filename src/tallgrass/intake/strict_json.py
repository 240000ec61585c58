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

_INFINITY = float("inf")
#: A shorter text cannot have more values than this, since each takes two characters.
_BYTES_BEFORE_COUNTING = 2 * VALUES_MAX


class StrictJsonError(InvalidInput):
    """Bytes that are not the strict JSON that is read here."""


def load_strict(data: bytes) -> Any:
    """Return the JSON value; whatever is not strict or not within bounds is refused."""
    if len(data) > BYTES_MAX:
        raise StrictJsonError(f"{len(data)} bytes; at most {BYTES_MAX} are read")
    if len(data) > _BYTES_BEFORE_COUNTING and _values_at_most(data) > VALUES_MAX:
        raise StrictJsonError(f"more than {VALUES_MAX} values")
    try:
        value = jiter.from_json(
            data, allow_inf_nan=False, cache_mode="keys", catch_duplicate_keys=True
        )
    except ValueError as exc:
        raise StrictJsonError(f"not strict JSON: {str(exc)[:200]}") from exc
    _require_bounds(value)
    return value


def _values_at_most(data: bytes) -> int:
    """Count what separates and opens values; signs inside texts count too."""
    return data.count(b",") + data.count(b"[") + data.count(b"{") + 1


def _require_bounds(value: Any) -> None:
    """Refuse depth and numbers out of bounds, level by level."""
    level = [value]
    depth = 0
    while level:
        deeper: list[Any] = []
        containers = False
        for one in level:
            # Exact types, as jiter makes no others, and the most frequent first.
            kind = type(one)
            if kind is str:
                continue
            if kind is dict:
                containers = True
                deeper += one.values()
            elif kind is list:
                containers = True
                deeper += one
            elif kind is int:
                if not INTEGER_MIN <= one <= INTEGER_MAX:
                    raise StrictJsonError("an integer of more than 64 bits")
            elif kind is float and not -_INFINITY < one < _INFINITY:
                raise StrictJsonError("a number beyond all bounds")
        depth += containers
        if depth > DEPTH_MAX:
            raise StrictJsonError(f"deeper than {DEPTH_MAX} levels")
        level = deeper

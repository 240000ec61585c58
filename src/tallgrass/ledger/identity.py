"""``wal_id``: the name of a unit, the same wherever and whenever it is computed.

A UUIDv8 (RFC 9562): 48 bits of milliseconds from 0001-01-01T00:00:00Z to ``time_range_start``, then
bits of a SHA-256. NODD holds data from 1763 on, so the count starts at year 1 and never goes
negative; ids sort by data time, hence an id range is a data-time range.
"""

import hashlib
from datetime import UTC, datetime, timedelta

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput
from tallgrass.length_prefixed import length_prefixed

_YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TIME_DIGITS = 12


def wal_id(dataset: str, object_uri: str, time_range_start: datetime) -> str:
    """Return the id of the unit (dataset, object_uri, time_range_start)."""
    digest = hashlib.sha256(
        length_prefixed(dataset, object_uri, format_instant(time_range_start))
    ).hexdigest()
    millis = _milliseconds(time_range_start)
    # Version 8 in the 13th digit; the variant's two bits `10` make the 17th one of 8, 9, a, b.
    variant = "89ab"[int(digest[3], 16) & 3]
    return f"{millis[:8]}-{millis[8:]}-8{digest[:3]}-{variant}{digest[4:7]}-{digest[7:19]}"


def first_wal_id_of(instant: datetime) -> str:
    """Return the smallest id that a unit starting at `instant` can have: a bound for id ranges."""
    millis = _milliseconds(instant)
    return f"{millis[:8]}-{millis[8:]}-8000-8000-000000000000"


def start_of_wal_id(wal_id: str) -> datetime:
    """Return when the data of a unit start, to the millisecond."""
    return _YEAR_ONE + int(wal_id[:8] + wal_id[9:13], 16) * _MILLISECOND


def _milliseconds(instant: datetime) -> str:
    """Return the milliseconds since year 1 as 12 digits; 48 bits last until the year 8920."""
    digits = f"{(instant - _YEAR_ONE) // _MILLISECOND:012x}"
    if len(digits) > _TIME_DIGITS:
        message = f"too far in the future for an id: {instant.isoformat()}"
        raise InvalidInput(message, code="invalid_time")
    return digits

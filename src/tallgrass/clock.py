"""What time it is, and how an instant is written.

The package speaks of instants as aware ``datetime`` in UTC and writes them as RFC 3339 with
microseconds and ``Z``: fixed width, so that text order is time order.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

from tallgrass.errors import InvalidInput

#: A clock is any callable that returns the current instant as an aware UTC datetime.
Clock = Callable[[], datetime]

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:[.]\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def system_clock() -> datetime:
    """Return the machine's current instant."""
    return datetime.now(UTC)


def format_instant(instant: datetime) -> str:
    """Write an aware datetime in the one fixed-width UTC form; a naive one is refused."""
    if instant.tzinfo is not UTC:
        instant = to_utc(instant)
    # A dozen a unit: half the time of `%`, a third of that of isoformat.
    quoted = orjson.dumps(instant, option=orjson.OPT_UTC_Z).decode()
    return quoted[1:-1] if instant.microsecond else f"{quoted[1:-2]}.000000Z"


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 instant; a naive, malformed or impossible one is refused.

    Digits beyond microseconds are cut off. A leap second counts as the second before it.
    """
    if not _RFC3339.fullmatch(text):
        raise InvalidInput(
            f"not an RFC 3339 instant with a time zone: {text!r}", code="invalid_time"
        )
    if text[17:19] == "60":
        text = text[:17] + "59" + text[19:]
    try:
        return to_utc(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(f"no such instant: {text!r} ({exc})", code="invalid_time") from exc


def to_utc(instant: datetime) -> datetime:
    """Return the same instant in UTC; a naive datetime is refused, never guessed."""
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise InvalidInput(
            f"a time without a zone: {instant.isoformat()}; say which zone it is in",
            code="invalid_time",
        )
    return instant.astimezone(UTC)


def age_s(since: datetime | None, now: datetime) -> float | None:
    """Return the seconds since then; clocks may differ a little, so never below zero."""
    return None if since is None else max(0.0, round((now - since).total_seconds(), 3))

"""Times as people write them."""

import re
from datetime import datetime

from tallgrass.clock import parse_instant

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def time_or_date(text: str | None) -> datetime | None:
    """Read an instant; a date is its midnight, in UTC."""
    if text is None:
        return None
    return parse_instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)


def range_of_days(text: str) -> str:
    """Return a time, or a range with a slash, in which dates have become instants.

    A date stands for its whole day, in UTC: a range begins with the first and ends with the last.
    """
    first, slash, last = text.partition("/")
    if not slash and _DATE.fullmatch(text):
        last = text
    begin = f"{first}T00:00:00Z" if _DATE.fullmatch(first) else first
    end = f"{last}T23:59:59.999999Z" if _DATE.fullmatch(last) else last
    return f"{begin}/{end}" if slash or last else begin

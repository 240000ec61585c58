"""Times as people write them on a command line."""

import re
from datetime import datetime

from tallgrass.clock import parse_instant

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def time_or_date(text: str | None) -> datetime | None:
    """Read an instant; a date is its midnight, in UTC."""
    if text is None:
        return None
    return parse_instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)

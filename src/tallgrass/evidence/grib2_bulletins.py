"""Headings of bulletins before GRIB2 messages.

The gateway of the weather service puts ``****0000005507****`` (the length of what follows) and a
heading such as ``YHAC12 KWBN 211651`` before each message, and one pair of both before all.
"""

import re
from dataclasses import dataclass

_FLAG = re.compile(rb"\*{4}(\d{10})\*{4}\n")
_HEADING = re.compile(rb"([A-Z]{4}\d{2} [A-Z]{4} \d{6}(?: [A-Z]{3})?)\r\r\n")
#: Two of both.
HEADINGS_BYTES_MAX = 2 * (19 + 25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headings:
    """What stands before a message."""

    #: Their length.
    length: int
    #: Where the bulletin must end, counted as the length is, if it says so.
    bulletin_end: int = 0
    #: The first heading.
    text: str | None = None


_NONE = Headings(length=0)


def read_headings(data: bytes) -> Headings:
    """Return the headings that the bytes begin with, if any."""
    if data.startswith(b"GRIB"):
        return _NONE
    text, bulletin_end, at = None, 0, 0
    while True:
        flag, heading = _FLAG.match(data, at), _HEADING.match(data, at)
        if flag is not None:
            at = flag.end()
            bulletin_end = max(bulletin_end, at + int(flag[1]))
        elif heading is not None:
            at = heading.end()
            text = text or heading[1].decode()
        else:
            return Headings(length=at, bulletin_end=bulletin_end, text=text)

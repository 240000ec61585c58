"""NEXRAD Level III products (NIDS): heading, message header and product description.

Layout: ICD 2620001. A text heading (``SDUS54 KOUN 202016``, then ``N0QTLX``) is followed by a
message of as many bytes as its header says. Some relays put a control character and a number before
the heading and end the file with another.
"""

import re
from datetime import UTC, datetime, timedelta
from struct import Struct

from tallgrass.clock import format_instant
from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_LONG, TOO_SHORT, Seen, Verdict

_HEADING = re.compile(
    rb"(?P<relay>\x01\r\r\n\d{3} ?\r\r\n)?"
    rb"(?P<heading>(?:SD|NX)[A-Z]{2}\d{2} [A-Z]{4} \d{6})(?: [A-Z]{3})? ?\r\r\n"
    rb"(?P<product>[A-Z0-9]{3})(?P<site>[A-Z0-9]{3})\r\r\n"
)
_HEADING_START = re.compile(rb"\x01|[A-Z]{1,4}\d{0,2}")
_HEADING_BYTES_MAX = 64
_RELAY_END = b"\r\r\n\x03"
#: code, day, second of the day, length, source, destination, blocks
_MESSAGE = Struct(">hHIIHHH")
_DIVIDER = b"\xff\xff"
#: latitude, longitude, height in feet, code, mode, pattern, sequence, number, day and second of the
#: volume, day and second of the product, number and tenths of a degree of the tilt
_PRODUCT = Struct(">iihhhhhhHIHI4xhh")
_FOOT_M = 0.3048
_TENTH = 10
_STATUS = 2
_DAY_ZERO = datetime(1969, 12, 31, tzinfo=UTC)
_DAY_S = 86_400
_MILLI = 1000
_LATITUDE_MAX, _LONGITUDE_MAX = 90_000, 180_000


def read_header(seen: Seen) -> Verdict:
    """Return product, site, times and place, and whether the message ends where it says."""
    match = _HEADING.match(seen.head)
    if match is None:
        cut = seen.size < _HEADING_BYTES_MAX and _HEADING_START.match(seen.head)
        return {}, (TOO_SHORT if cut else NOT_THE_FORMAT,)
    start = match.end()
    if len(seen.head) < start + _MESSAGE.size + len(_DIVIDER):
        return {}, (TOO_SHORT,)
    code, day, second, length, *_ = _MESSAGE.unpack_from(seen.head, start)
    body = start + _MESSAGE.size
    if not seen.head.startswith(_DIVIDER, body) or not day or second >= _DAY_S or code <= 0:
        return {}, (NOT_THE_FORMAT,)
    header: dict[str, object] = {
        "format": "nexrad-level3",
        "heading": match["heading"].decode(),
        "product": match["product"].decode(),
        "site": match["site"].decode(),
        "message_code": code,
        "message_time": format_instant(_instant(day, second)),
    }
    issue = _judge_length(seen, start + length, relayed=match["relay"] is not None)
    if code != _STATUS and not _describe(seen.head, body + len(_DIVIDER), code, header):
        issue = issue if issue == TOO_SHORT else NOT_THE_FORMAT
    header["complete"] = issue is None
    return header, (issue,) if issue else ()


def _describe(head: bytes, position: int, code: int, header: dict[str, object]) -> bool:
    """Put what the product description says into the header; return whether it is sound."""
    if len(head) < position + _PRODUCT.size:
        return False
    latitude, longitude, feet, product, _, pattern, _, number, day, second, *rest = (
        _PRODUCT.unpack_from(head, position)
    )
    placed = abs(latitude) <= _LATITUDE_MAX and abs(longitude) <= _LONGITUDE_MAX
    if product != code or not placed or not day or second >= _DAY_S:
        return False
    header |= {
        "latitude": latitude / _MILLI,
        "longitude": longitude / _MILLI,
        "pattern": pattern,
        "volume_number": number,
        "volume_time": format_instant(_instant(day, second)),
    }
    properties = header["properties"] = {
        "nexrad:product_code": code,
        "nexrad:vcp": pattern,
        "nexrad:antenna_elevation": round(feet * _FOOT_M),
    }
    made_day, made_second, tilt, tenths = rest
    if made_day and made_second < _DAY_S:
        properties["processing:datetime"] = format_instant(_instant(made_day, made_second))
    if tilt > 0:
        properties["nexrad:elevation_angle"] = tenths / _TENTH
    return True


def _judge_length(seen: Seen, end: int, *, relayed: bool) -> str | None:
    end += len(_RELAY_END) if relayed else 0
    if seen.size != end:
        return TOO_SHORT if seen.size < end else TOO_LONG
    return NOT_THE_FORMAT if relayed and not seen.tail.endswith(_RELAY_END) else None


def _instant(day: int, second: int) -> datetime:
    return _DAY_ZERO + timedelta(days=day, seconds=second)

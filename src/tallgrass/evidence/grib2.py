"""GRIB edition 2: what the first message says, and whether the last one ends.

Layout: WMO Manual on Codes, FM 92. A file is a row of messages; each begins with `GRIB` and its
total length and ends with `7777`. Only head and tail are seen, so that messages between them are
taken on trust.
"""

from datetime import UTC, datetime, timedelta
from struct import Struct

from tallgrass.clock import format_instant
from tallgrass.evidence.header import NOT_THE_FORMAT, TOO_LONG, TOO_SHORT, Verdict, wrong_start

MAGIC = b"GRIB"
END = b"7777"

#: reserved, discipline, edition, total length
_SECTION_0 = Struct(">4s2xBBQ")
_SECTION_START = Struct(">IB")
#: centre, subcentre, table versions, significance, time, production status, type of data
_SECTION_1 = Struct(">5xHH2xBHBBBBBBB")
#: points, template
_SECTION_3 = Struct(">6xI2xH")
_NX_NY = Struct(">II")
_NX_NY_AT = 30
#: template, category, number
_SECTION_4 = Struct(">7xHBB")
#: unit, forecast time as sign and magnitude
_FORECAST = Struct(">BI")
_FORECAST_AT = 17
_SIGN = 1 << 31
_END_TIME = Struct(">HBBBBB")

_EDITION = 2
#: Section 0, the shortest section 1, and the end.
_MESSAGE_BYTES_MIN = 16 + 21 + 4
#: Grids whose octets 31-38 are the numbers of points along x and y.
_REGULAR_GRIDS = frozenset({0, 1, 10, 20, 30})
#: Products at a horizontal level, whose octets 18-22 are the forecast time.
_TIMED_PRODUCTS = frozenset({0, 1, 2, 5, 6, 8, 9, 10, 11, 12})
#: Products over an interval: where its end stands in section 4.
_INTERVAL_END_AT = {8: 34, 9: 47, 10: 35, 11: 37, 12: 36}
_UNIT_SECONDS = {
    0: 60,
    1: 3_600,
    2: 86_400,
    10: 3 * 3_600,
    11: 6 * 3_600,
    12: 12 * 3_600,
    13: 1,
}


def read_header(head: bytes, tail: bytes, size: int) -> Verdict:
    """Return centre, times, grid and product of the first message, and whether the file ends."""
    if not head.startswith(MAGIC):
        return {}, (wrong_start(head, MAGIC),)
    if len(head) < _SECTION_0.size:
        return {}, (TOO_SHORT,)
    _, discipline, edition, total = _SECTION_0.unpack_from(head)
    if edition != _EDITION or total < _MESSAGE_BYTES_MIN:
        return {}, (NOT_THE_FORMAT,)
    header: dict[str, object] = {"format": "grib2", "edition": edition, "discipline": discipline}
    sound = _read_sections(head, min(total, size), header)
    messages, issue = _judge_length(head, tail, size)
    if not sound and issue != TOO_SHORT:
        issue = NOT_THE_FORMAT
    header |= {"messages": messages, "complete": issue is None}
    return header, (issue,) if issue else ()


def _read_sections(head: bytes, end: int, header: dict[str, object]) -> bool:
    """Put what sections 1, 3 and 4 say into the header; return whether they are sound."""
    position, before = _SECTION_0.size, 0
    reference: datetime | None = None
    while position + _SECTION_START.size <= min(len(head), end):
        length, number = _SECTION_START.unpack_from(head, position)
        if not before < number <= before + 2 or length < _SECTION_START.size:
            return False
        if position + length > min(len(head), end):
            # Cut off, which the file's length tells, or just beyond the head.
            return True
        section = head[position : position + length]
        if number == 1:
            reference = _identification(section, header)
            if reference is None:
                return False
        elif number == 3:  # noqa: PLR2004 - the standard's own numbers
            if not _grid(section, header):
                return False
        elif number == 4:  # noqa: PLR2004
            return reference is not None and _product(section, reference, header)
        position, before = position + length, number
    return True


def _identification(section: bytes, header: dict[str, object]) -> datetime | None:
    if len(section) < _SECTION_1.size:
        return None
    centre, subcentre, significance, *time, status, kind = _SECTION_1.unpack_from(section)
    reference = _instant(time)
    if reference is not None:
        header |= {
            "centre": centre,
            "subcentre": subcentre,
            "reference_time": format_instant(reference),
            "reference_time_significance": significance,
            "production_status": status,
            "data_type": kind,
        }
    return reference


def _grid(section: bytes, header: dict[str, object]) -> bool:
    if len(section) < _SECTION_3.size:
        return False
    points, template = _SECTION_3.unpack_from(section)
    grid: dict[str, object] = {"template": template, "points": points}
    if template in _REGULAR_GRIDS and len(section) >= _NX_NY_AT + _NX_NY.size:
        grid["nx"], grid["ny"] = _NX_NY.unpack_from(section, _NX_NY_AT)
    header["grid"] = grid
    return True


def _product(section: bytes, reference: datetime, header: dict[str, object]) -> bool:
    if len(section) < _SECTION_4.size:
        return False
    template, category, number = _SECTION_4.unpack_from(section)
    header["product"] = {"template": template, "category": category, "number": number}
    if template not in _TIMED_PRODUCTS or len(section) < _FORECAST_AT + _FORECAST.size:
        return True
    unit, raw = _FORECAST.unpack_from(section, _FORECAST_AT)
    if unit not in _UNIT_SECONDS:
        return True
    forecast_s = (raw & _SIGN - 1) * _UNIT_SECONDS[unit] * (-1 if raw & _SIGN else 1)
    try:
        start = reference + timedelta(seconds=forecast_s)
    except OverflowError:
        return False
    header |= {"forecast_time_s": forecast_s, "valid_start": format_instant(start)}
    end_at = _INTERVAL_END_AT.get(template)
    if end_at is None:
        header["valid_end"] = header["valid_start"]
    elif len(section) >= end_at + _END_TIME.size:
        end = _instant(_END_TIME.unpack_from(section, end_at))
        if end is None or end < start:
            return False
        header["valid_end"] = format_instant(end)
    return True


def _instant(parts: list[int] | tuple[int, ...]) -> datetime | None:
    year, month, day, hour, minute, second = parts
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _judge_length(head: bytes, tail: bytes, size: int) -> tuple[int | None, str | None]:
    """Follow the messages whose start can be seen; return their number if known, and the issue."""
    position, messages = 0, 0
    while position < size:
        start = _seen(head, tail, size, position)
        if start is None:
            # The next message begins between head and tail.
            return None, None if tail.endswith(END) else TOO_SHORT
        if not start.startswith(MAGIC):
            return messages, TOO_SHORT if MAGIC.startswith(start) else TOO_LONG
        if len(start) < _SECTION_0.size:
            return messages, TOO_SHORT
        _, _, edition, total = _SECTION_0.unpack(start)
        if edition != _EDITION or total < _MESSAGE_BYTES_MIN:
            return messages, NOT_THE_FORMAT
        position += total
        if position > size:
            return messages, TOO_SHORT
        end = _seen(head, tail, size, position - len(END), len(END))
        if end is not None and end != END:
            return messages, NOT_THE_FORMAT
        messages += 1
    return messages, None


def _seen(
    head: bytes, tail: bytes, size: int, position: int, length: int = _SECTION_0.size
) -> bytes | None:
    """Return the object's bytes from a position, fewer at its end; None if they were not read."""
    stop = min(position + length, size)
    if stop <= len(head):
        return head[position:stop]
    tail_start = size - len(tail)
    if position >= tail_start:
        return tail[position - tail_start : stop - tail_start]
    return None

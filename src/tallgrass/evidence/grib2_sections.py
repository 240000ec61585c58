"""The sections of a GRIB2 message: whose it is, on which grid, of what, and for when.

Layout: WMO Manual on Codes, FM 92, sections 1, 3 and 4. Of the others only number and length are
looked at: one behind the other they reach the end mark.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct

from tallgrass.clock import format_instant

SECTION_0_BYTES = 16

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

#: What a reference time can be: the start of a forecast, among others.
START_OF_FORECAST = 1

_IDENTIFICATION, _GRID, _PRODUCT, _DATA = 1, 3, 4, 7
#: Section → those that may follow it; behind the data the next field of the message begins.
_FOLLOWING = {0: (1,), 1: (2, 3), 2: (3,), 3: (4,), 4: (5,), 5: (6,), 6: (7,), 7: (2, 3, 4)}
_END_MARK_BYTES = 4
#: No message has so many fields.
_SECTIONS_MAX = 60_000
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What the first sections of a message say, as far as they were seen."""

    #: Keys of the evidence.
    header: dict[str, object]
    #: Whether nothing in it contradicts the standard.
    sound: bool
    #: For when it is, if it says so: the same twice for an instant.
    valid: tuple[datetime, datetime] | None = None
    #: Section 3, whole.
    grid: bytes = b""


#: Shows so many bytes from a position of a message; None where they cannot be seen.
Look = Callable[[int, int], bytes | None]


class _Unsound(Exception):
    """A section is not as the standard has it."""


def read_sections(start: bytes, length: int) -> Message:
    """Read sections 1, 3 and 4 of a message of `length` bytes, of which the first are given."""
    header: dict[str, object] = {}
    reference: datetime | None = None
    grid, valid = b"", None
    try:
        for number, section in _sections(start, length):
            if number == _IDENTIFICATION:
                reference = _identification(section, header)
            elif number == _GRID:
                grid = _grid(section, header)
            elif number == _PRODUCT:
                valid = _product(section, reference, header)
                break
    except _Unsound:
        return Message(header=header, sound=False)
    return Message(header=header, sound=True, valid=valid, grid=grid)


def reach_the_end(start: bytes, length: int, look: Look) -> bool:
    """Tell whether the sections of a message lead to its end mark, as far as they can be seen.

    `start` are its first bytes, and `look` shows others, if they can be seen.
    """
    position, before, end = SECTION_0_BYTES, 0, length - _END_MARK_BYTES
    for _ in range(_SECTIONS_MAX):
        if position == end:
            return before == _DATA
        first: bytes | None = start[position : position + _SECTION_START.size]
        if not first or len(first) < _SECTION_START.size:
            first = look(position, _SECTION_START.size)
        if first is None:
            return True
        try:
            section_length, before = _section_at(first, 0, before, end - position)
        except _Unsound:
            return False
        position += section_length
    return False


def _sections(start: bytes, length: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each section that is seen whole, from the first on."""
    position, before, end = SECTION_0_BYTES, 0, length - _END_MARK_BYTES
    while position < end and position + _SECTION_START.size <= len(start):
        section_length, before = _section_at(start, position, before, end - position)
        if position + section_length > len(start):
            # Cut off, which the file's length tells, or just beyond what is seen.
            return
        yield before, start[position : position + section_length]
        position += section_length


def _section_at(data: bytes, position: int, before: int, length_max: int) -> tuple[int, int]:
    """Return length and number of a section; it follows its forerunner inside the message."""
    if position + _SECTION_START.size > len(data):
        raise _Unsound
    length, number = _SECTION_START.unpack_from(data, position)
    if number not in _FOLLOWING[before] or not _SECTION_START.size <= length <= length_max:
        raise _Unsound
    return length, number


def _identification(section: bytes, header: dict[str, object]) -> datetime:
    if len(section) < _SECTION_1.size:
        raise _Unsound
    centre, subcentre, significance, *time, status, kind = _SECTION_1.unpack_from(section)
    reference = _instant(time)
    header |= {
        "centre": centre,
        "subcentre": subcentre,
        "reference_time": format_instant(reference),
        "reference_time_significance": significance,
        "production_status": status,
        "data_type": kind,
    }
    return reference


def _grid(section: bytes, header: dict[str, object]) -> bytes:
    if len(section) < _SECTION_3.size:
        raise _Unsound
    points, template = _SECTION_3.unpack_from(section)
    grid: dict[str, object] = {"template": template, "points": points}
    if template in _REGULAR_GRIDS and len(section) >= _NX_NY_AT + _NX_NY.size:
        grid["nx"], grid["ny"] = _NX_NY.unpack_from(section, _NX_NY_AT)
    header["grid"] = grid
    return section


def _product(
    section: bytes, reference: datetime | None, header: dict[str, object]
) -> tuple[datetime, datetime] | None:
    if reference is None or len(section) < _SECTION_4.size:
        raise _Unsound
    template, category, number = _SECTION_4.unpack_from(section)
    header["product"] = {"template": template, "category": category, "number": number}
    if template not in _TIMED_PRODUCTS or len(section) < _FORECAST_AT + _FORECAST.size:
        return None
    unit, raw = _FORECAST.unpack_from(section, _FORECAST_AT)
    if unit not in _UNIT_SECONDS:
        return None
    forecast_s = (raw & _SIGN - 1) * _UNIT_SECONDS[unit] * (-1 if raw & _SIGN else 1)
    try:
        start = reference + timedelta(seconds=forecast_s)
    except OverflowError:
        raise _Unsound from None
    header |= {"forecast_time_s": forecast_s, "valid_start": format_instant(start)}
    end_at = _INTERVAL_END_AT.get(template)
    if end_at is None:
        header["valid_end"] = header["valid_start"]
        return start, start
    if len(section) < end_at + _END_TIME.size:
        return None
    end = _instant(_END_TIME.unpack_from(section, end_at))
    if end < start:
        raise _Unsound
    header["valid_end"] = format_instant(end)
    return start, end


def _instant(parts: Sequence[int]) -> datetime:
    year, month, day, hour, minute, second = parts
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _Unsound from None

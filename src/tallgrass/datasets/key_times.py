"""The forms in which keys write times, read exactly: no guess, no time zone but UTC.

A form reads digits alone. A time that its key writes with separators is captured in several groups
of the grammar, which are joined before they are read.
"""

import re
from calendar import isleap, monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from tallgrass.datasets.definition import TimeRule
from tallgrass.errors import InvalidInput

#: Where a unit starts whose key holds no time; its metadata are suspect.
UNKNOWN_START = datetime(1970, 1, 1, tzinfo=UTC)

#: What a time can be extended to the end of.
SPANS = ("day", "month", "year")

_TENTH_US = 100_000
#: A feed has few days at a time: 1.4 µs instead of 3.3 for each time of a key.
_DAYS_KEPT = 1024
_HOUR_MINUTES = 60
_SPAN = re.compile(r"([0-9]{1,4})([HM]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForm:
    """One way to write a time: what its digits mean, and how they are read."""

    #: One character a digit: ``YYYYDDDHHMMSSt`` (DDD: day of the year, t: tenths of a second).
    layout: str
    read: Callable[[str], datetime]


def _calendar(text: str) -> datetime:
    """Read year, month, day, hour, minute, second, tenth; what is left out has its first value."""
    return datetime(
        int(text[:4]),
        int(text[4:6] or 1),
        int(text[6:8] or 1),
        int(text[8:10] or 0),
        int(text[10:12] or 0),
        int(text[12:14] or 0),
        int(text[14:15] or 0) * _TENTH_US,
        UTC,
    )


def _day_of_year(text: str) -> datetime:
    """Read a time whose day is counted from the first of January, which is day 1."""
    year, month, day = _date(text[:7])
    tenth = int(text[13]) * _TENTH_US
    return datetime(year, month, day, int(text[7:9]), int(text[9:11]), int(text[11:13]), tenth, UTC)


@lru_cache(maxsize=_DAYS_KEPT)
def _date(text: str) -> tuple[int, int, int]:
    """Return year, month and day of a year with the number of a day in it."""
    year, number = int(text[:4]), int(text[4:])
    if not 1 <= number <= (366 if isleap(year) else 365):
        raise ValueError(f"the year {year} has no day {number}")
    found = date(year, 1, 1) + timedelta(days=number - 1)
    return found.year, found.month, found.day


#: Name → form. A dataset file names one of these.
FORMS: Mapping[str, TimeForm] = {
    "goes": TimeForm(layout="YYYYDDDHHMMSSt", read=_day_of_year),
    "date-time-tenths": TimeForm(layout="YYYYMMDDHHMMSSt", read=_calendar),
    "date-time": TimeForm(layout="YYYYMMDDHHMMSS", read=_calendar),
    "date-minute": TimeForm(layout="YYYYMMDDHHMM", read=_calendar),
    "date-hour": TimeForm(layout="YYYYMMDDHH", read=_calendar),
    "date": TimeForm(layout="YYYYMMDD", read=_calendar),
    "month": TimeForm(layout="YYYYMM", read=_calendar),
    "year": TimeForm(layout="YYYY", read=_calendar),
    # For keys without a time. Takes no group.
    "unknown": TimeForm(layout="", read=lambda _: UNKNOWN_START),
}


def read_time(form: str, text: str) -> datetime:
    """Return the instant that the digits stand for; what is no time at all is refused."""
    known = FORMS[form]
    if len(text) != len(known.layout) or (text and not (text.isdigit() and text.isascii())):
        raise InvalidInput(
            f"{text!r} is not a time of the form {known.layout}", code="invalid_time_range"
        )
    try:
        return known.read(text)
    except ValueError as exc:
        raise InvalidInput(
            f"there is no time {text!r} ({known.layout}): {exc}", code="invalid_time_range"
        ) from exc


def time_of(rule: TimeRule, groups: Mapping[str, str | None]) -> datetime:
    """Apply a rule to the groups of a key; a group that took no part in the match is empty."""
    if len(rule.groups) == 1:
        text = groups[rule.groups[0]] or ""
    else:
        text = "".join([groups[name] or "" for name in rule.groups])
    instant = read_time(rule.form, text)
    if rule.plain:
        return instant
    minutes = _shift_minutes(rule, groups)
    try:
        if minutes:
            instant += timedelta(minutes=minutes)
        return instant if rule.until is None else _last_second(rule.until, instant)
    except OverflowError as exc:
        raise InvalidInput(
            f"{minutes} minutes after {instant.isoformat()} is no time", code="invalid_time_range"
        ) from exc


def span_of(text: str) -> timedelta:
    """Return the length of ``01H``, ``15M`` or, in hours, ``24``."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a span such as 01H", code="invalid_time_range")
    return timedelta(minutes=int(match[1]) * (1 if match[2] == "M" else _HOUR_MINUTES))


def _shift_minutes(rule: TimeRule, groups: Mapping[str, str | None]) -> int:
    minutes = rule.offset_minutes
    for name, factor in (
        (rule.plus_hours, _HOUR_MINUTES),
        (rule.plus_minutes, 1),
        (rule.minus_hours, -_HOUR_MINUTES),
        (rule.minus_minutes, -1),
    ):
        if name is not None:
            text = groups[name] or "0"
            if not (text.isdigit() and text.isascii()):
                raise InvalidInput(
                    f"{text!r} is no number of hours or minutes", code="invalid_time_range"
                )
            minutes += int(text) * factor
    return minutes


def _last_second(span: str, instant: datetime) -> datetime:
    """Return the last second of the day, month or year that the instant lies in."""
    day = instant.replace(hour=23, minute=59, second=59, microsecond=0)
    if span == "day":
        return day
    month = 12 if span == "year" else day.month
    return day.replace(month=month, day=monthrange(day.year, month)[1])

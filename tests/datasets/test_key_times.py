from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.definition import TimeRule
from tallgrass.datasets.key_times import FORMS, UNKNOWN_START, read_time, span_of, time_of
from tallgrass.errors import InvalidInput


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("goes", "20250971300200", datetime(2025, 4, 7, 13, 0, 20, tzinfo=UTC)),
        ("goes", "20203662359599", datetime(2020, 12, 31, 23, 59, 59, 900_000, tzinfo=UTC)),
        ("goes", "20210010000004", datetime(2021, 1, 1, 0, 0, 0, 400_000, tzinfo=UTC)),
        ("goes", "20213652359590", datetime(2021, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("goes", "20240600000000", datetime(2024, 2, 29, tzinfo=UTC)),
        ("goes", "20250600000000", datetime(2025, 3, 1, tzinfo=UTC)),
        ("goes", "20003660000000", datetime(2000, 12, 31, tzinfo=UTC)),
        ("date-time-tenths", "202604162301309", datetime(2026, 4, 16, 23, 1, 30, 900_000, UTC)),
        ("date-time", "20200310021645", datetime(2020, 3, 10, 2, 16, 45, tzinfo=UTC)),
        ("date-time", "20240229235959", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("date-minute", "202012291149", datetime(2020, 12, 29, 11, 49, tzinfo=UTC)),
        ("date-hour", "2024051012", datetime(2024, 5, 10, 12, tzinfo=UTC)),
        ("date", "17630101", datetime(1763, 1, 1, tzinfo=UTC)),
        ("month", "202201", datetime(2022, 1, 1, tzinfo=UTC)),
        ("year", "1763", datetime(1763, 1, 1, tzinfo=UTC)),
        ("unknown", "", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_form_reads_its_digits(form: str, text: str, expected: datetime) -> None:
    """Each form gives the instant that its digits mean, to the tenth of a second, in UTC."""
    assert read_time(form, text) == expected
    assert read_time(form, text).tzinfo is UTC


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("goes", "20213660000000"),  # 2021 has 365 days
        ("goes", "19003660000000"),  # a century that is no leap year
        ("goes", "20250000000000"),  # days count from 1
        ("goes", "20253670000000"),
        ("goes", "20249990000000"),
        ("goes", "20250972400000"),
        ("goes", "20250971360000"),
        ("goes", "20250971300600"),  # no leap second is ever guessed
        ("goes", "00000010000000"),
        ("goes", "2025097130020"),  # one digit short
        ("goes", "202509713002000"),  # one too many
        ("goes", "2025097130020x"),
        ("goes", "2025097130020²"),
        ("goes", "2025097130020٣"),
        ("goes", " 025097130020 "),
        ("goes", "+0250971300200"[:14]),
        ("goes", ""),
        ("date-time", "20230229000000"),
        ("date-time", "20231301000000"),
        ("date-time", "20230431000000"),
        ("date-time", "20230400000000"),
        ("date-time", "20230430246000"),
        ("date-time", "20200310_02164"),
        ("date-hour", "2024051024"),
        ("date", "20230229"),
        ("month", "202213"),
        ("year", "0000"),
        ("unknown", "2024"),
    ],
)
def test_what_is_no_time_is_refused(form: str, text: str) -> None:
    """Impossible days, hours and digits are refused as an invalid time range, never mended."""
    with pytest.raises(InvalidInput) as refused:
        read_time(form, text)
    assert refused.value.code == "invalid_time_range"


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001
def test_what_strftime_writes_is_read_back(naive: datetime) -> None:
    """Digits written by the C library's own calendar give back the instant, in every form."""
    instant = naive.replace(tzinfo=UTC, microsecond=naive.microsecond // 100_000 * 100_000)
    tenth = str(instant.microsecond // 100_000)
    second = instant.replace(microsecond=0)
    assert read_time("goes", instant.strftime("%Y%j%H%M%S") + tenth) == instant
    assert read_time("date-time-tenths", instant.strftime("%Y%m%d%H%M%S") + tenth) == instant
    assert read_time("date-time", instant.strftime("%Y%m%d%H%M%S")) == second
    assert read_time("date-minute", instant.strftime("%Y%m%d%H%M")) == second.replace(second=0)
    assert read_time("date", instant.strftime("%Y%m%d")).date() == instant.date()


@given(st.sampled_from(sorted(FORMS)), st.text("0123456789", max_size=16))
def test_digits_give_a_time_or_a_refusal(form: str, text: str) -> None:
    """Whatever the digits, a form returns an instant in UTC or refuses; nothing else escapes."""
    with contextlib.suppress(InvalidInput):
        assert read_time(form, text).tzinfo is UTC


def test_groups_are_joined_in_the_order_of_the_rule() -> None:
    """Several groups make one time, in the order that the rule names; an absent one is empty."""
    rule = TimeRule(groups=("date", "other", "cycle"), form="date-hour")
    groups = {"cycle": "12", "date": "20240510", "other": None}
    assert time_of(rule, groups) == datetime(2024, 5, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ("00", datetime(2024, 2, 28, 18, tzinfo=UTC)),
        ("48", datetime(2024, 3, 1, 18, tzinfo=UTC)),
        ("384", datetime(2024, 3, 15, 18, tzinfo=UTC)),
        (None, datetime(2024, 2, 28, 18, tzinfo=UTC)),
    ],
)
def test_forecast_hours_are_added(hours: str | None, expected: datetime) -> None:
    """The forecast hour is added exactly, over leap days too; without one nothing is added."""
    rule = TimeRule(groups=("date", "cycle"), form="date-hour", plus_hours="hour")
    assert time_of(rule, {"date": "20240228", "cycle": "18", "hour": hours}) == expected


@pytest.mark.parametrize("hours", ["99999999999999999999", "x", "-"])
def test_hours_beyond_the_calendar_are_refused(hours: str) -> None:
    """Hours that lead past the last year, or are no number, are an invalid time range."""
    rule = TimeRule(groups=("date",), form="date", plus_hours="hour")
    with pytest.raises(InvalidInput) as refused:
        time_of(rule, {"date": "99991231", "hour": hours})
    assert refused.value.code == "invalid_time_range"


def test_a_key_without_time_starts_at_the_fixed_instant() -> None:
    """Where a key holds no time, the unit starts at the first second of 1970."""
    rule = TimeRule(groups=(), form="unknown")
    assert time_of(rule, {}) == UNKNOWN_START
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0) == UNKNOWN_START


@pytest.mark.parametrize(
    ("rule", "groups", "expected"),
    [
        # An analysis two hours before a run at midnight of New Year.
        ({"minus_hours": "back"}, {"back": "02"}, datetime(2023, 12, 31, 22, tzinfo=UTC)),
        ({"minus_hours": "back"}, {"back": None}, datetime(2024, 1, 1, tzinfo=UTC)),
        (
            {"plus_hours": "hour", "plus_minutes": "minute"},
            {"hour": "001", "minute": "15"},
            datetime(2024, 1, 1, 1, 15, tzinfo=UTC),
        ),
        (
            {"minus_hours": "back", "minus_minutes": "minute"},
            {"back": "01", "minute": "45"},
            datetime(2023, 12, 31, 22, 15, tzinfo=UTC),
        ),
        (
            {"plus_hours": "hour", "offset_minutes": -360},
            {"hour": "002"},
            datetime(2023, 12, 31, 20, tzinfo=UTC),
        ),
        ({"offset_minutes": 10}, {}, datetime(2024, 1, 1, 0, 10, tzinfo=UTC)),
        ({"until": "day"}, {}, datetime(2024, 1, 1, 23, 59, 59, tzinfo=UTC)),
        ({"until": "month"}, {}, datetime(2024, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ({"until": "year"}, {}, datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (
            {"until": "month", "plus_hours": "hour"},
            {"hour": "744"},
            datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
        ),
    ],
)
def test_a_rule_moves_the_time(
    rule: dict[str, Any], groups: dict[str, str | None], expected: datetime
) -> None:
    """Hours and minutes of the key, a fixed offset and the end of a span are added exactly."""
    moved = TimeRule(groups=("date",), form="date", **rule)
    assert time_of(moved, {"date": "20240101", **groups}) == expected


@pytest.mark.parametrize(("back", "offset"), [("9999999", 0), ("0", -2_000_000_000)])
def test_a_time_before_the_calendar_is_refused(back: str, offset: int) -> None:
    """What lies before the first year is an invalid time range, as what lies after the last."""
    rule = TimeRule(groups=("date",), form="date", minus_hours="back", offset_minutes=offset)
    with pytest.raises(InvalidInput) as refused:
        time_of(rule, {"date": "00020101", "back": back})
    assert refused.value.code == "invalid_time_range"


@pytest.mark.parametrize(
    ("text", "minutes"), [("01H", 60), ("15M", 15), ("72H", 72 * 60), ("24", 24 * 60)]
)
def test_a_span_is_read(text: str, minutes: int) -> None:
    """Hours and minutes; a bare number is in hours."""
    assert span_of(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "H", "1D", "-1H", "99999H", "\u0661H"])
def test_what_is_no_span_is_refused(text: str) -> None:
    """Anything else is an invalid time range."""
    with pytest.raises(InvalidInput) as refused:
        span_of(text)
    assert refused.value.code == "invalid_time_range"

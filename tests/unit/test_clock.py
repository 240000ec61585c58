from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.clock import format_instant, parse_instant, to_utc
from tallgrass.errors import InvalidInput

FORM = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z")
UTC_INSTANTS = st.datetimes(timezones=st.just(UTC))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
#: Away from the first and last day, so that every zone has the instant.
ZONED = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - as above
    timezones=OFFSETS,
)

#: Formats the instants given as seconds since 1970, and now, which must be near the machine's.
PRINT_INSTANTS = """
import sys, time
from datetime import datetime, timezone
from tallgrass.clock import format_instant, system_clock, to_utc
for seconds in sys.argv[1:]:
    print(format_instant(to_utc(datetime.fromtimestamp(int(seconds)).astimezone())))
now = system_clock()
assert now.utcoffset().total_seconds() == 0
assert abs(now.timestamp() - time.time()) < 60
"""


@pytest.mark.conformance("WAL-3.4")
@given(UTC_INSTANTS)
def test_an_instant_survives_being_written_and_read(instant: datetime) -> None:
    """What is written in RFC 3339 reads back as the same instant, to the microsecond."""
    text = format_instant(instant)
    assert FORM.fullmatch(text)
    assert len(text) == 27
    assert parse_instant(text) == instant


@pytest.mark.conformance("WAL-3.4")
@given(ZONED)
def test_any_zone_is_written_as_utc(instant: datetime) -> None:
    """An instant is written as the UTC instant that it is, whatever zone it came in."""
    expected = datetime(1970, 1, 1, tzinfo=UTC) + (instant - datetime(1970, 1, 1, tzinfo=UTC))
    assert parse_instant(format_instant(instant)) == expected
    assert parse_instant(instant.isoformat()) == expected
    assert parse_instant(instant.isoformat()).tzinfo is UTC


@pytest.mark.conformance("WAL-3.4")
@given(UTC_INSTANTS, UTC_INSTANTS)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    """Written instants compare as the instants do, so that a text column sorts by time."""
    assert (format_instant(one) < format_instant(other)) == (one < other)


@pytest.mark.conformance("WAL-3.4")
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-11-15T21:05:00Z", "2026-11-15T21:05:00.000000Z"),
        ("2026-11-15t21:05:00z", "2026-11-15T21:05:00.000000Z"),
        ("2026-11-15 21:05:00Z", "2026-11-15T21:05:00.000000Z"),
        ("2026-11-15T21:05:00.5Z", "2026-11-15T21:05:00.500000Z"),
        ("2026-11-15T21:05:00.123456789Z", "2026-11-15T21:05:00.123456Z"),
        ("2026-11-15T21:05:00+05:45", "2026-11-15T15:20:00.000000Z"),
        ("2026-11-15T21:05:00-06:00", "2026-11-16T03:05:00.000000Z"),
        ("2026-11-15T21:05:00-00:00", "2026-11-15T21:05:00.000000Z"),
        ("1763-01-01T00:00:00Z", "1763-01-01T00:00:00.000000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000000Z"),
        ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.500000Z"),
    ],
)
def test_the_forms_of_rfc_3339_are_read(text: str, written: str) -> None:
    """Case, fraction, offset and leap second are read as the standard says."""
    assert format_instant(parse_instant(text)) == written


@pytest.mark.conformance("WAL-3.4")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-15",
        "2026-11-15T21:05:00",
        "2026-11-15T21:05Z",
        "2026-11-15T21:05:00 Z",
        "2026-11-15T21:05:00+0545",
        "2026-11-15T21:05:00+05",
        "2026-11-15T21:05:00.Z",
        "2026-11-15T21:05:00,5Z",
        "20261115T210500Z",
        "2026-W46-7T21:05:00Z",
        "2026-319T21:05:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-15T24:00:01Z",
        "2026-11-15T21:60:00Z",
        "2026-11-15T21:05:61Z",
        "2026-11-15T21:05:00+24:00",
        "2026-11-15T21:05:00Z\n",
        " 2026-11-15T21:05:00Z",
        "2026-11-15T21:05:00ZZ",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "+2026-11-15T21:05:00Z",
        "-026-11-15T21:05:00Z",
        "٢٠٢٦-11-15T21:05:00Z",
        "1763",
        "1700000000",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    """A naive, malformed or impossible time is refused, never guessed."""
    with pytest.raises(InvalidInput) as refusal:
        parse_instant(text)
    assert refusal.value.code == "invalid_time"


@pytest.mark.conformance("WAL-3.4")
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the reader fail in another way than by refusing it."""
    try:
        assert parse_instant(text).tzinfo is UTC
    except InvalidInput as refusal:
        assert refusal.code == "invalid_time"  # noqa: PT017 - either end is right


@pytest.mark.conformance("WAL-3.4")
def test_a_naive_time_is_neither_written_nor_converted() -> None:
    """A time without a zone is refused by both functions."""
    naive = datetime(2026, 11, 15, 21, 5)  # noqa: DTZ001 - naive on purpose
    for function in (format_instant, to_utc):
        with pytest.raises(InvalidInput) as refusal:
            function(naive)
        assert refusal.value.code == "invalid_time"


@pytest.mark.conformance("RP-3.7")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/Chicago", "Europe/Berlin"])
def test_the_machines_zone_does_not_reach_what_is_written(zone: str) -> None:
    """Local zones, also in the hours that daylight saving skips or repeats, give the same UTC."""
    # 2026-03-08 07:59:59Z and 08:00Z around Chicago's skipped hour; 2026-11-01 06:30Z and 07:30Z,
    # which are both 01:30 there; 2026-10-25 00:30Z and 01:30Z, both 02:30 in Berlin.
    known = {
        "1772956799": "2026-03-08T07:59:59.000000Z",
        "1772956800": "2026-03-08T08:00:00.000000Z",
        "1793514600": "2026-11-01T06:30:00.000000Z",
        "1793518200": "2026-11-01T07:30:00.000000Z",
        "1792888200": "2026-10-25T00:30:00.000000Z",
        "1792891800": "2026-10-25T01:30:00.000000Z",
    }
    done = subprocess.run(
        [sys.executable, "-c", PRINT_INSTANTS, *known],
        env={**os.environ, "TZ": zone},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == list(known.values())

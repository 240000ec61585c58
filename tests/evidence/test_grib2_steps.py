"""Files of several messages: steps, spans, bulletins, and what is seen of them from afar."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import eccodes
import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.errors import InvalidInput
from tallgrass.evidence.grib2_index import IndexLine, offsets_of, read_index
from tests.evidence.real_files import FILES, content
from tests.evidence.samples import bulletins, grib2, read, read_near
from tests.evidence.test_grib2 import large

if TYPE_CHECKING:
    from collections.abc import Sequence

GRIB2, GRID = FileFormat.GRIB2, FileFormat.GRIB2_GRID


def minutes(count: int) -> bytes:
    """Return a message so many minutes after its run."""
    return grib2(dataDate=20260601, indicatorOfUnitForForecastTime=0, forecastTime=count)


def test_quarters_of_an_hour_are_told() -> None:
    """A file of four steps tells each, and the first and last time that it is for."""
    header, issues = read(GRIB2, b"".join(map(minutes, (15, 30, 45, 60))))
    assert header["steps_s"] == [[900, 900], [1800, 1800], [2700, 2700], [3600, 3600]]
    assert (header["start"], header["end"]) == (
        "2026-06-01T12:15:00.000000Z",
        "2026-06-01T13:00:00.000000Z",
    )
    assert issues == ()


def interval(hours: int) -> bytes:
    """Return a sum over the first hours of a run."""
    end = {"year": 2026, "month": 6, "day": 1, "hour": 12 + hours, "minute": 0, "second": 0}
    keys = {f"{name}OfEndOfOverallTimeInterval": value for name, value in end.items()}
    return grib2(dataDate=20260601, productDefinitionTemplateNumber=8, forecastTime=0, **keys)


def test_a_sum_beside_an_instant_is_for_its_end() -> None:
    """Sums since the start of a run do not move the time of a file to that start."""
    header, _ = read(GRIB2, interval(6) + grib2(dataDate=20260601, forecastTime=6))
    assert header["steps_s"] == [[0, 21600], [21600, 21600]]
    assert "start" not in header
    header, _ = read(GRID, interval(6) + grib2(dataDate=20260601, forecastTime=6))
    assert header["start"] == header["end"] == "2026-06-01T18:00:00.000000Z"


def test_a_file_of_sums_alone_begins_where_they_do() -> None:
    """Where all messages are sums, the span is that of the sums."""
    header, _ = read(GRID, interval(6))
    assert (header["start"], header["end"]) == (
        "2026-06-01T12:00:00.000000Z",
        "2026-06-01T18:00:00.000000Z",
    )


def test_many_steps_are_cut_short() -> None:
    """No more than 128 steps are kept, with their number; the span is that of all."""
    header, _ = read_near(GRID, b"".join(map(minutes, range(200))))
    steps = header["steps_s"]
    assert isinstance(steps, list)
    assert (len(steps), header["steps"]) == (128, 200)
    assert header["end"] == "2026-06-01T15:19:00.000000Z"


def test_the_last_message_is_seen_from_afar_if_it_is_short() -> None:
    """A last message that the tail shows adds its time."""
    header, _ = read(GRID, large(1) + large(2) + grib2(forecastTime=9))
    assert (header["messages"], header["steps_s"]) == (None, [[3600, 3600], [32400, 32400]])


def test_bulletins_are_followed() -> None:
    """Messages behind headings of bulletins are counted; the first heading is told."""
    header, issues = read(GRID, bulletins(grib2(forecastTime=1), grib2(forecastTime=3)))
    assert (header["messages"], header["bulletin"]) == (2, "YHAZ98 KWBN 211651")
    assert (header["steps_s"], issues) == ([[3600, 3600], [10800, 10800]], ())


def test_a_message_that_a_bulletin_announced_is_missed() -> None:
    """Where the last of several messages is missing, the length before all of them tells it."""
    both, one = bulletins(grib2(), grib2()), bulletins(grib2())
    cut = both[: 40 + len(one) - 40]
    assert read(GRID, cut)[1] == ("size_too_small",)


BEGIN = ("year", "month", "day", "hour", "minute")
END = [f"{part}OfEndOfOverallTimeInterval" for part in BEGIN]


def told_of(message: int, keys: Sequence[str]) -> list[int]:
    """Return numbers that ecCodes reads."""
    return [eccodes.codes_get(message, key, ktype=int) for key in keys]


def told(name: str) -> list[list[int]]:
    """Return what ecCodes says of each message: step in seconds, from and to."""
    found = []
    data = content(name)
    at = data.find(b"GRIB")
    while at >= 0:
        length = int.from_bytes(data[at + 8 : at + 16], "big")
        message = eccodes.codes_new_from_message(data[at : at + length])
        until = None
        if eccodes.codes_is_defined(message, END[0]):
            end, begin = (
                datetime.fromisoformat("{:04}-{:02}-{:02}T{:02}:{:02}Z".format(*numbers))
                for numbers in (told_of(message, END), told_of(message, BEGIN))
            )
            until = int((end - begin).total_seconds())
        # Writes the end anew, so that it comes last.
        eccodes.codes_set(message, "stepUnits", "m")
        start = eccodes.codes_get(message, "startStep", ktype=int) * 60
        found.append([start, start if until is None else until])
        eccodes.codes_release(message)
        at = data.find(b"GRIB", at + length)
    return found


@pytest.mark.parametrize(
    "name", [name for name, kind in FILES.items() if kind in {GRIB2, GRID} and ".gz" not in name]
)
def test_real_steps_are_those_of_eccodes(name: str) -> None:
    """Number and steps of the messages of real files are those that ecCodes finds."""
    header, issues = read_near(GRID, content(name))
    expected = told(name)
    assert (header["messages"], issues) == (len(expected), ())
    steps = header.get("steps_s", [[header["forecast_time_s"], expected[0][1]]])
    assert steps == sorted({tuple(step): step for step in expected}.values())


def test_an_index_names_the_places_of_the_messages() -> None:
    """The lines of a real index begin where messages do, all of them."""
    lines: list[IndexLine] = []
    for name in ("gfs/gfs.t06z.pgrb2.10p0.f010.grib2", "gfs/gfswave.t18z.atlocn.0p16.f001.grib2"):
        lines = read_index(content(f"{name}.idx").decode())
        data = content(name)
        assert all(data.startswith(b"GRIB", offset) for offset in offsets_of(lines))
        assert len(offsets_of(lines)) == read_near(GRIB2, data)[0]["messages"]
    assert lines[2].offset == 100527
    assert (lines[2].variable, lines[2].level, lines[2].step) == ("UGRD", "surface", "1 hour fcst")
    assert lines[2].reference == datetime(2023, 8, 23, 18, tzinfo=UTC)


def test_fields_of_one_message_share_its_place() -> None:
    """Lines of a message with two fields have one offset."""
    text = "1:0:d=2026060112:A:x:anl:\n2.1:50:d=2026060112:U:x:anl:\n2.2:50:d=2026060112:V:x:anl:\n"
    assert offsets_of(read_index(text)) == [0, 50]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1:0:d=2026060112:A:x:anl:\nrubbish\n", "line 2"),
        ("1:0:d=2026133112:A:x:anl:\n", "line 1"),
        ("1:90:d=2026060112:A:x:anl:\n2:10:d=2026060112:B:x:anl:\n", "line 2"),
    ],
)
def test_a_bad_index_is_refused_with_its_place(text: str, place: str) -> None:
    """A line that is none, an impossible time and an offset that goes back are refused."""
    with pytest.raises(InvalidInput, match=place):
        read_index(text)

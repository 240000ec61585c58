from __future__ import annotations

import eccodes
import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence.samples import grib2, read

GRIB2 = FileFormat.GRIB2


def test_a_message_of_eccodes_is_told() -> None:
    """Centre, times, grid and product are those that ecCodes was told to write."""
    data = grib2(
        centre=7,
        subCentre=2,
        dataDate=20260601,
        dataTime=1230,
        productionStatusOfProcessedData=1,
        typeOfProcessedData=1,
        parameterCategory=2,
        parameterNumber=3,
        forecastTime=18,
    )
    assert read(GRIB2, data) == (
        {
            "format": "grib2",
            "edition": 2,
            "discipline": 0,
            "centre": 7,
            "subcentre": 2,
            "reference_time": "2026-06-01T12:30:00.000000Z",
            "reference_time_significance": 1,
            "production_status": 1,
            "data_type": 1,
            "grid": {"template": 0, "points": 496, "nx": 16, "ny": 31},
            "product": {"template": 0, "category": 2, "number": 3},
            "forecast_time_s": 64800,
            "valid_start": "2026-06-02T06:30:00.000000Z",
            "valid_end": "2026-06-02T06:30:00.000000Z",
            "messages": 1,
            "complete": True,
        },
        (),
    )


@pytest.mark.parametrize(
    ("unit", "length", "seconds"),
    [(0, 15, 900), (1, -5, -18000), (2, 2, 172800), (10, 2, 21600), (13, 30, 30)],
)
def test_forecast_times_are_in_units(unit: int, length: int, seconds: int) -> None:
    """A forecast time counts minutes, hours, days, 3 hours or seconds, and may be negative."""
    data = grib2(indicatorOfUnitForForecastTime=unit, forecastTime=length)
    assert read(GRIB2, data)[0]["forecast_time_s"] == seconds


def test_a_unit_without_fixed_length_is_left_out() -> None:
    """A forecast of so many months gives no time in seconds."""
    header, issues = read(GRIB2, grib2(indicatorOfUnitForForecastTime=3, forecastTime=1))
    assert "forecast_time_s" not in header
    assert issues == ()


@pytest.mark.parametrize("template", [8, 9, 10, 11, 12])
def test_an_interval_has_an_end(template: int) -> None:
    """The end of an interval is found in every template that has one."""
    end = {"year": 2026, "month": 6, "day": 2, "hour": 18, "minute": 30, "second": 15}
    keys = {f"{name}OfEndOfOverallTimeInterval": value for name, value in end.items()}
    data = grib2(
        dataDate=20260601, productDefinitionTemplateNumber=template, forecastTime=6, **keys
    )
    header, issues = read(GRIB2, data)
    assert header["valid_start"] == "2026-06-01T18:00:00.000000Z"
    assert header["valid_end"] == "2026-06-02T18:30:15.000000Z"
    assert issues == ()


def test_the_messages_of_a_small_file_are_counted() -> None:
    """Where all messages can be seen their number is known, and the first one is described."""
    data = grib2(forecastTime=1) + grib2(forecastTime=2) + grib2(forecastTime=3)
    header, issues = read(GRIB2, data)
    assert (header["messages"], header["forecast_time_s"], issues) == (3, 3600, ())


def test_the_messages_of_a_large_file_are_taken_on_trust() -> None:
    """Where a message begins between head and tail, the end of the last one must be there."""
    data = b"".join(large(number) for number in range(3))
    header, issues = read(GRIB2, data)
    assert (header["messages"], header["complete"], issues) == (None, True, ())
    header, issues = read(GRIB2, data[:-1])
    assert (header["complete"], issues) == (False, ("size_too_small",))


def large(forecast: int) -> bytes:
    """Return a message that is longer than a head."""
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(message, "bitsPerValue", 16)
    for name, value in (("Ni", 90), ("Nj", 90), ("forecastTime", forecast)):
        eccodes.codes_set(message, name, value)
    eccodes.codes_set_values(message, [float(number % 977) for number in range(8100)])
    data = bytes(eccodes.codes_get_message(message))
    eccodes.codes_release(message)
    assert len(data) > 5000
    return data


def test_a_missing_byte_is_seen() -> None:
    """A message that is one byte short is too small."""
    header, issues = read(GRIB2, grib2()[:-1])
    assert (header["complete"], issues) == (False, ("size_too_small",))


def test_a_byte_too_many_is_seen() -> None:
    """Bytes behind a message that are no message make the file too large."""
    assert read(GRIB2, grib2() + b"\0")[1] == ("size_too_large",)
    assert read(GRIB2, grib2() + b"G" + grib2())[1] == ("size_too_large",)


def test_a_second_message_that_is_cut_is_seen() -> None:
    """A file that breaks off anywhere in its second message is too small."""
    first = grib2()
    for length in range(1, len(first)):
        assert read(GRIB2, first + first[:length])[1] == ("size_too_small",), length


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (7, 1),  # edition 1
        (8, 0),  # replaced below: length of zero
        (20, 9),  # section number
        (30, 13),  # month
        (-1, 0),  # end mark
    ],
)
def test_damage_is_seen(place: int, value: int) -> None:
    """A message whose fixed parts are not as the standard has them is not sound."""
    data = bytearray(grib2())
    data[place] = value
    if place == 8:
        data[8:16] = bytes(8)
    assert read(GRIB2, bytes(data))[1] == ("content_type_invalid",)


@pytest.mark.parametrize("padding", [b"\0", b"\n", b"\r\n", bytes(8)])
def test_padding_between_messages_is_stepped_over(padding: bytes) -> None:
    """A few blank bytes between messages are no damage; at the end they are too many."""
    one = grib2()
    header, issues = read(GRIB2, one + padding + one + padding + grib2(forecastTime=6))
    assert (header["messages"], header["complete"], issues) == (3, True, ())
    assert header["steps_s"] == [[0, 0], [6 * 3600, 6 * 3600]]
    assert read(GRIB2, one + padding + one + padding)[1] == ("size_too_large",)
    assert read(GRIB2, one + padding + one[:-1])[1] == ("size_too_small",)
    assert read(GRIB2, one + padding + b"rubbish")[1] == ("size_too_large",)
    assert read(GRIB2, one + padding + bytes(8) + one)[1] == ("size_too_large",)

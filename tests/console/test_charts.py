from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tallgrass.console.charts import meter, sparkline, stacked


def parts(svg: str) -> ET.Element:
    """Read an image back; it must be well-formed."""
    return ET.fromstring(svg)  # noqa: S314 - made by the function under test


def test_parts_of_a_whole_share_the_width() -> None:
    """By hand: 3 of 4 are three quarters, in the given order, and what is none is not drawn."""
    image = parts(stacked({"succeeded": 3, "pending": 0, "failed": 1}, name="Units"))
    drawn = [(each.get("class"), each.get("x"), each.get("width")) for each in image.iter("rect")]
    assert drawn == [("fill-succeeded", "0.00", "750.00"), ("fill-failed", "750.00", "250.00")]


def test_one_among_a_million_can_be_seen() -> None:
    """A part that is there is at least a hundred-and-fiftieth wide; the whole stays the whole."""
    image = parts(stacked({"succeeded": 999_999, "failed": 1}, name="Units"))
    widths = [float(str(each.get("width"))) for each in image.iter("rect")]
    assert widths[1] == pytest.approx(1000 / 150, abs=0.01)
    assert sum(widths) == pytest.approx(1000, abs=0.02)


def test_an_image_says_what_it_shows() -> None:
    """Name and numbers are its label, its title and its description, for who does not see it."""
    image = parts(stacked({"succeeded": 1200, "failed": 0}, name="Units by state"))
    assert image.get("role") == "img"
    assert image.get("aria-label") == "Units by state: 1,200 succeeded"
    assert [each.text for each in image][:2] == ["Units by state", "1,200 succeeded"]


def test_a_line_goes_from_zero_up() -> None:
    """By hand: 0, 5, 10 are the ground, the middle and the top, two units off the edges."""
    image = parts(sparkline([0, 5, 10], name="Rate", told="latest 10"))
    line = next(image.iter("polyline")).get("points")
    assert line == "0.0,98.0 500.0,50.0 1000.0,2.0"


@pytest.mark.parametrize("values", [[0.0], [7.0], [0.0, 0.0]])
def test_little_or_nothing_is_a_line_too(values: list[float]) -> None:
    """One value, or none above zero, still draws from side to side."""
    image = parts(sparkline(values, name="Rate", told="x"))
    points = str(next(image.iter("polyline")).get("points")).split()
    assert points[0].startswith("0.0,")
    assert points[-1].startswith("1000.0,")


def test_nothing_at_all_is_no_image() -> None:
    """Without a value there is nothing to draw."""
    assert sparkline([], name="Rate", told="") == ""


@pytest.mark.parametrize(("share", "width"), [(0.25, "250.00"), (-3.0, "0.00"), (1.5, "1000.00")])
def test_a_meter_stays_within_its_bounds(share: float, width: str) -> None:
    """An overspent budget is an empty meter."""
    image = parts(meter(share, name="Left", level="zone-red"))
    assert [each.get("width") for each in image.iter("rect")] == ["1000", width]


def test_names_of_others_are_text() -> None:
    """Markup in a label is escaped."""
    label = '"><script>'
    image = parts(meter(0.5, name=label, level="zone-red"))
    assert label in [each.text for each in image.iter("title")]
    assert parts(stacked({'x" onload="y': 1}, name=label)).find("rect") is not None

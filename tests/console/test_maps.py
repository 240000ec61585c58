from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from typing import Any

import pytest

from tallgrass.console.maps import WHOLE, Shape, coastlines, view_of, world_map
from tests.support.catalog import rectangle


def drawn(geometry: dict[str, Any], *, title: str = "it") -> ET.Element:
    """Draw one shape on the whole world and read the picture back."""
    shape = Shape(geometry=geometry, kind="kind-0", title=title)
    svg = world_map([shape], WHOLE, name="Map", told="one shape")
    return ET.fromstring(svg)  # noqa: S314 - made by the function under test


def paths(image: ET.Element, kind: str) -> list[str]:
    """Return the paths of a class."""
    return [str(each.get("d")) for each in image.iter("path") if each.get("class") == kind]


def rings() -> list[list[tuple[int, int]]]:
    """Walk along the steps of the coastlines by hand."""
    found = []
    for path in coastlines().split("M")[1:]:
        numbers = [int(each) for each in re.findall(r"-?\d+", path)]
        x, y = numbers[:2]
        ring = [(x, y)]
        for dx, dy in zip(numbers[2::2], numbers[3::2], strict=True):
            x, y = x + dx, y + dy
            ring.append((x, y))
        found.append(ring)
    return found


def is_land(longitude: float, latitude: float) -> bool:
    """Count how often a line from a place to the east meets a coast."""
    x, y = (longitude + 180) * 10, (90 - latitude) * 10
    crossed = 0
    for ring in rings():
        for (x0, y0), (x1, y1) in zip(ring, [*ring[1:], ring[0]], strict=True):
            if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
                crossed += 1
    return crossed % 2 == 1


def test_the_coastlines_are_those_of_the_earth() -> None:
    """Places known to lie on land do, others do not, also beside both edges and at the pole."""
    land = {"Kansas": (-98, 38.5), "Ulaanbaatar": (107, 48), "Alice Springs": (134, -24),
            "Chukotka": (-175, 66.8), "Anadyr": (175, 66.5), "Antarctica": (5, -88)}  # fmt: skip
    sea = {"Hawaii's south": (-155, 10), "the Indian Ocean": (80, -30), "the North Pole": (0, 89),
           "the date line": (179.5, 0), "the Gulf of Mexico": (-90, 25)}  # fmt: skip
    assert {name for name, place in land.items() if not is_land(*place)} == set()
    assert {name for name, place in sea.items() if is_land(*place)} == set()


def test_the_coastlines_are_small_and_say_where_they_are_from() -> None:
    """Their file is below 60 kB and names its origin."""
    body = files("tallgrass.console").joinpath("data", "coastlines.json").read_bytes()
    assert len(body) < 60_000
    assert "Natural Earth" in json.loads(body)["origin"]


def test_a_footprint_over_the_antimeridian_is_drawn_at_both_edges_without_a_line_at_the_cut() -> (
    None
):
    """By hand: 170° E to 170° W, 10° S to 20° N, in tenths of a degree from the upper left."""
    image = drawn(rectangle((170.0, -10.0, -170.0, 20.0)) or {})
    (area,) = paths(image, "area")
    assert area == (
        "M3500 1000 3600 1000 3600 700 3500 700 3500 1000z M0 1000 100 1000 100 700 0 700 0 1000z"
    )
    (outline,) = paths(image, "outline")
    assert outline == (
        "M3500 1000 3600 1000 M3600 700 3500 700 3500 1000 M0 1000 100 1000 100 700 0 700"
    )


def test_a_view_over_the_antimeridian_shows_both_sides_in_one_piece() -> None:
    """What lies beyond 180° is drawn again, 360° further east."""
    view = view_of((170.0, -10.0, -170.0, 20.0))
    assert view.west < 170
    assert 190 < view.east < 230
    shape = Shape(geometry=rectangle((170.0, -10.0, -170.0, 20.0)) or {}, kind="kind-0", title="it")
    svg = str(world_map([shape], view, name="Map", told="one"))
    assert svg.count('class="footprint kind-0"') == 2
    assert svg.count('<g transform="translate(3600 0)">') == 2


@pytest.mark.parametrize(
    ("box", "west", "east"),
    [((-100.0, 30.0, -90.0, 40.0), -107.0, -83.0), ((-179.0, -10.0, -178.0, -9.0), 169.5, 193.5)],
)
def test_a_small_box_is_shown_with_what_is_around_it(
    box: tuple[float, float, float, float], west: float, east: float
) -> None:
    """A view is at least 24° wide, has the box in its middle, and begins on the map."""
    view = view_of(box)
    assert (view.west, view.east) == pytest.approx((west, east))
    assert view.south < box[1]
    assert box[3] < view.north


def test_what_spans_most_of_the_world_is_shown_on_all_of_it() -> None:
    """So is what has no place."""
    assert view_of((-180.0, -90.0, 180.0, 90.0)) == view_of(None) == WHOLE


@pytest.mark.parametrize(
    ("geometry", "outline"),
    [
        ({"type": "Point", "coordinates": [0, 0]}, "M1800 900h0"),
        ({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, "M1800 900 1810 890"),
        ({"type": "MultiPoint", "coordinates": [[0, 0], [9, 0]]}, "M1800 900h0 M1890 900h0"),
        (
            {
                "type": "GeometryCollection",
                "geometries": [
                    {"type": "Point", "coordinates": [-180, 90]},
                    {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 0]]]},
                ],
            },
            "M1800 900 1810 900 M0 0h0",
        ),
    ],
)
def test_every_kind_of_geometry_is_drawn(geometry: dict[str, Any], outline: str) -> None:
    """Points and lines have no area."""
    image = drawn(geometry)
    assert paths(image, "outline") == [outline]
    assert paths(image, "area") == []


def test_words_on_a_map_are_never_markup() -> None:
    """An item's name is somebody else's text."""
    image = drawn({"type": "Point", "coordinates": [0, 0]}, title='<script>"&')
    assert '<script>"&' in [each.text for each in image.iter("title")]
    assert list(image.iter("script")) == []

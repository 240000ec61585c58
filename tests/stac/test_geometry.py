from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.stac.geometry import box_of, geometry_of

LONGITUDE = st.floats(-180, 180)
LATITUDE = st.floats(-90, 90)


def area(ring: list[list[float]]) -> float:
    """Return the signed area of a ring; counter-clockwise is positive."""
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairwise(ring)) / 2


def test_a_box_is_one_counter_clockwise_closed_ring() -> None:
    """The exterior ring starts and ends at the south-west corner."""
    assert geometry_of((-141.56, -66.56, -8.44, 66.56)) == {
        "type": "Polygon",
        "coordinates": [
            [
                [-141.56, -66.56],
                [-8.44, -66.56],
                [-8.44, 66.56],
                [-141.56, 66.56],
                [-141.56, -66.56],
            ]
        ],
    }


def test_a_box_across_the_antimeridian_is_two_polygons() -> None:
    """GOES-18 sees both sides of 180 degrees: each side is a polygon of its own."""
    assert geometry_of((156.44, -66.56, -70.44, 66.56)) == {
        "type": "MultiPolygon",
        "coordinates": [
            [
                [
                    [156.44, -66.56],
                    [180.0, -66.56],
                    [180.0, 66.56],
                    [156.44, 66.56],
                    [156.44, -66.56],
                ]
            ],
            [
                [
                    [-180.0, -66.56],
                    [-70.44, -66.56],
                    [-70.44, 66.56],
                    [-180.0, 66.56],
                    [-180.0, -66.56],
                ]
            ],
        ],
    }


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        ((10.0, 20.0, 10.0, 20.0), "Point"),
        ((10.0, 20.0, 10.0, 30.0), "LineString"),
        ((170.0, 0.0, -180.0, 1.0), "Polygon"),
        ((180.0, 0.0, -170.0, 1.0), "Polygon"),
        ((-180.0, -90.0, 180.0, 90.0), "Polygon"),
    ],
)
def test_boxes_without_extent_and_at_the_edge(box: Any, kind: str) -> None:
    """A box that is a point, a line or ends at the antimeridian makes no empty polygon."""
    assert geometry_of(box)["type"] == kind


@pytest.mark.parametrize(
    "values",
    [
        None,
        "text",
        [1, 2, 3],
        [1, 2, 3, 4, 5],
        [0, 10, 1, -10],
        [-180.1, 0, 0, 1],
        [0, -91, 1, 0],
        [0, 0, float("nan"), 1],
        [0, 0, float("inf"), 1],
        [0, 0, True, 1],
        [0, 0, "1", 1],
    ],
)
def test_what_is_no_place_on_earth_is_refused(values: object) -> None:
    """Swapped latitudes, numbers that are none and degrees beyond the globe make no box."""
    with pytest.raises(InvalidInput):
        box_of(values)


def test_degrees_are_rounded_and_never_minus_zero() -> None:
    """Six digits; zero has one spelling, so equal places have equal bytes."""
    assert str(box_of([-0.0, -0.00000001, 1.23456749, 1])) == "(0.0, 0.0, 1.234567, 1.0)"


@given(LONGITUDE, LATITUDE, LONGITUDE, LATITUDE)
def test_every_ring_is_closed_counter_clockwise_and_within_the_globe(
    west: float, south: float, east: float, north: float
) -> None:
    """Whatever the box, each ring is a ring of RFC 7946, and together they are the box."""
    south, north = sorted((south, north))
    box = box_of((west, south, east, north))
    geometry: Any = geometry_of(box)
    if geometry["type"] not in {"Polygon", "MultiPolygon"}:
        return
    polygons = geometry["coordinates"]
    rings = [polygons[0]] if geometry["type"] == "Polygon" else [each[0] for each in polygons]
    width = box[2] - box[0] if box[0] < box[2] else 360 + box[2] - box[0]
    for ring in rings:
        assert ring[0] == ring[-1]
        assert len(ring) == 5
        assert area(ring) >= 0
        assert all(-180 <= x <= 180 and -90 <= y <= 90 for x, y in ring)
    total = sum(area(ring) for ring in rings)
    assert total == pytest.approx(width * (box[3] - box[1]), abs=1e-6)

"""Rings on the Earth as GeoJSON; shapely judges, by other ways than the package's."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shapely.geometry import Point, Polygon, shape

from tallgrass.errors import InvalidInput
from tallgrass.stac.footprint import POINTS_MAX, footprint_of
from tallgrass.stac.geometry import geometry_of

SQUARE = [[0, 0], [10, 0], [10, 10], [0, 10]]


def test_a_ring_becomes_a_closed_counter_clockwise_polygon() -> None:
    """Given in either direction, open or closed, it is the same ring of RFC 7946."""
    expected = {
        "type": "Polygon",
        "coordinates": [[[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0], [0.0, 0.0]]],
    }
    found = footprint_of(SQUARE)
    assert (found.geometry, found.box) == (expected, (0.0, 0.0, 10.0, 10.0))
    assert footprint_of([*SQUARE, SQUARE[0]]) == found
    turned: Any = footprint_of(SQUARE[::-1]).geometry
    assert Polygon(turned["coordinates"][0]).exterior.is_ccw


def test_a_ring_across_the_antimeridian_is_two_polygons_that_meet_there() -> None:
    """Both parts end at exactly ±180 with the same latitudes; the box's west lies east."""
    found = footprint_of([[170, -10], [-170, -20], [-160, 10], [170, 10]])
    west, east = (
        [[180.0, 10.0], [170.0, 10.0], [170.0, -10.0], [180.0, -15.0], [180.0, 10.0]],
        [
            [-180.0, -15.0],
            [-170.0, -20.0],
            [-160.0, 10.0],
            [-180.0, 10.0],
            [-180.0, -15.0],
        ],
    )
    assert found.geometry == {"type": "MultiPolygon", "coordinates": [[west], [east]]}
    assert found.box == (170.0, -20.0, -160.0, 10.0)


@pytest.mark.parametrize(
    ("ring", "box"),
    [
        ([[170, 0], [-180, 0], [-180, 10]], (170.0, 0.0, 180.0, 10.0)),
        ([[180, 0], [-170, 0], [-170, 10], [-180, 10]], (-180.0, 0.0, -170.0, 10.0)),
    ],
)
def test_a_ring_that_ends_at_the_antimeridian_is_one_polygon(
    ring: Any, box: tuple[float, ...]
) -> None:
    """Whichever sign its 180 has, it lies on its own side."""
    found: Any = footprint_of(ring)
    assert found.geometry["type"] == "Polygon"
    assert found.box == box == shape(found.geometry).bounds


@pytest.mark.parametrize("pole", [90.0, -90.0])
def test_a_ring_round_a_pole_runs_along_the_antimeridian_to_it(pole: float) -> None:
    """One polygon, from -180 to 180 and up to the pole; the box says the same."""
    sign = math.copysign(1, pole)
    ring = [[0, sign * 70], [90, sign * 70], [180, sign * 75], [-90, sign * 70]]
    found = footprint_of(ring)
    geometry: Any = found.geometry
    assert geometry["type"] == "Polygon"
    assert found == footprint_of(ring[::-1])
    points = geometry["coordinates"][0]
    for edge in (-180.0, 180.0):
        assert [edge, pole] in points
        assert [edge, sign * 75.0] in points
    low, high = sorted((sign * 70.0, pole))
    assert found.box == (-180.0, low, 180.0, high)
    outline = shape(geometry)
    assert outline.is_valid
    assert outline.exterior.is_ccw
    # 3 of 4 quarters slope by 5 degrees or not: 2 × 90 × 20 + 2 × 90 × 17.5 square degrees.
    assert outline.area == pytest.approx(2 * 90 * 20 + 2 * 90 * 17.5)


def test_a_ring_that_meets_the_antimeridian_thrice_round_a_pole_is_cut_each_time() -> None:
    """What lies beyond the edge of the map comes back on its other side."""
    ring = [[0, 60], [90, 60], [170, 60], [-170, 65], [170, 70], [-170, 75], [-90, 70]]
    found = footprint_of(ring)
    parts = shape(found.geometry)
    assert parts.is_valid
    assert [part.bounds for part in parts.geoms] == [
        (-180.0, 60.0, 180.0, 90.0),
        (-180.0, 62.5, -170.0, 67.5),
    ]
    assert parts.contains(Point(-175, 65))
    assert not parts.contains(Point(175, 70))


def test_a_pole_is_reached_along_meridians() -> None:
    """A pole has no longitude of its own: the ring goes up one neighbour's and down the other's."""
    found: Any = footprint_of([[-30, 80], [30, 80], [0, 90]])
    assert found.geometry["coordinates"][0] == [
        [-30.0, 80.0],
        [30.0, 80.0],
        [30.0, 90.0],
        [-30.0, 90.0],
        [-30.0, 80.0],
    ]


def test_a_ring_all_round_the_earth_between_two_parallels_is_a_whole_box() -> None:
    """360 degrees wide, it is as the box of the same sides, wherever it begins."""
    longitudes = [*range(-180, 181, 60)]
    ring = [*([x, -60] for x in longitudes), *([x, 60] for x in reversed(longitudes))]
    found = footprint_of(ring)
    assert found.box == (-180.0, -60.0, 180.0, 60.0)
    assert shape(found.geometry).equals(shape(geometry_of(found.box)))


@pytest.mark.parametrize(
    ("ring", "reason"),
    [
        ([[0, 0], [10, 10], [10, 0], [0, 10]], "crosses or touches itself"),
        ([[0, 0], [10, 0], [5, 0], [5, 5]], "crosses or touches itself"),
        ([[0, 0], [10, 0], [10, 10], [5, 0], [0, 10]], "crosses or touches itself"),
        ([[0, 0], [10, 0], [0.0000001, 0.0000001]], "fewer than three different points"),
        ([[0, 0], [1e-6, 0], [0, 1e-6]], "no area"),
        ([[0, 0], [180, 0], [90, 10]], "half way round"),
        ([[-180, -90], [180, -90], [180, 90], [-180, 90]], "crosses or touches itself"),
        ([[0, 10], [120, -10], [-120, 0]], "as near to one pole as the other"),
        ([[0, 10], [120, -10], [-120, 0], [1, 20], [121, -20], [-119, 1]], "more than once"),
        ([[0, 70], [120, 70], [-120, 90], [-119, 80]], "round a pole and through it"),
        ([[0, 0], [10, 0]], "3 to 64 points, not 2"),
        ([[n, n * n] for n in range(POINTS_MAX + 1)], "3 to 64 points, not 65"),
        ([[0, 0], [10, 0], [10, 91]], "beyond 180 or 90"),
        ([[0, 0], [181, 0], [10, 9]], "beyond 180 or 90"),
        ([[0, 0], [10, 0], [10, float("nan")]], "beyond 180 or 90"),
        ([[0, 0], [10, 0], [10, True]], "not numbers"),
        ([[0, 0], [10, 0], [10, "5"]], "not numbers"),
        ([[0, 0], [10, 0], [10, 5, 5]], "not longitude and latitude"),
        ([1, 2, 3], "not pairs of numbers"),
        ([[0, 0], [10, 0], [10, [5]]], "not pairs of numbers"),
        ("ring", "not a list of points"),
        (None, "not a list of points"),
    ],
)
def test_what_is_no_ring_is_refused_with_the_reason(ring: object, reason: str) -> None:
    """Never a wrong geometry: an error that says what is wrong."""
    with pytest.raises(InvalidInput, match=reason):
        footprint_of(ring)


def test_degrees_have_six_digits_and_no_minus_zero() -> None:
    """Equal places have equal bytes."""
    found: Any = footprint_of([[-0.0, -0.0], [1.23456749, 0], [1, 1]])
    assert str(found.geometry["coordinates"][0][:2]) == "[[0.0, 0.0], [1.234567, 0.0]]"


def test_a_footprint_that_comes_again_is_the_same_object() -> None:
    """Feeds repeat theirs; it is made once."""
    assert footprint_of(SQUARE) is footprint_of([list(point) for point in SQUARE])


# --- any ring, judged by shapely ------------------------------------------------------------------

RADII = st.lists(st.floats(0.3, 1.0), min_size=5, max_size=20)


def wrapped(x: float) -> float:
    """Return a longitude on the map."""
    return (x + 180.0) % 360.0 - 180.0


@given(
    RADII,
    st.sampled_from([0.0, 180.0]),
    st.tuples(st.floats(-30, 30), st.floats(-55, 55)),
    st.floats(1, 30),
    st.sampled_from([1, -1]),
)
def test_any_star_lies_where_the_plane_has_it(
    radii: list[float], near: float, at: tuple[float, float], size: float, direction: int
) -> None:
    """Valid, counter-clockwise, of the same area and box as the ring on a plane of its own."""
    lon, lat = round(wrapped(near + at[0]), 4), round(at[1], 4)
    angles = [2 * math.pi * number / len(radii) for number in range(len(radii))]
    ring = [
        (round(size * r * math.cos(a), 4), round(size * r * math.sin(a), 4))
        for a, r in zip(angles, radii, strict=True)
    ]
    points = [[round(wrapped(lon + x), 4), round(lat + y, 4)] for x, y in ring]
    found = footprint_of(points[::direction])
    outline, plain = shape(found.geometry), Polygon(ring)
    assert outline.is_valid
    assert outline.area == pytest.approx(plain.area, rel=1e-5)
    parts = [outline] if outline.geom_type == "Polygon" else list(outline.geoms)
    assert all(part.exterior.is_ccw for part in parts)
    west, south, east, north = found.box
    assert (west > east) == (len(parts) > 1)
    assert ((east - west) % 360, north - south) == pytest.approx(
        (plain.bounds[2] - plain.bounds[0], plain.bounds[3] - plain.bounds[1]), abs=2e-4
    )
    if len(parts) > 1:
        edges = {
            side: sorted(y for part in parts for x, y in part.exterior.coords if x == side)
            for side in (180.0, -180.0)
        }
        assert set(edges[180.0]) == set(edges[-180.0]) != set()


@given(
    st.lists(st.tuples(st.floats(-60, 60), st.floats(30, 88)), min_size=3, max_size=12),
    st.floats(-180, 180),
    st.sampled_from([1.0, -1.0]),
    st.lists(st.tuples(st.floats(-179, 179), st.floats(20, 89)), min_size=5, max_size=5),
)
def test_any_ring_round_a_pole_holds_what_the_polar_plane_says(
    steps: list[tuple[float, float]], start: float, sign: float, probes: list[tuple[float, float]]
) -> None:
    """A point is inside where the ring, drawn around the pole, goes round it."""
    # The last steps complete the turn; whatever crosses itself is refused, and judged elsewhere.
    left = 360.0 - sum(step for step, _ in steps)
    more = max(1, math.ceil(abs(left) / 100))
    x, ring = start, []
    for step, y in [*steps, *[(left / more, 50.0)] * more]:
        ring.append((round(wrapped(x), 4), round(sign * y, 4)))
        x += step
    try:
        found = footprint_of(ring)
    except InvalidInput as exc:
        assume("itself" not in str(exc))
        raise
    outline = shape(found.geometry)
    assert outline.is_valid
    assert found.box[0::2] == (-180.0, 180.0)
    assert (found.box[1] if sign < 0 else found.box[3]) == sign * 90.0
    polar = polar_outline(ring)
    for lon, lat in probes:
        here = Point(on_polar_plane(lon, sign * lat))
        if polar.exterior.distance(here) > 0.3:
            assert outline.contains(Point(lon, sign * lat)) == polar.contains(here)


def on_polar_plane(lon: float, lat: float) -> tuple[float, float]:
    """Return the place around the pole, as far from it as on the Earth."""
    away = 90.0 - abs(lat)
    return away * math.cos(math.radians(lon)), away * math.sin(math.radians(lon))


def polar_outline(ring: list[tuple[float, float]]) -> Polygon:
    """Return the ring with many points between, around the pole."""
    points = []
    for (x1, y1), (x2, y2) in pairwise([*ring, ring[0]]):
        step = wrapped(x2 - x1)
        points += [
            on_polar_plane(x1 + part / 50 * step, y1 + part / 50 * (y2 - y1)) for part in range(50)
        ]
    return Polygon(points)


@given(
    st.lists(
        st.tuples(st.integers(-180, 180), st.integers(-80, 80)), min_size=3, max_size=6, unique=True
    )
)
def test_whatever_comes_out_is_valid(ring: list[tuple[int, int]]) -> None:
    """Points at random mostly make no ring; where they do, shapely finds nothing wrong with it."""
    try:
        found = footprint_of(ring)
    except InvalidInput:
        return
    outline = shape(found.geometry)
    assert outline.is_valid
    assert outline.area > 0
    west, south, east, north = found.box
    lowest, low, highest, high = outline.bounds
    assert (south, north) == (low, high)
    assert (lowest, highest) == ((-180.0, 180.0) if west > east else (west, east))


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=3, max_size=8, unique=True
    ),
    st.sampled_from([-6, 60, 174, -180]),
)
def test_what_shapely_takes_for_a_ring_is_one_here_too(
    ring: list[tuple[int, int]], shift: int
) -> None:
    """Refused are just the rings that shapely refuses, wherever on the Earth they lie."""
    plain = Polygon(ring)
    try:
        found = footprint_of([[wrapped(x + shift), y] for x, y in ring])
    except InvalidInput:
        assert not plain.is_valid
        return
    assert plain.is_valid
    assert shape(found.geometry).area == pytest.approx(plain.area, rel=1e-5)
